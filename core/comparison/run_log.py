"""The log of a comparison: a file to which each finished run is appended at once, so that none is made twice.

A line is a run with a key: its tuner and settings, and the content of its problem. A killed process leaves at most a
torn last line, which is skipped. Runs with other keys stay in the file; one file may serve several comparisons.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pegbox.checks import check_path
from pegbox.comparison.experiment import Experiment, RunSpec
from pegbox.comparison.jsonform import finite, run_from_json, run_to_json
from pegbox.comparison.runs import Run, Setup, TaskInfo
from pegbox.digest import sha256
from pegbox.errors import RecordError
from pegbox.output import MAKE_ROOM, Content, check_output
from pegbox.records.document import NotJson, read_document
from pegbox.records.journal import RecordWarning

LOG = Content("a log of runs, as compare(log=...) writes", re.compile(rb'\s*\{\s*"key"\s*:'))


class RunLog:
    """The log at `path`; `find` returns the run of a spec that the file already holds.

    Raises `ArgumentError` for a file that cannot be written or is something else, `RecordError` for a damaged line.
    """

    def __init__(self, path: str | os.PathLike[str], experiment: Experiment) -> None:
        self.path = check_path("log", path)
        check_output(self.path, LOG)
        plan = experiment.plan
        self._keys = {
            spec: _key(benchmark.info, spec, plan.trials, plan.start, plan.experience, plan.batch_size)
            for task, benchmark in experiment.benchmarks.items()
            for spec in experiment.specs(task)
        }
        self._runs = dict(_read(self.path))

    def find(self, spec: RunSpec) -> Run | None:
        """Find the finished run."""
        return self._runs.get(self._keys[spec])

    def append(self, spec: RunSpec, run: Run) -> None:
        """Write the run, and hand it to the operating system before returning.

        Raises `RecordError` if the file cannot be written.
        """
        line = json.dumps({"key": self._keys[spec], "run": finite(run_to_json(run))}, allow_nan=False)
        try:
            torn = self.path.is_file() and not _ends_with_newline(self.path)
            with self.path.open("ab") as file:
                file.write(b"\n" * torn + line.encode() + b"\n")
        except OSError as error:
            raise RecordError(f"cannot write to the log {str(self.path)!r}: {error.strerror}; {MAKE_ROOM}") from error


def longest_runs(path: str | os.PathLike[str], setup: Setup, budgets: Sequence[int]) -> list[Run]:
    """Return the longest run in the log at `path` for each task of the setup, tuner and seed.

    A run counts if a comparison with this setup, and with one of the `budgets` as its trials, would take it from the
    log. So runs on a task whose content has changed are left out. Raises as `RunLog` does.
    """
    infos = {task.name: task for task in setup.tasks}
    found: dict[RunSpec, Run] = {}
    runs = _read(check_path("log", path))
    for spec in dict.fromkeys(RunSpec(run.task, run.tuner, run.seed) for run in runs.values() if run.task in infos):
        for trials in sorted(budgets):
            key = _key(infos[spec.task], spec, trials, setup.start, setup.experience)
            if key in runs:
                found[spec] = runs[key]
    return list(found.values())


def _key(
    info: TaskInfo, spec: RunSpec, trials: int, start: int, experience: bool, batch_size: int | None = None
) -> str:
    """Compute the key of a run: the content of its problem, the tuner's name, and the settings that change a run."""
    content = info.digest or f"{info.target} {info.host} {info.configurations}"
    text = json.dumps([spec.task, content, spec.tuner, spec.seed, [trials, start, experience, batch_size]])
    return str(sha256(text.encode()).hexdigest())[:32]


def _read(path: Path) -> dict[str, Run]:
    try:
        lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
    except OSError as error:
        raise RecordError(f"the log {str(path)!r} cannot be read: {error.strerror}") from None
    found: dict[str, Run] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            form: Any = read_document(line.decode())
            found[str(form["key"])] = run_from_json(form["run"])
        except (NotJson, UnicodeDecodeError):  # a line that ends early is never JSON
            warnings.warn(f"{str(path)!r}, line {number} is torn (a write was cut short): skipped", RecordWarning, 3)
        except (KeyError, TypeError, ValueError, RecordError) as error:
            raise RecordError(
                f"the log {str(path)!r}, line {number}: not a run of a comparison ({error}); remove that line"
            ) from None
    return found


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if not size:
            return True
        file.seek(size - 1)
        return file.read(1) == b"\n"
