"""The text report of a comparison: a table and the verdicts per task."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pegbox.comparison.columns import columns
from pegbox.comparison.runs import Setup, TaskInfo
from pegbox.comparison.summary import Summary
from pegbox.search.loop.outcome import format_cost

if TYPE_CHECKING:
    from pegbox.comparison.report import Comparison

WIDTH = 120

WITHOUT = ", and none with experience"
"""Ends what is said of the start where no tuner was given any."""


def report_text(report: Comparison) -> str:
    """Everything, the tasks one after the other."""
    parts = [_task_text(report, task) for task in report.tasks]
    spaces = [line for sentence in report.space_words() for line in _wrapped(sentence)]
    return "\n\n".join([*parts, *(["\n".join(spaces)] if spaces else []), _closing(report.setup)])


def _task_text(report: Comparison, task: TaskInfo) -> str:
    summaries = [summary for summary in report.summaries() if summary.task == task.name]
    best = report.best_known(task.name)
    lines = [task_line(task, best), "", *grid(summaries, trials=report.trials), ""]
    for sentence in report.words(task.name):
        lines += _wrapped(sentence)
    return "\n".join(lines)


def task_line(task: TaskInfo, best_known: float) -> str:
    """The task, and the best that is known of it."""
    if best_known == float("inf"):
        return f"{task.name}: nothing valid was found"
    speed = f", {told}" if (told := task.speed(best_known)) else ""
    origin = (
        f"the best recorded in {task.source or 'the recorded space'}"
        if task.simulated
        else "the best that any run found"
    )
    return f"{task.name}: best known {format_cost(best_known, task.unit)}{speed} ({origin})"


def _wrapped(sentence: str) -> list[str]:
    """Lines of a sentence; "p = 0.01" stays in one piece."""
    held = sentence.replace("p = ", "p\xa0=\xa0").replace("p >= ", "p\xa0>=\xa0")
    lines = textwrap.wrap(held, WIDTH, break_on_hyphens=False, subsequent_indent="  ")
    return [line.replace("\xa0", " ") for line in lines]


def start_text(count: int) -> str:
    """Describe the common start of the runs."""
    if not count:
        return "No common start: each tuner chooses its first trial"
    same = "the same random trial" if count == 1 else f"the same {count} random trials"
    return f"With each seed all tuners begin with {same}"


def grid(summaries: Sequence[Summary], *, trials: int) -> list[str]:
    """The lines of a table: the first column to the left, numbers to the right."""
    shown = columns(summaries, trials=trials)
    rows = [[column.header for column in shown], *([column.cell(s) for column in shown] for s in summaries)]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return ["  ".join(_aligned(row, widths)).rstrip() for row in rows]


def _aligned(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *others = (
        cell.rjust(width) if place else cell.ljust(width)
        for place, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return [first, *others]


def _closing(setup: Setup) -> str:
    seeds = f"{len(setup.seeds)} seed{'s' if len(setup.seeds) != 1 else ''}"
    simulated = any(task.simulated for task in setup.tasks)
    how = "simulated on recorded measurements" if simulated else "winners measured again together"
    how += f", {setup.jobs} runs at a time" if setup.jobs > 1 else ""
    line = f"{setup.trials} trials, {seeds}; {how}. {start_text(setup.start)}{'' if setup.experience else WITHOUT}."
    return f"{line}\nincomplete: {setup.note}" if setup.note else line
