"""The curves of a comparison as a picture, drawn by matplotlib, which is an extra: `pip install 'pegbox[plot]'`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pegbox.checks import check_path
from pegbox.comparison.curves import band_of, lowest_shown
from pegbox.comparison.jsonform import check_writable
from pegbox.comparison.palette import LIGHT
from pegbox.errors import ArgumentError

if TYPE_CHECKING:
    from pegbox.comparison.report import Comparison

_DASHES = ("-", "--", "-.", ":")


def save_plot(report: Comparison, path: str | os.PathLike[str]) -> None:
    """One panel per task: the share of the best known speed after each trial, median and quartiles over seeds.

    Raises `ArgumentError` when matplotlib is not installed, the suffix is unknown to it, or there is nothing to draw.
    """
    if not report.tasks:
        raise ArgumentError(f"plot to {os.fspath(path)!r}: there is nothing to draw, no run was finished")
    figure = check_plot(path)(figsize=(7.5, 4.2 * len(report.tasks)), dpi=144, layout="constrained")
    for axes, task in zip(figure.subplots(len(report.tasks), squeeze=False)[:, 0], report.tasks, strict=True):
        _draw(axes, report, task.name)
    figure.savefig(path)


def check_plot(path: str | os.PathLike[str]) -> Any:
    """Before hours of measuring: can a plot be written to `path`? Gives matplotlib's class of figures.

    Its pictures need no window, and leave the user's own back end alone. Raises as `save_plot` does.
    """
    check_path("path", path)
    try:
        from matplotlib.backend_bases import FigureCanvasBase
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ArgumentError(
            f"plot to {os.fspath(path)!r} needs matplotlib ({error}); install it with: pip install 'pegbox[plot]'; "
            "report.to_html(...) draws the curves without it"
        ) from error
    known = sorted(FigureCanvasBase.get_supported_filetypes())
    if Path(path).suffix.lstrip(".").lower() not in known:
        raise ArgumentError(
            f"plot to {os.fspath(path)!r}: the suffix says what to write, and has to be one of .{', .'.join(known)}"
        )
    check_writable(path)
    return Figure


def _draw(axes: Any, report: Comparison, task: str) -> None:
    bands = {tuner: band_of(report, task, tuner) for tuner in report.runs_of(task)}
    for place, (tuner, band) in enumerate(bands.items()):
        trials = range(1, len(band.middle) + 1)
        colour, dashes = LIGHT[place % len(LIGHT)], _DASHES[place // len(LIGHT) % len(_DASHES)]
        axes.fill_between(trials, band.low, band.high, color=colour, alpha=0.15, linewidth=0, step="post")
        axes.step(trials, band.middle, dashes, where="post", color=colour, linewidth=1.8, label=tuner)
    axes.set_title(task, loc="left", fontsize=11)
    axes.set_xlabel("trials")
    axes.set_ylabel("share of the best known speed")
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.set_xlim(1, max(report.trials, 2))
    axes.set_ylim(bottom=lowest_shown(bands.values()))
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right", fontsize=9)
