"""The picture of one search: every trial, and the best so far."""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from pegbox.report.figure import COLOURS, legend_below, saved, shrink, svg_of
from pegbox.task.speed_text import format_cost

if TYPE_CHECKING:
    from pegbox.search.loop.outcome import TuneResult
    from pegbox.search.loop.trial import Trial

_CAPTIONS = {
    "trial": "each trial",
    "recorded trial": "each trial from the records",
    "new trial": "each new trial",
    "best so far, as first timed": "the best so far, by first timings (so partly luck)",
    "another run": "another run in the records, with a best of its own",
    "failed": "failed trials at the bottom",
    "the result, measured again": "the result (star): the best, measured again with more care at the end",
    "NumPy": "NumPy's time for the same computation",
}
"""The meanings of the lines of the legend, for the caption."""

_SIZE = 11
"""The font size of the title in points."""

_LINE = 0.22
"""The height of a line of text in inches."""

_MOST = 3
"""The largest number of lines into which a line of the title may be broken."""


def save_plot(result: TuneResult, path: str | os.PathLike[str]) -> None:
    """Draw one panel with the curve; at least one trial must have run."""
    title = f"{subject_of(result)}, {result.counted}" + (f" with {result.tuner}" if result.trials else "")
    lines = [title] + ([str(result.task.target)] if result.task is not None else [])
    if result.emulated:
        lines += result.noise
    with saved(path, 1) as (axes,):
        draw_search(axes, result)
        draw_title(axes, lines)


def draw_title(axes: Any, lines: Sequence[str]) -> list[str]:
    """Write the lines above the axes, broken if they are wider than the axes, and return the text."""
    shown = [part for line in lines for part in _broken(axes, line)]
    shrink(axes, above=_LINE * (len(shown) - 1))
    axes.set_title("\n".join(shown), loc="left", fontsize=_SIZE, pad=10)
    return shown


def _broken(axes: Any, line: str) -> list[str]:
    """Break the line into at most `_MOST` parts that are no wider than the axes; drop the rest."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    width = TextPath((0, 0), line, prop=FontProperties(size=_SIZE)).get_extents().width / 72
    room = axes.get_position().width * axes.figure.get_figwidth() * 0.97  # a margin, since letters differ in width
    if width <= room:
        return [line]
    return textwrap.wrap(line, int(len(line) * room / width), max_lines=_MOST, placeholder=" ...")


def search_svg(result: TuneResult) -> tuple[str, str]:
    """Draw the `svg` element of the curve, and write a caption. Raises `ImportError` without matplotlib."""
    shown: list[str] = []

    def draw(axes: Any) -> None:
        draw_search(axes, result)
        shown.extend(_CAPTIONS[label] for label in axes.get_legend_handles_labels()[1])

    svg = svg_of(draw, "search")
    return svg, f"costs on a logarithmic axis: {', '.join(shown)}"


def subject_of(result: TuneResult) -> str:
    """Name the subject of the search."""
    task = result.task
    if task is None or result.subject.name not in ("", task.name):
        return result.subject.name or "search"
    arguments = [*map(str, task.args), *(f"{name}={value}" for name, value in task.kwargs.items())]
    return f"{task.name}({', '.join(arguments)})"


def draw_search(axes: Any, result: TuneResult) -> None:
    """Draw costs on a logarithmic axis, trials counted from 1, recorded ones first; failed ones are at the bottom."""
    trials, recorded = result.all_trials, len(result.history)
    _dots(axes, result.history, 1, "recorded trial", COLOURS[6], marker="s")
    _dots(axes, result.trials, recorded + 1, "new trial" if recorded else "trial", COLOURS[0])
    _curves(axes, result)
    if failed := [at for at, trial in enumerate(trials, 1) if not trial.ok]:
        axes.plot(
            failed, [0.025] * len(failed), "x",
            transform=axes.get_xaxis_transform(), color="#555555", markersize=4, label="failed",
        )  # fmt: skip
    best = result.best
    if best is not None and best.remeasured:
        # From the winner's trial to the end of its run, where it was measured again.
        end = next(end for end in accumulate(result.runs) if best.place <= end)
        axes.plot(
            [best.place, end + 0.5], [best.cost] * 2, "*-", markevery=[0], linewidth=1.2,
            color=COLOURS[3], markersize=11, markeredgewidth=0, label="the result, measured again",
        )  # fmt: skip
    baseline = best.baseline if best is not None else None
    if baseline is not None and baseline.numpy is not None:
        axes.axhline(baseline.numpy, color=COLOURS[2], linestyle="--", linewidth=1.2, label="NumPy")
    _finish(axes, len(trials), result.unit, emulated=result.emulated)


def _curves(axes: Any, result: TuneResult) -> None:
    """Draw the best so far, separately for each run, and a line at the start of each later run."""
    costs, first, label = result.all_best_costs(), 0, "best so far, as first timed"
    for run, count in enumerate(result.runs):
        if run:
            axes.axvline(first + 0.5, color="#555555", linewidth=0.8, label="another run" if run == 1 else None)
        curve = [(at, costs[at - 1]) for at in range(first + 1, first + count + 1) if costs[at - 1] < math.inf]
        first += count
        if not curve:
            continue
        # Extend the last step, too: otherwise a single trial would be a point.
        axes.step(
            [at for at, _ in curve] + [first + 0.5], [cost for _, cost in curve] + [curve[-1][1]],
            where="post", color=COLOURS[1], linewidth=1.8, label=label,
        )  # fmt: skip
        label = "_nolegend_"


def _dots(axes: Any, trials: Sequence[Trial], first: int, label: str, colour: str, *, marker: str = "o") -> None:
    """Draw the trials that ran; the first of all is number `first`."""
    if ran := [(at, trial.cost) for at, trial in enumerate(trials, first) if trial.ok]:
        axes.plot(
            *zip(*ran, strict=True), marker, color=colour, alpha=0.45, markersize=4, markeredgewidth=0, label=label
        )


def _finish(axes: Any, trials: int, unit: str, *, emulated: bool) -> None:
    from matplotlib.ticker import NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: format_cost(value, "s") if unit == "s" else _number(value))
    low, high = axes.get_ylim()
    if high / low < 30:  # powers of ten alone would give one or two ticks
        axes.yaxis.get_major_locator().set_params(subs=(1.0, 2.0, 3.0, 5.0, 7.0) if high / low < 8 else (1.0, 2.0, 5.0))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("trial")
    axes.set_xlim(0.5, trials + 0.5)
    axes.xaxis.get_major_locator().set_params(integer=True)
    time = "time of a call in an emulator" if emulated else "time of a call"
    axes.set_ylabel(time if unit == "s" else f"cost in {unit}" if unit else "cost")
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    legend_below(axes, *axes.get_legend_handles_labels())


def _number(value: float) -> str:
    return format_cost(value, "") if value < 1e9 else f"{value:.4g}"
