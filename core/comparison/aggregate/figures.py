"""Figures of an aggregate: performance, targets reached, and the critical-difference diagram of Demšar (2006)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from pegbox.comparison.aggregate.aggregate import arrival_curve, performance_curve
from pegbox.comparison.aggregate.ranks import cliques
from pegbox.errors import ArgumentError
from pegbox.report.figure import check_plot, legend_below, line_style, saved, svg_of

if TYPE_CHECKING:
    from pegbox.comparison.aggregate.aggregate import Aggregate
    from pegbox.comparison.report import Comparison

FIGURES = ("performance", "targets", "ranks")
"""The names of the figures."""

_MARKS = 8


def save_figure(report: Comparison, name: str, path: str | os.PathLike[str]) -> None:
    """Write one of `FIGURES` as a picture. Raises `ArgumentError` without matplotlib, or for an unknown name."""
    found = report.aggregate()
    check_plot(path)
    with saved(path, 1) as (axes,):
        draw(axes, report, found, name)


def figure_svg(report: Comparison, name: str) -> str:
    """Draw the `svg` element of a figure. Raises `ImportError` without matplotlib."""
    found = report.aggregate()
    return svg_of(lambda axes: draw(axes, report, found, name), f"aggregate {name}")


def draw(axes: Any, report: Comparison, found: Aggregate, name: str) -> None:
    """Draw a figure on axes."""
    match name:
        case "performance":
            _draw_performance(axes, report, found)
        case "targets":
            _draw_targets(axes, report, found)
        case "ranks":
            _draw_ranks(axes, found)
        case _:
            raise ArgumentError(f"no figure is called {name!r}; the figures are {', '.join(FIGURES)}")


def _draw_performance(axes: Any, report: Comparison, found: Aggregate) -> None:
    way = np.linspace(0.0, 1.0, 101)
    for place, tuner in enumerate(found.tuners):
        curve = performance_curve(report, tuner, found.trials)
        axes.plot(way, curve, linewidth=1.6, markersize=6, markevery=_marked(place, len(curve)), **line_style(place))
    axes.axhline(0.0, color="#888888", linewidth=0.8)
    axes.set_xlim(0.0, 1.0)
    low = min((float(np.nanmin(line.get_ydata()[10:])) for line in axes.lines[:-1]), default=0.0)
    axes.set_ylim(max(-1.0, min(low, 0.0) - 0.05), 1.02)
    axes.set_xlabel("share of the trials until random search's cutoff")
    axes.set_ylabel("performance (0: random search, 1: optimum)")
    _finish(axes, found, axes.lines[: len(found.tuners)])


def _draw_targets(axes: Any, report: Comparison, found: Aggregate) -> None:
    for place, tuner in enumerate(found.tuners):
        curve = arrival_curve(report, tuner, found.trials)
        trials = np.arange(1, found.trials + 1)
        axes.step(
            trials, curve, where="post", linewidth=1.6, markersize=6,
            markevery=_marked(place, len(curve)), **line_style(place),
        )  # fmt: skip
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda trials, _: f"{trials:g}")
    axes.set_xlim(1, max(found.trials, 2))
    axes.set_ylim(0.0, 1.02)
    axes.set_xlabel("trials")
    axes.set_ylabel("share of the pairs of a space and a target")
    _finish(axes, found, axes.lines)


def _draw_ranks(axes: Any, found: Aggregate) -> None:
    """Draw the mean ranks on a line; bars join tuners within the critical difference."""
    ranked = found.ranking
    order = sorted(range(len(found.tuners)), key=ranked.ranks.__getitem__)
    count = len(order)
    axes.set_xlim(count + 0.3, 0.7)  # the best on the right
    axes.set_ylim(-count - 1.5, 2.5)
    axes.hlines(0, 1, count, color="black", linewidth=1.0)
    for rank in range(1, count + 1):
        axes.vlines(rank, 0, 0.15, color="black", linewidth=1.0)
        axes.text(rank, 0.3, str(rank), ha="center", va="bottom", fontsize=9)
    for line, place in enumerate(order):
        at, height = ranked.ranks[place], -line - 1.6
        axes.plot([at, at], [0, height], color="black", linewidth=0.8)
        axes.text(at, height, f" {found.tuners[place]} ({at:.2f}) ", ha="center", va="top", fontsize=9)
    if not np.isnan(ranked.critical_difference):
        axes.hlines(1.6, 1, 1 + ranked.critical_difference, color="black", linewidth=2.0)
        axes.text(1, 1.8, f"critical difference {ranked.critical_difference:.2f}", ha="right", va="bottom", fontsize=9)
        values = sorted(ranked.ranks)
        for step, (first, last) in enumerate(cliques(ranked)):
            axes.hlines(-0.35 - 0.3 * step, values[first] - 0.03, values[last] + 0.03, color="#0072b2", linewidth=4.0)
    axes.set_axis_off()


def _marked(place: int, points: int) -> slice:
    step = max(points // _MARKS, 1)
    return slice(step * place // _MARKS, None, step)


def _finish(axes: Any, found: Aggregate, lines: Any) -> None:
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    count = len(found.tasks)
    legend_below(axes, list(lines), list(found.tuners), title=f"mean over {count} space{'s' if count != 1 else ''}")
