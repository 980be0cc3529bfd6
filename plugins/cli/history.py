"""Reading of records files by the commands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pegbox.measure import WAITED, Ok, Yardstick
from pegbox.plugins.cli.exits import NothingFound
from pegbox.records import History, Journal, Record, by_run, by_task, call, latest_yardstick, trials_of
from pegbox.records import best as best_of
from pegbox.report import escaped
from pegbox.search import Gain, Objective, gain_of, lost_threads, waiting
from pegbox.task import format_cost, format_speed

if TYPE_CHECKING:
    from pegbox.space import Config
    from pegbox.task import Task


def best_config(path: Path, task: Task) -> Config:
    """The best configuration that the file holds for the task.

    Raises NothingFound when no trial of it succeeded, RecordError when the file is damaged or of another space.
    """
    history = History(Journal(path).read(), source=str(path))
    config = history.best_config(task)
    if config is None:
        raise NothingFound(history.absence(task))
    return config


@dataclass(frozen=True)
class HistorySummary:
    """All records of one task on one target: how many trials of how many runs, how many failed, the best if any.

    Trials of an emulator, `emulated` in number, are never the best. `yardstick` is what the best of the latest run was
    compared with, `gain` what the run of the best has gained; both are of the machine of the best. Of another,
    `yardstick` has only the work. `note` says that candidates with more threads than the best lost to noise.
    """

    first: Record
    trials: int
    failed: int
    best: Record | None
    yardstick: Yardstick | None = None
    gain: Gain | None = None
    runs: int = 1
    emulated: int = 0
    note: str = ""


def summaries(paths: Sequence[Path]) -> list[HistorySummary]:
    """One summary for each task, target and space in the files, in the order of first appearance.

    Raises RecordError when a file cannot be read.
    """
    return [_summary(group) for group in by_task([record for path in paths for record in Journal(path).read()])]


def as_json(found: Sequence[HistorySummary]) -> str:
    """A JSON list with one object per summary; `cost` is in seconds, None where nothing valid was found."""
    return json.dumps([_summary_json(summary) for summary in found], indent=2)


def as_text(found: Sequence[HistorySummary]) -> str:
    """A few lines per summary."""
    return "\n".join(map(_summary_text, found))


def _summary(group: Sequence[Record]) -> HistorySummary:
    trials = trials_of(group)
    failed = sum(not record.result.ok for record in trials)
    real = [record for record in group if not record.emulated]
    best = best_of(real)
    host = "" if best is None else best.host
    gain = None if best is None or best.target == Objective.target else gain_of(best, group)
    runs, emulated = len(by_run(trials)), sum(record.emulated for record in trials)
    lost = lost_threads(trials, [record for record in group if record.remeasured], best)
    return HistorySummary(group[0], len(trials), failed, best, _yardstick(group, host), gain, runs, emulated, lost)


def _yardstick(group: Sequence[Record], host: str) -> Yardstick | None:
    if (known := latest_yardstick(group, host)) is not None:
        return known
    elsewhere = latest_yardstick(group)
    return None if elsewhere is None else replace(elsewhere, numpy=None, roofline=None)


def _summary_json(summary: HistorySummary) -> dict[str, Any]:
    first, best = summary.first, summary.best
    return {
        "task": first.name,
        "ref": first.ref or None,
        "args": first.args,
        "kwargs": dict(first.kwargs),
        "target": first.target,
        "trials": summary.trials,
        "runs": summary.runs,
        "failed": summary.failed,
        "emulated": summary.emulated,
        "cost": None if best is None else best.cost,
        "config": None if best is None else best.config,
        "tuner": None if best is None else best.tuner,
        "host": None if best is None else best.host,
        "yardstick": None if summary.yardstick is None else summary.yardstick.to_json(),
    }


def _summary_text(summary: HistorySummary) -> str:
    first, best = summary.first, summary.best
    what = call(first.name, first.kwargs, first.args) + (f" of {first.ref}" if first.ref else "")
    where = ", a function of Python" if first.target == Objective.target else f" on {first.target}"
    several = f" of {summary.runs} runs" if summary.runs > 1 else ""
    emulated = f", {summary.emulated} in an emulator, whose times mean nothing" if summary.emulated else ""
    lines = [f"{what}{where}: {summary.trials} trials{several}, {summary.failed} failed{emulated}"]
    if best is None:
        return f"{lines[0]}\n  nothing valid"
    by = f" ({best.tuner}, on {best.host})" if best.tuner else ""
    lines += [f"  best: {_speed(summary, best)}{by}", *(f"  {line}" for line in _quality(summary, best))]
    lines += [f"  config {best.config.get('index')}: {_entities(best)}"]
    return "\n".join(lines)


def _speed(summary: HistorySummary, best: Record) -> str:
    known = summary.yardstick
    moved = {} if known is None else {"flop": known.flop, "bytes_moved": known.read + known.written}
    cost = format_cost(best.cost, best.unit if best.target == Objective.target else "s")
    return ", ".join(filter(None, [cost, format_speed(best.cost, **moved)]))


def _quality(summary: HistorySummary, best: Record) -> list[str]:
    """Rate the best, as far as the records allow."""
    result = best.result if isinstance(best.result, Ok) else Ok((best.cost,))
    known = summary.yardstick
    beside = "" if known is None else known.text(best.cost, result.costs, result.waited)
    waits = waiting(result.waited, known.cores if known else 1) if result.waited >= WAITED else ""
    notes = [f"note: {line}" for line in (waits, summary.note) if line]
    return [*filter(None, [beside, "" if summary.gain is None else str(summary.gain)]), *notes]


def _entities(record: Record) -> str:
    """The choices of a record's config, which is in AutoTVM's JSON shape: [name, kind, value] for each knob."""
    return escaped(", ".join(f"{name}={value}" for name, _, value in record.config.get("entity", [])))
