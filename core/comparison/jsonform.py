"""Reports of comparisons as JSON files, and back: each field is checked on reading."""

from __future__ import annotations

import math
import os
import re
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, asdict, fields
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pegbox.checks import check_path
from pegbox.comparison.landscape import Landscape
from pegbox.comparison.runs import BrokenRun, Run, Setup, TaskInfo
from pegbox.errors import RecordError
from pegbox.output import Content
from pegbox.records.document import checked, config, costs, field, read_document, seconds, with_new_names
from pegbox.search.models.report import ModelReport

if TYPE_CHECKING:
    from pegbox.comparison.report import Comparison

KIND = "pegbox comparison"
REPORT = Content("the report of a comparison as JSON", re.compile(rb'\s*\{\s*"kind"\s*:\s*"' + KIND.encode() + b'"'))
VERSION = 1
"""The version of the format; a newer one is refused."""

MOST_TRIALS = 10**6
"""The largest budget of a report, since its curves are drawn trial by trial."""

_MOST = 10**100
"""The largest count. Larger integers do not fit a float."""

_T = TypeVar("_T")
_Check = Callable[[str, Any], Any]


def report_to_json(report: Comparison) -> dict[str, Any]:
    """Write plain values. Parts derived from the runs (summaries, verdicts) are for scripts, and are not read back."""
    plain = {
        "kind": KIND,
        "version": VERSION,
        "setup": asdict(report.setup),
        "best_known": {task.name: report.best_known(task.name) for task in report.tasks},
        "summaries": [asdict(summary) for summary in report.summaries()],
        "verdicts": [{**asdict(verdict), "decided": verdict.decided} for verdict in report.verdicts()],
        "words": {task.name: report.words(task.name) for task in report.tasks},
        "spaces": report.space_words(),
        "runs": [run_to_json(run) for run in report.runs],
        "broken": [asdict(run) for run in report.broken],
    }
    return dict(finite(plain))


def run_to_json(run: Run) -> dict[str, Any]:
    """Write the fields of a run."""
    return asdict(run)


def run_from_json(form: Any) -> Run:
    """Read the fields of a run, each checked. Raises `KeyError` or `ValueError` for a missing or a wrong one."""
    return _of(Run, "a run", form, _RUN)


