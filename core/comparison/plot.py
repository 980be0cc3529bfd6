"""The curves of a comparison, drawn by matplotlib (an optional dependency: `pip install 'pegbox[plot]'`)."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pegbox.comparison.statistics import median, quantile
from pegbox.comparison.verdicts import TARGET
from pegbox.errors import ArgumentError
from pegbox.report.figure import COLOURS, check_plot, legend_below, line_style, saved, svg_of

if TYPE_CHECKING:
    from pegbox.comparison.report import Comparison

_STEPS = (1, 2, 5, 10)
"""The steps between ticks, times a power of ten, so that percentages are whole."""

_MOST_SHADED = 3
"""The largest number of lines with shaded quartiles."""

_MARKS = 6
"""The number of markers on a line."""


@dataclass(frozen=True)
class Band:
    """The median over the seeds after each trial, and the lower and upper quartile."""

    low: tuple[float, ...]
    middle: tuple[float, ...]
    high: tuple[float, ...]


def band_of(report: Comparison, task: str, tuner: str) -> Band:
    """Compute the share of the best known speed after each trial; 0 until something valid is found."""
    runs, best_known = report.runs_of(task)[tuner], report.best_known(task)
    low, middle, high = [], [], []
    for count in range(1, report.trials + 1):
        costs = [run.best_after(count) for run in runs]
        shares = [best_known / cost if cost < math.inf else 0.0 for cost in costs]
        low.append(quantile(shares, 0.25))
        middle.append(median(shares))
        high.append(-quantile([-share for share in shares], 0.25))
    return Band(tuple(low), tuple(middle), tuple(high))


def arrivals(report: Comparison, task: str, tuner: str, target: float) -> tuple[float, ...]:
    """Compute, after each trial, the share of runs that have reached the share `target` of the best known speed."""
    cost = report.best_known(task) / target
    counts = [run.trials_to(cost) for run in report.runs_of(task)[tuner]]
    return tuple(sum(count <= trial for count in counts) / len(counts) for trial in range(1, report.trials + 1))


def save_plot(report: Comparison, path: str | os.PathLike[str]) -> None:
    """Draw one panel per task: the share of the best known speed after each trial, median and quartiles over seeds.

    Raises `ArgumentError` when matplotlib is not installed, the suffix is unknown to it, or there is nothing to draw.
    """
    if not report.tasks:
        raise ArgumentError(f"plot to {os.fspath(path)!r}: there is nothing to draw, because no run finished")
    check_plot(path)
    with saved(path, len(report.tasks)) as panels:
        for axes, task in zip(panels, report.tasks, strict=True):
            _draw_best(axes, report, task.name)
            axes.set_title(task.name, loc="left", fontsize=11)


def best_svg(report: Comparison, task: str) -> str:
    """Draw the `svg` element of the best so far on a task. Raises `ImportError` without matplotlib."""
    return svg_of(lambda axes: _draw_best(axes, report, task), f"_draw_best {task}")


def arrivals_svg(report: Comparison, task: str) -> str:
    """Draw the `svg` element of the share of the seeds at the target. Raises `ImportError` without matplotlib."""
    return svg_of(lambda axes: _draw_arrivals(axes, report, task), f"_draw_arrivals {task}")


def _draw_best(axes: Any, report: Comparison, task: str) -> None:
    """Draw the share of the best known speed after each trial."""
    bands = [band_of(report, task, tuner) for tuner in report.runs_of(task)]
    spread = spread_word(report, task)
    for place, band in enumerate(bands):
        if spread == "shaded":
            axes.fill_between(
                _trials(band.middle), _held(band.low), _held(band.high),
                color=COLOURS[place % len(COLOURS)], alpha=0.15, linewidth=0, step="post",
            )  # fmt: skip
        else:
            _draw_bars(axes, place, len(bands), band)
        _draw_line(axes, place, len(bands), band.middle)
    # Leave out the first twentieth of the trials, which would compress the rest.
    lows = [band.middle[min(len(band.middle) // 20, len(band.middle) - 1)] for band in bands]
    highest = max(max(band.high) for band in bands)
    axes.set_ylim(min(0.8, math.floor(10 * min(lows)) / 10), 1.01 * max(1.0, highest))
    seeds = len(report.setup.seeds)
    title = f"median of {seeds} seeds; {spread}: the middle half" if seeds > 1 else None
    _finish(axes, report, task, "share of the best known speed", title=title)


def spread_word(report: Comparison, task: str) -> str:
    """Name the form of the quartiles: "shaded", or "bars" if the shades of many lines would hide each other."""
    return "shaded" if len(report.runs_of(task)) <= _MOST_SHADED else "bars"


def _draw_arrivals(axes: Any, report: Comparison, task: str) -> None:
    """Draw the share of the seeds that have reached the target."""
    runs = report.runs_of(task)
    for place, tuner in enumerate(runs):
        _draw_line(axes, place, len(runs), arrivals(report, task, tuner, TARGET))
    axes.set_ylim(0.0, 1.01)
    _finish(axes, report, task, "share of the seeds")


def _draw_line(axes: Any, place: int, count: int, values: Sequence[float]) -> None:
    """Draw one of `count` lines, with markers next to those of the others."""
    axes.step(
        _trials(values), _held(values), where="post", linewidth=1.6, markersize=6, markeredgewidth=0,
        markevery=_marked(place, count, len(values)), **line_style(place),
    )  # fmt: skip


def _draw_bars(axes: Any, place: int, count: int, band: Band) -> None:
    """Draw the quartiles at the markers of a line."""
    at = _marked(place, count, len(band.middle))
    axes.vlines(
        [trial + 1 for trial in at], [band.low[trial] for trial in at], [band.high[trial] for trial in at],
        color=COLOURS[place % len(COLOURS)], linewidth=1.0, alpha=0.7,
    )  # fmt: skip


def _marked(place: int, count: int, trials: int) -> list[int]:
    """Place the markers of one of `count` lines, from trial 0 on."""
    step = max(trials // _MARKS, 1)
    return [*range(step * place // count, trials, step)]


def _trials(values: Sequence[float]) -> range:
    return range(1, len(values) + 2)


def _held(values: Sequence[float]) -> tuple[float, ...]:
    """Hold the last value for one more trial, since a single trial would be an invisible point."""
    return (*values, values[-1])


def _finish(axes: Any, report: Comparison, task: str, label: str, *, title: str | None = None) -> None:
    axes.set_xlabel("trials")
    axes.set_xlim(1, max(report.trials, 2))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel(label)
    axes.yaxis.get_major_locator().set_params(steps=_STEPS)
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    legend_below(axes, axes.lines, list(report.runs_of(task)), title=title)
