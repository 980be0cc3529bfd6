"""Pictures drawn by matplotlib (an optional dependency: `pip install 'pegbox[plot]'`).

Figures are made without pyplot, so that they need no window and leave the user's back end alone.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any

from pegbox.checks import check_path
from pegbox.errors import ArgumentError
from pegbox.output import Content, check_output, write_file

PICTURE = Content(
    "a picture", re.compile(rb"\x89PNG|<\?xml|<svg|%PDF|%!PS|%%|\xff\xd8\xff|\x1f\x8b|GIF8|RIFF|II\*|MM\0\*")
)
"""The formats of matplotlib: PNG, SVG, PDF, PostScript, PGF, JPEG, SVGZ, GIF, WebP, TIFF."""

INSTALL = "install it with: pip install 'pegbox[plot]'"

# Okabe and Ito, "Color Universal Design" (2008), darkened for thin lines on white: colour-blind people can distinguish
# them.
COLOURS = ("#0072b2", "#d55e00", "#00835c", "#b5488d", "#8a6d00", "#3a9fd6", "#5b5b66", "#7a3db8")
DASHES = ("-", "--", "-.", (0, (1, 1.2)), (0, (8, 2)), (0, (4, 1.5, 1, 1.5, 1, 1.5)), (0, (2, 3)))
MARKERS = "os^Dv*PX"
"""Dashes and markers that distinguish lines where colours don't, as in print.

Their numbers have no common divisor, so that pairs repeat late.
"""
_WIDTH, _HEIGHT = 7.5, 4.2
"""The size of one panel in inches."""

_LEFT, _RIGHT, _BELOW, _ABOVE = 0.75, 0.15, 0.55, 0.35
"""The margins of its axes in inches, for numbers, labels and the title; `_LEFT` is a minimum."""

_LINE, _ENTRY, _LETTER = 0.22, 0.55, 0.075
"""The sizes in inches of a legend's line of text, of the sample next to an entry, and of a letter."""

_EDGE = 0.06
"""The inches between the longest number or label and the edge."""


def check_plot(path: str | os.PathLike[str]) -> None:
    """Raise the errors of `save_plot`, before hours of measuring, if a plot cannot be written to `path`."""
    check_path("path", path)
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError as error:
        raise ArgumentError(f"plot to {os.fspath(path)!r} needs matplotlib ({error}); {INSTALL}") from error
    known = sorted(FigureCanvasBase.get_supported_filetypes())
    if Path(path).suffix.lstrip(".").lower() not in known:
        raise ArgumentError(f"plot to {os.fspath(path)!r}: the suffix must be one of .{', .'.join(known)}")
    check_output(path, PICTURE)


def missing_curves(error: ImportError) -> str:
    """Write the text that replaces pictures on a page without matplotlib."""
    return f'<p class="warning">{escape(f"The curves are missing: they need matplotlib ({error}); {INSTALL}")}</p>'


@contextmanager
def saved(path: str | os.PathLike[str], panels: int) -> Iterator[Sequence[Any]]:
    """Yield the axes of panels, one below the other, to draw on; then write them to the file."""
    from matplotlib import rc_context

    with rc_context({"text.parse_math": False}):  # a tuner's name may contain dollars
        figure, axes = make_figure(panels, dpi=144)
        yield axes
        _make_room(figure, axes)
        picture = io.BytesIO()
        figure.savefig(picture, format=Path(path).suffix.lstrip(".").lower())
        write_file(path, picture.getvalue())


def svg_of(draw: Callable[[Any], None], salt: str) -> str:
    """Draw on axes, and write their `svg` element without the XML declaration.

    Text remains text, and the same drawing with the same `salt` gives the same picture. Raises `ImportError` without
    matplotlib.
    """
    from matplotlib import rc_context

    settings: Any = {"svg.hashsalt": salt, "svg.fonttype": "none", "text.parse_math": False}
    with rc_context(settings), io.StringIO() as file:
        figure, (axes,) = make_figure(1)
        draw(axes)
        _make_room(figure, [axes])
        figure.savefig(file, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
        text = file.getvalue()
    # A page may have several pictures, but an id must be unique; nothing refers to the ids of groups.
    return re.sub(r'<g id="[^"]*"', "<g", text[text.index("<svg") :].rstrip())


def make_figure(panels: int, **settings: Any) -> tuple[Any, Sequence[Any]]:
    """Make a figure and the axes of its panels, one below the other.

    Margins are fixed, because matplotlib's layouts draw everything once more to find them.
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


def line_style(place: int) -> dict[str, Any]:
    """Return the colour, the dashes and the marker of a line by its number."""
    return {
        "color": COLOURS[place % len(COLOURS)],
        "linestyle": DASHES[place % len(DASHES)],
        "marker": MARKERS[place % len(MARKERS)],
    }


def legend_below(axes: Any, lines: Sequence[Any], labels: Sequence[str], *, title: str | None = None) -> None:
    """Write the legend below the axes, where it hides nothing, in as many columns as fit."""
    room = _WIDTH - _RIGHT - 2 * _EDGE
    columns = max(1, min(len(labels), int(room / (_ENTRY + _LETTER * max(map(len, labels), default=1)))))
    rows = -(-len(labels) // columns) + (title is not None)
    shrink(axes, below=_LINE * rows)
    foot = axes.get_position().y0 - (_BELOW + _LINE * rows) / axes.figure.get_figheight()
    axes.legend(
        lines, labels, title=title, ncols=columns, frameon=False, fontsize=9, title_fontsize=9,
        loc="lower center", bbox_to_anchor=(0.5, foot), bbox_transform=axes.figure.transFigure,
        handlelength=3, borderaxespad=0.2, columnspacing=1.5,
    )  # fmt: skip


def shrink(axes: Any, *, above: float = 0.0, below: float = 0.0) -> None:
    """Shrink the axes by so many inches."""
    own, height = axes.get_position(), axes.figure.get_figheight()
    axes.set_position((own.x0, own.y0 + below / height, own.width, own.height - (above + below) / height))


def _make_room(figure: Any, panels: Sequence[Any]) -> None:
    """Widen the left margin if the numbers and the label of a vertical axis do not fit."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas: Any = FigureCanvasAgg(figure)
    renderer = canvas.get_renderer()
    boxes = [axes.yaxis.get_tightbbox(renderer) for axes in panels]
    over = max((-box.x0 / figure.dpi for box in boxes if box is not None), default=0.0) + _EDGE
    if over <= 0:
        return
    for axes in panels:
        own = axes.get_position()
        axes.set_position((own.x0 + over / _WIDTH, own.y0, own.width - over / _WIDTH, own.height))
