"""The text report of a comparison: a table and the verdicts per task. The page has the same columns."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pegbox.comparison.runs import Setup, TaskInfo
from pegbox.comparison.summary import SHARES, Reach, Summary
from pegbox.report.text_table import text_table
from pegbox.task.speed_text import format_cost

if TYPE_CHECKING:
    from pegbox.comparison.report import Comparison

WIDTH = 120

_WITHOUT = ", and none with experience"
"""The end of the sentence about the start without experience."""


@dataclass(frozen=True)
class Column:
    """A header, its meaning, and the cell of a summary."""

    header: str
    meaning: str
    cell: Callable[[Summary], str]


def columns(summaries: Sequence[Summary], *, trials: int) -> list[Column]:
    """Choose the columns for these summaries of one task, without empty ones."""
    simulated = any(summary.not_recorded is not None for summary in summaries)
    found = [
        Column("tuner", "name and options", lambda s: s.tuner),
        Column("best [95% interval]", "median over seeds of the best cost, and its bootstrap interval", _cost),
    ]
    if any(summary.gflops for summary in summaries):
        found.append(Column("GFLOP/s", "of the median", lambda s: f"{s.gflops:.1f}" if s.gflops else "-"))
    elif any(summary.gigabytes for summary in summaries):
        found.append(Column("GB/s", "of the median", lambda s: f"{s.gigabytes:.3g}" if s.gigabytes else "-"))
    found += [
        Column("of best", "median speed as a share of the best known", lambda s: _percent(s.share)),
        *(_reach_column(place, share, trials) for place, share in enumerate(SHARES)),
        Column(
            "area",
            "mean over the trials of the share of the best known speed; median over seeds",
            lambda s: f"{s.area:.3f}",
        ),
        Column("invalid", "share of trials that failed", lambda s: _percent(s.invalid)),
    ]
    if simulated:
        found.append(
            Column("not recorded", "share of trials without a recorded answer", lambda s: _percent(s.not_recorded))
        )
    found += [
        Column(
            "overhead/trial",
            "the tuner's own time per trial; median over seeds",
            lambda s: f"{s.overhead * 1e3:.2f} ms",
        ),
        Column(
            "virtual" if simulated else "wall clock",
            f"seconds {'on the virtual clock' if simulated else 'of wall-clock time'} of a run; median",
            lambda s: f"{s.seconds:.1f} s",
        ),
    ]
    if any(summary.accuracy is not None for summary in summaries):
        meaning = "pairs of unseen trials that the tuner's model put in order, and rank correlation; medians over seeds"
        found.append(Column("model", meaning, _model))
    return found


def format_costs(values: Sequence[float], unit: str = "s") -> tuple[list[str], str]:
    """Write costs in one unit; seconds with four digits, in the unit of the first finite one."""
    if unit != "s":
        return [format_cost(value, "") if value < math.inf else "none" for value in values], unit
    finite = next((value for value in values if value < math.inf), 1.0)
    unit, scale = next(((u, s) for u, s in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)) if finite >= s), ("ns", 1e-9))
    return [f"{value / scale:#.4g}".rstrip(".") if value < math.inf else "none" for value in values], unit


def _cost(summary: Summary) -> str:
    if summary.cost == math.inf:
        return "nothing valid"
    (middle, low, high), unit = format_costs([summary.cost, *summary.interval], summary.unit)
    cost = f"{middle} {unit}".rstrip()
    return f"{cost} [{low}, {high}]" if summary.seeds > 1 else cost


def _reach_column(place: int, share: float, trials: int) -> Column:
    def cell(summary: Summary) -> str:
        reach: Reach = summary.reach[place]
        count = f"{reach.trials:g}" if reach.trials < math.inf else f">{trials}"
        return count if reach.reached == reach.runs else f"{count} ({reach.reached}/{reach.runs})"

    meaning = f"trials to {share:.0%} of the best known speed: median, and how many seeds reached it, if not all did"
    return Column(f"to {share:.0%}", meaning, cell)


def _model(summary: Summary) -> str:
    if summary.accuracy is None or summary.correlation is None:
        return "-"
    return f"{summary.accuracy:.0%}, {summary.correlation:+.2f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def report_text(report: Comparison) -> str:
    """Write everything, the tasks one after the other."""
    many = sum(task.landscape is not None for task in report.tasks) > 1
    whole = [report.aggregate().table()] if many else []
    parts = whole if report.setup.suite else [_task_text(report, task) for task in report.tasks] + whole
    spaces = [line for sentence in report.space_words() for line in _wrapped(sentence)]
    setup = report.setup
    how = "simulated on recorded measurements" if setup.simulated else "winners measured again together"
    how += f", {setup.jobs} runs at a time" if setup.jobs > 1 else ""
    closing = f"{setup.trials} trials, {seeds_text(setup)}; {how}. {start_text(setup)}."
    closing += "".join(f"\n{tuner}: {library}" for tuner, library in report.libraries.items())
    closing += f"\nincomplete: {setup.note}" if setup.note else ""
    closing += "".join(f"\n{line}" for sentence in missing_words(report) for line in _wrapped(sentence))
    closing += f"\nsuite {setup.suite}, digest {setup.suite_digest[:12]}, pegbox {setup.version}" if setup.suite else ""
    return "\n\n".join([*parts, *(["\n".join(spaces)] if spaces else []), closing])


def missing_words(report: Comparison) -> list[str]:
    """Name the problems that could not be opened, and the tuners with broken runs, each with its first reason."""
    lost = [f"missing from the suite: {problem}" for problem in report.setup.missing]
    for tuner in dict.fromkeys(run.tuner for run in report.broken):
        some = [run for run in report.broken if run.tuner == tuner]
        tasks = len({run.task for run in some})
        count = f"{len(some)} run{'s' if len(some) != 1 else ''} of {tuner} on {tasks} task{'s' if tasks != 1 else ''}"
        lost.append(f"missing: {count}; the first is {some[0].task}, seed {some[0].seed}: {some[0].reason}")
    return lost


def _task_text(report: Comparison, task: TaskInfo) -> str:
    summaries = [summary for summary in report.summaries() if summary.task == task.name]
    shown = columns(summaries, trials=report.trials)
    rows = [[column.header for column in shown], *([column.cell(s) for column in shown] for s in summaries)]
    lines = [task_line(task, report.best_known(task.name)), "", *text_table(rows), ""]
    for sentence in report.words(task.name):
        lines += _wrapped(sentence)
    return "\n".join(lines)


def task_line(task: TaskInfo, best_known: float) -> str:
    """Name the task, and its best known cost."""
    if best_known == math.inf:
        return f"{task.name}: nothing valid was found"
    speed = f", {written}" if (written := task.speed(best_known)) else ""
    recorded = f"the best recorded in {task.source or 'the recorded space'}"
    known = "the lowest cost there is" if task.landscape is not None else "the best that any run found"
    origin = recorded if task.simulated else known
    return f"{task.name}: best known {format_cost(best_known, task.unit)}{speed} ({origin})"


def _wrapped(sentence: str) -> list[str]:
    """Break a sentence into lines without splitting "p = 0.01"."""
    held = sentence.replace("p = ", "p\xa0=\xa0").replace("p >= ", "p\xa0>=\xa0")
    lines = textwrap.wrap(held, WIDTH, break_on_hyphens=False, subsequent_indent="  ")
    return [line.replace("\xa0", " ") for line in lines]


def start_text(setup: Setup) -> str:
    """Describe the common start of the runs."""
    without = "" if setup.experience else _WITHOUT
    if not setup.start:
        return f"No common start: each tuner chooses its first trial{without}"
    same = "the same random trial" if setup.start == 1 else f"the same {setup.start} random trials"
    return f"With each seed all tuners begin with {same}{without}"


def seeds_text(setup: Setup) -> str:
    """Count the seeds."""
    return f"{len(setup.seeds)} seed{'s' if len(setup.seeds) != 1 else ''}"