def read_report(path: str | os.PathLike[str]) -> tuple[Setup, tuple[Run, ...], tuple[BrokenRun, ...]]:
    """Read the setup, the runs and the broken ones of a file, and check them field by field. Raises `RecordError`."""
    file = check_path("report", path, error=RecordError)
    try:
        form = read_document(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordError(
            f"the report {str(file)!r} cannot be read: {error.strerror}; name a file that report.save(path) wrote"
        ) from None
    except (ValueError, RecordError) as error:
        raise RecordError(f"{path} is not JSON: {error}") from None
    if not isinstance(form, dict) or form.get("kind") != KIND:
        raise RecordError(f"{path} is not a report of a comparison; report.save(path) writes one")
    try:
        version = field(form, "version", int)
        if version > VERSION:
            raise RecordError(f"{path} has version {version}, newer than this pegbox reads ({VERSION}): update it")
        setup = _setup_of(field(form, "setup", dict))
        broken = tuple(_of(BrokenRun, "a broken run", each, _BROKEN) for each in field(form, "broken", list, []))
        return setup, _runs_of(field(form, "runs", list), setup), broken
    except KeyError as error:
        raise RecordError(f"{path}: the field {error} is missing") from None
    except ValueError as error:
        raise RecordError(f"{path}: a field has the wrong form: {error}") from None


def finite(value: Any) -> Any:
    """Write infinities and NaN as None, tuples as lists, and keys as text."""
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _setup_of(form: Mapping[str, Any]) -> Setup:
    """Read the setup. Raises `KeyError` for a field that is missing, `ValueError` for a wrong one."""
    setup = _of(Setup, "setup", form, _SETUP)
    _check_distinct("a task", [task.name for task in setup.tasks])
    _check_distinct("a tuner", setup.tuners)
    _check_distinct("a seed", setup.seeds)
    return setup


def _runs_of(forms: Sequence[Any], setup: Setup) -> tuple[Run, ...]:
    """Read the runs of a report with this setup. Raises as `_setup_of` does."""
    runs = tuple(map(run_from_json, forms))
    known = {"task": [task.name for task in setup.tasks], "tuner": setup.tuners, "seed": setup.seeds}
    for run in runs:
        for name, values in known.items():
            if (value := getattr(run, name)) not in values:
                raise ValueError(f"a run has the {name} {reprlib.repr(value)}, but the setup does not")
        if len(run.curve) > setup.trials:
            raise ValueError(f"a run has {len(run.curve)} trials, more than the {setup.trials} of the setup")
        if len(run.times) not in (0, len(run.curve)) or list(run.times) != sorted(run.times):
            raise ValueError("a run has other times than one for each trial, in ascending order")
        if not run.curve and (setup.start or run.final_cost < math.inf):
            raise ValueError("a run has an empty curve, although it began with random trials or found something valid")
    if not runs and not setup.note:
        raise ValueError("runs is empty, without a note that gives the reason")
    _check_distinct("a run", [(run.task, run.tuner, run.seed) for run in runs])
    return runs


def _of(kind: Callable[..., _T], name: str, form: Any, checks: Mapping[str, _Check]) -> _T:
    """Make a dataclass from a JSON object, and check each of its fields."""
    given = with_new_names(checked(name, form, dict))
    if unknown := [key for key in given if key not in checks]:
        raise ValueError(f"{name} has a field {reprlib.repr(unknown[0])} that pegbox does not know")
    required = {each.name for each in fields(kind) if each.default is each.default_factory is MISSING}  # type: ignore[arg-type]
    for key in checks:
        if key in required and key not in given:
            raise KeyError(key)
    return kind(**{key: checks[key](key, value) for key, value in given.items()})


def _check_distinct(name: str, values: Sequence[Any]) -> None:
    seen: set[Any] = set()
    for value in values:
        if value in seen:
            raise ValueError(f"{name}, {reprlib.repr(value)}, is present twice")
        seen.add(value)


def _text(name: str, value: Any) -> str:
    return checked(name, value, str)


def _flag(name: str, value: Any) -> bool:
    return checked(name, value, bool)


def _count(name: str, value: Any, *, least: int = 0, most: int = _MOST) -> int:
    if not least <= checked(name, value, int) <= most:
        raise ValueError(f"{name} {reprlib.repr(value)}: a count is from {least} to {most:g}")
    return int(value)


def _amount(name: str, value: Any) -> float:
    """Read a number of operations or bytes."""
    if type(value) not in (int, float) or not 0 <= value <= _MOST:
        raise ValueError(f"{name} {reprlib.repr(value)}: a finite number, 0 or more, was expected")
    return float(value)


def _share(name: str, value: Any) -> float:
    if seconds(name, value) > 1:
        raise ValueError(f"{name} {reprlib.repr(value)}: a share is at most 1")
    return float(value)


def _correlation(name: str, value: Any) -> float:
    if type(value) not in (int, float) or not -1.0001 <= value <= 1.0001:
        raise ValueError(f"{name} {reprlib.repr(value)}: a correlation is from -1 to 1")
    return float(value)


def _cost(name: str, value: Any) -> float:
    """Read a cost, or infinity for None: nothing valid was found."""
    return math.inf if value is None else costs([value])[0]


def _optional(check: _Check, otherwise: Any, name: str, value: Any) -> Any:
    return otherwise if value is None else check(name, value)


def _each(check: _Check, name: str, value: Any, *, least: int = 0) -> tuple[Any, ...]:
    if len(checked(name, value, list)) < least:
        raise ValueError(f"{name} {reprlib.repr(value)}: at least {least} was expected")
    return tuple(check(name, item) for item in value)


def _failures(name: str, value: Any) -> dict[str, int]:
    return {kind: _count(f"{name}: {kind}", number) for kind, number in checked(name, value, dict).items()}


_MODEL: dict[str, _Check] = {
    **dict.fromkeys(("trials", "pairs"), _count),
    "pairwise_accuracy": partial(_optional, _share, math.nan),
}

_LANDSCAPE: dict[str, _Check] = {
    "knobs": _count,
    "failures": _share,
    **dict.fromkeys(("optimum", "median", "slowest", "random_trials"), _cost),
    "random": partial(_each, _cost, least=1),
    **dict.fromkeys(("autocorrelation", "fitness_distance"), partial(_optional, _correlation, math.nan)),
    "seconds": seconds,
    "sampled": _flag,
    "optima": partial(_count, least=1),
}

_TASK: dict[str, _Check] = {
    **dict.fromkeys(("name", "target", "source", "host", "unit", "computation", "apart", "digest"), _text),
    **dict.fromkeys(("flop", "bytes_moved"), _amount),
    "configurations": partial(_optional, _count, None),
    "recorded_best": partial(_optional, _cost, None),
    "landscape": partial(_optional, lambda _, value: _of(Landscape, "a landscape", value, _LANDSCAPE), None),
}

_SETUP: dict[str, _Check] = {
    **dict.fromkeys(("note", "started", "version", "suite", "suite_digest"), _text),
    "missing": partial(_each, _text),
    "tasks": partial(_each, lambda name, value: _of(TaskInfo, "a task", value, _TASK), least=1),
    "tuners": partial(_each, _text, least=1),
    "trials": partial(_count, least=1, most=MOST_TRIALS),
    "seeds": partial(_each, _count, least=1),
    "start": _count,
    "experience": _flag,
    "planned": _count,
    "jobs": partial(_count, least=1),
    "seconds": seconds,
}

_RUN: dict[str, _Check] = {
    **dict.fromkeys(("task", "tuner", "stopped_because", "host", "library"), _text),
    **dict.fromkeys(("seconds", "tuner_seconds"), seconds),
    **dict.fromkeys(("seed", "dropped"), _count),
    "curve": partial(_each, _cost),
    "final_cost": _cost,
    "config": partial(_optional, lambda _, value: config(value), None),
    "failures": _failures,
    "model": partial(_optional, lambda _, value: _of(ModelReport, "a model", value, _MODEL), None),
    "experienced": _flag,
    "run_queue_wait": _share,
    "times": partial(_each, seconds),
}

_BROKEN: dict[str, _Check] = {**dict.fromkeys(("task", "tuner", "reason"), _text), "seed": _count}
