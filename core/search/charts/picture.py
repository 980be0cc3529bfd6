"""The picture of one search: every trial, and the best so far."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

from pegbox.report.figure import COLOURS, saved, svg_of
from pegbox.task.work import format_cost

if TYPE_CHECKING:
    from pegbox.search.loop.outcome import TuneResult


def save_plot(result: TuneResult, path: str | os.PathLike[str]) -> None:
    """One panel with the curve; at least one trial has to have run."""
    with saved(path, 1) as (axes,):
        draw_search(axes, result)
        axes.set_title(title_of(result), loc="left", fontsize=11)


def search_svg(result: TuneResult) -> str:
    """The `svg` element of the curve. Raises `ImportError` without matplotlib."""
    return svg_of(lambda axes: draw_search(axes, result), "search")


def title_of(result: TuneResult) -> str:
    """What was searched, and with what."""
    return (
        f"{result.task.name if result.task is not None else 'search'}, {len(result.trials)} trials with {result.tuner}"
    )


def draw_search(axes: Any, result: TuneResult) -> None:
    """Costs on a logarithmic axis; failed trials are marks at the bottom."""
    ran = [(place, trial.cost) for place, trial in enumerate(result.trials, 1) if trial.ok]
    failed = [place for place, trial in enumerate(result.trials, 1) if not trial.ok]
    axes.plot(
        *zip(*ran, strict=True), "o", color=COLOURS[0], alpha=0.45, markersize=4, markeredgewidth=0, label="trial"
    )
    curve = [(place, cost) for place, cost in enumerate(result.best_costs(), 1) if cost < math.inf]
    # The last one lasts a trial too: otherwise one trial would be a point.
    places = [place for place, _ in curve] + [len(result.trials) + 1]
    axes.step(
        places, [cost for _, cost in curve] + [curve[-1][1]],
        where="post", color=COLOURS[1], linewidth=1.8, label="best so far",
    )  # fmt: skip
    if failed:
        axes.plot(
            failed, [0.01] * len(failed), "|",
            transform=axes.get_xaxis_transform(), color="#555555", markersize=6, label="failed",
        )  # fmt: skip
    best = result.best
    if best is not None and best.remeasured and best.number >= 0:
        axes.plot(
            [best.number + 1], [best.cost], "*",
            color=COLOURS[3], markersize=11, markeredgewidth=0, label="best, measured again",
        )  # fmt: skip
    yardstick = best.yardstick if best is not None else None
    if yardstick is not None and yardstick.numpy is not None:
        axes.axhline(yardstick.numpy, color=COLOURS[2], linestyle="--", linewidth=1.2, label="NumPy")
    _finish(axes, len(result.trials), result.unit)


def _finish(axes: Any, trials: int, unit: str) -> None:
    from matplotlib.ticker import NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: format_cost(value, unit))
    low, high = axes.get_ylim()
    if high / low < 30:  # powers of ten alone would be one tick or two
        axes.yaxis.get_major_locator().set_params(subs=(1.0, 2.0, 3.0, 5.0, 7.0) if high / low < 8 else (1.0, 2.0, 5.0))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("trials")
    axes.set_xlim(0.5, trials + 1)
    axes.xaxis.get_major_locator().set_params(integer=True)
    what = "time of a call" if unit == "s" else "cost"  # beside the axis there is no room: ticks have their units
    axes.text(1.0, 1.02, what, transform=axes.transAxes, horizontalalignment="right", fontsize=9)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(framealpha=0.85, edgecolor="none", loc="best", fontsize=9)
