"""A line for each finished run of a comparison."""

from __future__ import annotations

import math
import sys

from pegbox.comparison.runs import Run, TaskInfo
from pegbox.search.loop.outcome import format_counts, format_seconds


def print_run(run: Run, task: TaskInfo, number: int, planned: int) -> None:
    """Print to standard error."""
    print(run_line(run, task, number, planned), file=sys.stderr, flush=True)


def run_line(run: Run, task: TaskInfo, number: int, planned: int) -> str:
    """Which run it was, what it found and what it took."""
    place = f"[{number:>{len(str(planned))}}/{planned}]"
    best = run.curve[-1] if run.curve else math.inf
    found = format_seconds(best) if best < math.inf else "nothing valid"
    speed = f" ({told})" if (told := task.speed(best)) else ""
    failed = f", {format_counts(run.failures)}" if run.failures else ""
    early = f", {run.stopped_because}" if run.stopped_because != "trials" else ""
    clock = "virtual s" if task.simulated else "s"
    spent = f"{len(run.curve)} trials, {run.seconds:.1f} {clock}{failed}{early}"
    return f"{place} {task.name}, seed {run.seed}, {run.tuner}: {found}{speed}; {spent}"
