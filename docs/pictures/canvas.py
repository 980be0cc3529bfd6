"""A canvas that collects SVG elements on a white card, so that a picture can be read on a dark page too."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

# Okabe and Ito, "Color Universal Design" (2008): colour-blind people tell them apart.
BLUE, ORANGE, GREEN, PINK, GREY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a8a93"
INK, PALE = "#24242c", "#e8e8ee"
TINTS = ("#d6e9f5", "#fbe3d0", "#d3efe5", "#f6e3ed")
"""Light forms of the first four colours, for areas under text."""

_SIZE = 13
_MONO = "ui-monospace, 'DejaVu Sans Mono', Menlo, monospace"
_SANS = "system-ui, 'DejaVu Sans', Arial, sans-serif"

Point = tuple[float, float]


class Canvas:
    """Elements in the order of drawing; lengths are in pixels, y grows downwards."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self._width, self._height, self._title = width, height, title
        self._parts: list[str] = []

    def rect(self, at: Point, size: Point, *, fill: str = "none", stroke: str = "none", dashed: bool = False) -> None:
        (x, y), (width, height) = at, size
        dashes = ' stroke-dasharray="3 3"' if dashed else ""
        self._add(f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" rx="3"'
                  f' fill="{fill}" stroke="{stroke}"{dashes}/>')  # fmt: skip

    def circle(self, at: Point, radius: float, *, fill: str, hollow: bool = False) -> None:
        colours = f'fill="none" stroke="{fill}"' if hollow else f'fill="{fill}"'
        self._add(f'<circle cx="{_n(at[0])}" cy="{_n(at[1])}" r="{_n(radius)}" {colours}/>')

    def path(
        self, points: Sequence[Point], *, stroke: str, width: float = 1.5, opacity: float = 1.0, dashed: bool = False
    ) -> None:
        """A line through all points."""
        dashes = ' stroke-dasharray="6 3"' if dashed else ""
        line = "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in points)
        self._add(f'<path d="{line}" fill="none" stroke="{stroke}" stroke-width="{_n(width)}"'
                  f' stroke-opacity="{_n(opacity)}" stroke-linejoin="round"{dashes}/>')  # fmt: skip

    def text(
        self, at: Point, words: str, *, size: float = _SIZE, fill: str = INK, anchor: str = "start", bold: bool = False
    ) -> None:
        weight = ' font-weight="600"' if bold else ""
        self._add(f'<text x="{_n(at[0])}" y="{_n(at[1])}" font-size="{_n(size)}" fill="{fill}"'
                  f' text-anchor="{anchor}"{weight}>{escape(words)}</text>')  # fmt: skip

    def code(self, at: Point, lines: Sequence[str], *, size: float = 12) -> float:
        """Lines of a program; gives the y below the last one."""
        x, y = at
        for line in lines:
            self._add(f'<text x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}" fill="{INK}" xml:space="preserve"'
                      f' font-family="{_MONO}">{escape(line)}</text>')  # fmt: skip
            y += size * 1.45
        return y

    def svg(self) -> str:
        """The file's text; the same drawing gives the same text."""
        size = f"{_n(self._width)} {_n(self._height)}"
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" width="{_n(self._width)}"'
                f' height="{_n(self._height)}" font-family="{_SANS}" role="img">',
                f"<title>{escape(self._title)}</title>",
                f'<rect width="100%" height="100%" rx="8" fill="#ffffff" stroke="{PALE}"/>',
                *self._parts,
                "</svg>\n",
            ]
        )

    def _add(self, element: str) -> None:
        self._parts.append(element)


def _n(value: float) -> str:
    """A number with two decimals at most, without trailing zeros."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
