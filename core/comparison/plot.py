"""The curves of a comparison, drawn by matplotlib (an optional dependency: `pip install 'pegbox[plot]'`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pegbox.comparison.curves import arrivals, band_of, lowest_shown
from pegbox.comparison.verdicts import TARGET
from pegbox.errors import ArgumentError
from pegbox.report.figure import COLOURS, DASHES, check_plot, saved, svg_of

if TYPE_CHECKING:
    from pegbox.comparison.report import Comparison

_STEPS = (1, 2, 5, 10)
"""Between ticks, times a power of ten: percentages are whole then."""


def save_plot(report: Comparison, path: str | os.PathLike[str]) -> None:
    """One panel per task: the share of the best known speed after each trial, median and quartiles over seeds.

    Raises `ArgumentError` when matplotlib is not installed, the suffix is unknown to it, or there is nothing to draw.
    """
    if not report.tasks:
        raise ArgumentError(f"plot to {os.fspath(path)!r}: there is nothing to draw, no run was finished")
    check_plot(path)
    with saved(path, len(report.tasks)) as panels:
        for axes, task in zip(panels, report.tasks, strict=True):
            _draw_best(axes, report, task.name)
            axes.set_title(task.name, loc="left", fontsize=11)


def best_svg(report: Comparison, task: str) -> str:
    """The `svg` element of the best so far on a task. Raises `ImportError` without matplotlib."""
    return _svg(_draw_best, report, task)


def arrivals_svg(report: Comparison, task: str) -> str:
    """The `svg` element of the share of the seeds at the target. Raises `ImportError` without matplotlib."""
    return _svg(_draw_arrivals, report, task)


def _svg(draw: Callable[[Any, Comparison, str], None], report: Comparison, task: str) -> str:
    return svg_of(lambda axes: draw(axes, report, task), f"{draw.__name__} {task}")


def _draw_best(axes: Any, report: Comparison, task: str) -> None:
    """The share of the best known speed after each trial."""
    bands = [band_of(report, task, tuner) for tuner in report.runs_of(task)]
    for place, band in enumerate(bands):
        axes.fill_between(
            _trials(band.middle), _held(band.low), _held(band.high),
            color=COLOURS[place % len(COLOURS)], alpha=0.15, linewidth=0, step="post",
        )  # fmt: skip
        _draw_line(axes, place, band.middle)
    highest = max(max(band.high) for band in bands)
    axes.set_ylim(lowest_shown(bands), 1.01 * max(1.0, highest))
    seeds = len(report.setup.seeds)
    title = f"median of {seeds} seeds; shaded: the middle half" if seeds > 1 else None
    _finish(axes, report, task, "share of the best known speed", legend="lower right", title=title)


def _draw_arrivals(axes: Any, report: Comparison, task: str) -> None:
    """The share of the seeds that have come to the target."""
    for place, tuner in enumerate(report.runs_of(task)):
        _draw_line(axes, place, arrivals(report, task, tuner, TARGET))
    axes.set_ylim(0.0, 1.01)
    _finish(axes, report, task, "share of the seeds", legend="upper left")


def _draw_line(axes: Any, place: int, values: tuple[float, ...]) -> None:
    colour, dashes = COLOURS[place % len(COLOURS)], DASHES[place // len(COLOURS) % len(DASHES)]
    axes.step(_trials(values), _held(values), dashes, where="post", color=colour, linewidth=1.8)


def _trials(values: tuple[float, ...]) -> range:
    return range(1, len(values) + 2)


def _held(values: tuple[float, ...]) -> tuple[float, ...]:
    """The last value lasts a trial too: otherwise one trial would be a point, which nobody sees."""
    return (*values, values[-1])


def _finish(axes: Any, report: Comparison, task: str, label: str, *, legend: str, title: str | None = None) -> None:
    axes.set_xlabel("trials")
    axes.set_xlim(1, max(report.trials, 2))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel(label)
    axes.yaxis.get_major_locator().set_params(steps=_STEPS)
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(
        axes.lines, list(report.runs_of(task)),
        title=title, alignment="left", frameon=False, loc=legend, fontsize=9, title_fontsize=9,
    )  # fmt: skip
