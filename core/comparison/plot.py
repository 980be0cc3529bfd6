"""The curves of a comparison, drawn by matplotlib (an optional dependency: `pip install 'pegbox[plot]'`).

Figures are made without pyplot: they need no window, and leave the user's own back end alone.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pegbox.checks import check_path
from pegbox.comparison.curves import arrivals, band_of, lowest_shown
from pegbox.comparison.jsonform import check_writable
from pegbox.comparison.verdicts import TARGET
from pegbox.errors import ArgumentError

if TYPE_CHECKING:
    from pegbox.comparison.report import Comparison

INSTALL = "install it with: pip install 'pegbox[plot]'"

# Okabe and Ito, "Color Universal Design" (2008), darkened for thin lines on white: colour-blind people tell them apart.
_COLOURS = ("#0072b2", "#d55e00", "#00835c", "#b5488d", "#8a6d00", "#2d7fb8", "#5b5b66", "#7a3db8")
_DASHES = ("-", "--", "-.", ":")
_WIDTH, _HEIGHT = 7.5, 4.2
"""Inches of one panel."""

_STEPS = (1, 2, 5, 10)
"""Between ticks, times a power of ten: percentages are whole then."""

_LEFT, _RIGHT, _BELOW, _ABOVE = 0.75, 0.15, 0.55, 0.35
"""Inches around its axes, for numbers, labels and the title."""


def save_plot(report: Comparison, path: str | os.PathLike[str]) -> None:
    """One panel per task: the share of the best known speed after each trial, median and quartiles over seeds.

    Raises `ArgumentError` when matplotlib is not installed, the suffix is unknown to it, or there is nothing to draw.
    """
    if not report.tasks:
        raise ArgumentError(f"plot to {os.fspath(path)!r}: there is nothing to draw, no run was finished")
    check_plot(path)
    from matplotlib import rc_context

    with rc_context({"text.parse_math": False}):  # a tuner's name may have dollars in it
        figure, panels = _figure(len(report.tasks), dpi=144)
        for axes, task in zip(panels, report.tasks, strict=True):
            _draw_best(axes, report, task.name)
            axes.set_title(task.name, loc="left", fontsize=11)
        figure.savefig(path)


def check_plot(path: str | os.PathLike[str]) -> None:
    """Before hours of measuring: can a plot be written to `path`? Raises as `save_plot` does."""
    check_path("path", path)
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError as error:
        raise ArgumentError(f"plot to {os.fspath(path)!r} needs matplotlib ({error}); {INSTALL}") from error
    known = sorted(FigureCanvasBase.get_supported_filetypes())
    if Path(path).suffix.lstrip(".").lower() not in known:
        raise ArgumentError(
            f"plot to {os.fspath(path)!r}: the suffix says what to write, and has to be one of .{', .'.join(known)}"
        )
    check_writable(path)


def best_svg(report: Comparison, task: str) -> str:
    """The `svg` element of the best so far on a task. Raises `ImportError` without matplotlib."""
    return _svg(_draw_best, report, task)


def arrivals_svg(report: Comparison, task: str) -> str:
    """The `svg` element of the share of the seeds at the target. Raises `ImportError` without matplotlib."""
    return _svg(_draw_arrivals, report, task)


def _svg(draw: Callable[[Any, Comparison, str], None], report: Comparison, task: str) -> str:
    """What `draw` draws, without the XML declaration; text is text, and the same report gives the same picture."""
    from matplotlib import rc_context

    settings: Any = {"svg.hashsalt": f"{draw.__name__} {task}", "svg.fonttype": "none", "text.parse_math": False}
    with rc_context(settings), io.StringIO() as file:
        figure, (axes,) = _figure(1)
        draw(axes, report, task)
        figure.savefig(file, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
        text = file.getvalue()
    # Several pictures stand in one page, where an id may occur once; no one refers to those of groups.
    return re.sub(r'<g id="[^"]*"', "<g", text[text.index("<svg") :].rstrip())


def _figure(panels: int, **settings: Any) -> tuple[Any, Sequence[Any]]:
    """A figure and the axes of its panels, one below the other.

    Margins are given: matplotlib's layouts draw everything once more to find them.
    """
    from matplotlib.figure import Figure

    height = _HEIGHT * panels
    figure = Figure(figsize=(_WIDTH, height), **settings)
    axes = figure.subplots(
        panels, squeeze=False, gridspec_kw={
            "left": _LEFT / _WIDTH, "right": 1 - _RIGHT / _WIDTH,
            "bottom": _BELOW / height, "top": 1 - _ABOVE / height,
            "hspace": (_ABOVE + _BELOW) / (_HEIGHT - _ABOVE - _BELOW),
        },
    )  # fmt: skip
    return figure, list(axes[:, 0])


def _draw_best(axes: Any, report: Comparison, task: str) -> None:
    """The share of the best known speed after each trial."""
    bands = [band_of(report, task, tuner) for tuner in report.runs_of(task)]
    for place, band in enumerate(bands):
        axes.fill_between(
            _trials(band.middle), _held(band.low), _held(band.high),
            color=_COLOURS[place % len(_COLOURS)], alpha=0.15, linewidth=0, step="post",
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
    colour, dashes = _COLOURS[place % len(_COLOURS)], _DASHES[place // len(_COLOURS) % len(_DASHES)]
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
