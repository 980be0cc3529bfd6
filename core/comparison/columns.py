"""The columns of a comparison's table, for text and for HTML."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pegbox.comparison.summary import SHARES, Reach, Summary
from pegbox.task.work import format_cost


@dataclass(frozen=True)
class Column:
    """A header, what it means, and the cell of a summary."""

    header: str
    meaning: str
    cell: Callable[[Summary], str]


def columns(summaries: Sequence[Summary], *, trials: int) -> list[Column]:
    """Choose the columns for these summaries of one task: those that would be empty are left out."""
    simulated = any(summary.not_recorded is not None for summary in summaries)
    clock = "on the virtual clock" if simulated else "of wall-clock time"
    found = [
        Column("tuner", "name and options", lambda s: s.tuner),
        Column("best [95% interval]", "median over seeds of the best cost, and its bootstrap interval", _cost),
        Column("of best", "median speed as a share of the best known", lambda s: _percent(s.share)),
        *(_reach_column(place, share, trials) for place, share in enumerate(SHARES)),
        Column(
            "area",
            "mean over the trials of the share of the best known speed; median over seeds",
            lambda s: f"{s.area:.3f}",
        ),
        Column("invalid", "share of trials that failed", lambda s: _percent(s.invalid)),
        Column(
            "overhead/trial",
            "the tuner's own time per trial; median over seeds",
            lambda s: f"{s.overhead * 1e3:.2f} ms",
        ),
        Column(
            "virtual" if simulated else "wall clock",
            f"seconds {clock} of a run; median",
            lambda s: f"{s.seconds:.1f} s",
        ),
    ]
    if any(summary.gflops for summary in summaries):
        found.insert(2, Column("GFLOP/s", "of the median", lambda s: f"{s.gflops:.1f}" if s.gflops else "-"))
    elif any(summary.gigabytes for summary in summaries):
        found.insert(2, Column("GB/s", "of the median", lambda s: f"{s.gigabytes:.3g}" if s.gigabytes else "-"))
    if simulated:
        place = next(place for place, column in enumerate(found) if column.header == "overhead/trial")
        found.insert(place, Column("not recorded", "share of trials without a recorded answer", _not_recorded))
    if any(summary.accuracy is not None for summary in summaries):
        meaning = "pairs of unseen trials that the tuner's model put in order, and rank correlation; medians over seeds"
        found.append(Column("model", meaning, _model))
    return found


def format_costs(values: Sequence[float], unit: str = "s") -> tuple[list[str], str]:
    """Costs in one unit, and that unit; seconds with four digits, in the unit that the first finite one chooses."""
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
    meaning = f"trials to {share:.0%} of the best known speed: median, and how many seeds got there where not all did"
    return Column(f"to {share:.0%}", meaning, lambda s: _reach(s.reach[place], trials))


def _reach(reach: Reach, trials: int) -> str:
    count = f"{reach.trials:g}" if reach.trials < math.inf else f">{trials}"
    return count if reach.reached == reach.runs else f"{count} ({reach.reached}/{reach.runs})"


def _not_recorded(summary: Summary) -> str:
    return "-" if summary.not_recorded is None else _percent(summary.not_recorded)


def _model(summary: Summary) -> str:
    if summary.accuracy is None or summary.correlation is None:
        return "-"
    return f"{summary.accuracy:.0%}, {summary.correlation:+.2f}"


def _percent(share: float) -> str:
    return f"{share:.1%}"
