"""The page of one search: the result, its curve, the knobs' influence, and the best's program."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from pegbox.errors import PegboxError
from pegbox.report.figure import missing_curves
from pegbox.report.page import definitions, document, figure, table
from pegbox.search.charts.influence import influences
from pegbox.search.charts.picture import search_svg, subject_of
from pegbox.task.speed_text import format_cost, format_phases

if TYPE_CHECKING:
    from pegbox.search.loop.outcome import TuneResult

SHOWN = 6
"""The number of listed values of a knob, fastest first."""


def page(result: TuneResult) -> str:
    """Write the whole document."""
    parts = [_best(result), _curve(result), _knobs(result), _program(result)]
    return document(subject_of(result), result.spent(), parts)


def _best(result: TuneResult) -> str:
    best = result.best
    if best is None:
        return f"<section><h2>Nothing valid was found</h2><pre>{escape(str(result))}</pre></section>"
    remarks = "".join(f"<li>{escape(line)}</li>" for line in best.quality)
    remarks += "".join(f'<li class="warning">{escape(line)}</li>' for line in result.notes)
    facts = {"found": best.origin, "config": str(best.config)}
    if result.shares:
        facts["implementations"] = result.shares
    if result.task is not None:
        facts["task"] = repr(result.task)
    if result.failures:
        counts = ", ".join(f"{count} {kind}" for kind, count in result.failures.items())
        facts["failed"] = f"{counts}{result.first_failure()}"
    if result.trials and result.phases:
        facts["time"] = format_phases(result.phases)
    return f"<section><h2>{escape(best.speed)}</h2><ul>{remarks}</ul>{definitions(facts.items())}</section>"


def _curve(result: TuneResult) -> str:
    trials = result.all_trials
    if not any(trial.ok for trial in trials):
        return ""
    try:
        svg, caption = search_svg(result)
    except ImportError as error:
        return missing_curves(error)
    ran = sum(trial.ok for trial in trials)
    best = format_cost(min(trial.cost for trial in trials), result.unit)
    about = f"{ran} of {len(trials)} trials ran, the best with {best}"
    again = result.best is not None and result.best.remeasured
    about += f"; the result, measured again, has {format_cost(result.best.cost, result.unit)}." if again else "."
    return f'<section><div class="charts">{figure("The search", caption, about, svg)}</div></section>'


def _knobs(result: TuneResult) -> str:
    found, unit = influences(result.trials_of_winner), result.unit
    if not found:
        return ""
    where = "this search" if len(result.runs) == 1 else f"these {len(result.runs)} runs"
    rows = [
        (
            one.knob,
            "too few trials" if one.share is None else f"{one.share:.0%}",
            str(one.values),
            ", ".join(f"{value}: {format_cost(cost, unit)}" for value, cost in one.best[:SHOWN])
            + (", ..." if len(one.best) > SHOWN else ""),
        )
        for one in found
    ]
    return (
        "<section><h2>The knobs' influence</h2>"
        + table(["knob", "explains", "values", "best by value"], rows, left=[3])
        + '<p class="soft">explains: the share of the variance of the logarithm of the cost that lies between the '
        f"knob's values (Kelley's epsilon squared). The trials are those of {where}, in which good values are more "
        "frequent; the joint effect of several knobs is not counted.</p></section>"
    )


def _program(result: TuneResult) -> str:
    """Show the computation, and the program that the best configuration makes of it."""
    if result.task is None or result.best is None:
        return ""
    try:
        before, config = str(result.task.compute_dag), result.best.config
        steps, _, _ = result.task.show_schedule(config).partition("\n\n")
        program = result.task.show_ir(config)
    except PegboxError as error:
        return f'<p class="warning">The program cannot be shown: {escape(str(error))}</p>'
    parts = {"Before: the computation": before, "The schedule": steps, "After: the program": program}
    shown = "".join(
        f'<details open><summary>{escape(name)}</summary><div class="scroll"><pre>{escape(text)}</pre></div></details>'
        for name, text in parts.items()
    )
    return f"<section><h2>The best program</h2>{shown}</section>"
