"""The page and picture of a model's search: the distribution of time before and after, and the curve of the total."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pegbox.report.figure import COLOURS, missing_curves, saved, svg_of
from pegbox.report.page import document, figure, table
from pegbox.task.speed_text import format_seconds

if TYPE_CHECKING:
    from pegbox.model.result import ModelResult

_HEADER = ["task", "calls", "before", "share before", "after", "share after", "trials", "kernel"]


def page(result: ModelResult) -> str:
    """Write the whole document."""
    shown = table(_HEADER, result.rows(), left=[7])
    parts = [_curve(result), f"<section><h2>Where the time goes</h2>{shown}</section>"]
    return document(result.name, result.summary, parts)


def _curve(result: ModelResult) -> str:
    if not result.curve:
        return '<p class="warning">Not all tasks have a kernel that ran.</p>'
    try:
        svg = svg_of(lambda axes: _draw(axes, result), "model")
    except ImportError as error:
        return missing_curves(error)
    caption = "the sum of all calls, each with the best kernel so far, by first timings (so partly luck)"
    about = f"From {format_seconds(result.curve[0][1])} to {format_seconds(result.curve[-1][1])}."
    return f'<section><div class="charts">{figure("The search", caption, about, svg)}</div></section>'


def save_plot(result: ModelResult, path: str | os.PathLike[str]) -> None:
    """Draw one panel with the curve of the total."""
    with saved(path, 1) as (axes,):
        _draw(axes, result)
        axes.set_title(f"{result.name}: {result.summary}", loc="left", fontsize=11, pad=10)


def _draw(axes: Any, result: ModelResult) -> None:
    axes.step(*zip(*result.curve, strict=True), where="post", color=COLOURS[1], linewidth=1.8)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: format_seconds(value) if value else "0")
    axes.set_xlabel("seconds of the search")
    axes.set_ylabel("time of all calls")
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
