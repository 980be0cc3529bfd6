"""A step chart as an SVG: lines with bands, axes with round ticks, and what a pointer needs to read values off it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 560, 340
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 14, 44
DASHES = ("", "7 4", "2 3", "9 3 2 3")
COLOURS = 8
"""How many tuners get a colour of their own (classes c0 to c7 of the style sheet); later ones differ by dashes."""


@dataclass(frozen=True)
class Series:
    """A line over the trials 1, 2, ...; values are shares. `band` is what is shaded around it, if anything."""

    name: str
    values: tuple[float, ...]
    band: tuple[tuple[float, ...], tuple[float, ...]] | None = None


@dataclass(frozen=True)
class Axes:
    """Where trials and shares lie on the picture."""

    trials: int
    low: float
    high: float

    def x(self, trial: float) -> float:
        return LEFT + (trial - 1) / max(self.trials - 1, 1) * (WIDTH - LEFT - RIGHT)

    def y(self, share: float) -> float:
        inside = min(max(share, self.low), self.high)
        return TOP + (self.high - inside) / (self.high - self.low) * (HEIGHT - TOP - BOTTOM)


def step_chart(series: Sequence[Series], axes: Axes, *, title: str, description: str, y_label: str) -> str:
    """The chart as an `svg` element. Its numbers stand in `data-chart`, for the script of the page."""
    data = {
        "names": [one.name for one in series],
        "values": [[round(value, 4) for value in one.values] for one in series],
        "left": LEFT,
        "right": WIDTH - RIGHT,
        "width": WIDTH,
        "trials": axes.trials,
    }
    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" tabindex="0" '
        f'aria-label="{escape(f"{title}. {description}")}" data-chart="{escape(json.dumps(data))}">',
        *_grid(axes, y_label),
        *(_band(place, one.band, axes) for place, one in enumerate(series) if one.band),
        *(_line(place, one, axes) for place, one in enumerate(series)),
        f'<line class="cursor" x1="0" x2="0" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>',
        "</svg>",
    ]
    return "\n".join(parts)


def swatch(place: int) -> str:
    """A short sample of a tuner's line, for the legend."""
    return (
        f'<svg class="swatch" viewBox="0 0 30 10" aria-hidden="true">'
        f'<path class="line c{place % COLOURS}"{_dashed(place)} d="M1 5H29"/></svg>'
    )


def ticks(low: float, high: float, *, about: int) -> list[float]:
    """Round numbers from `low` to `high`, some `about` of them: multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / max(about, 1)
    scale = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * scale for factor in (1, 2, 5, 10) if factor * scale >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


def _grid(axes: Axes, y_label: str) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = []
    for share in ticks(axes.low, axes.high, about=6):
        y = axes.y(share)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{right}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>')
    for trial in _trial_ticks(axes.trials):
        x = axes.x(trial)
        parts.append(f'<path class="axis" d="M{x:.1f} {bottom}v4"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{trial:g}</text>')
    parts.append(f'<path class="axis" d="M{LEFT} {bottom}H{right}"/>')
    parts.append(f'<text class="label" x="{(LEFT + right) / 2}" y="{HEIGHT - 6}" text-anchor="middle">trials</text>')
    middle = (TOP + bottom) / 2
    turned = f'transform="translate(13 {middle}) rotate(-90)" text-anchor="middle"'
    parts.append(f'<text class="label" {turned}>{escape(y_label)}</text>')
    return parts


def _trial_ticks(trials: int) -> list[float]:
    if trials < 3:
        return [float(trial) for trial in range(1, trials + 1)]
    return [1.0, *(tick for tick in ticks(1, trials, about=6) if tick == int(tick) and tick > 0.06 * trials)]


def _line(place: int, series: Series, axes: Axes) -> str:
    path = _steps(series.values, axes)
    return (
        f'<path class="line c{place % COLOURS}"{_dashed(place)} d="{path}"><title>{escape(series.name)}</title></path>'
    )


def _band(place: int, band: tuple[Sequence[float], Sequence[float]], axes: Axes) -> str:
    low, high = band
    back = _steps(low, axes, backwards=True)
    return f'<path class="band c{place % COLOURS}" d="{_steps(high, axes)}{back}Z"/>'


def _dashed(place: int) -> str:
    dashes = DASHES[place % len(DASHES)]
    return f' stroke-dasharray="{dashes}"' if dashes else ""


def _steps(values: Sequence[float], axes: Axes, *, backwards: bool = False) -> str:
    """A path that holds each value until the next one; only changes are written."""
    corners = [(axes.x(1), axes.y(values[0]))]
    for trial, value in enumerate(values[1:], start=2):
        x, y = axes.x(trial), axes.y(value)
        if abs(y - corners[-1][1]) > 0.02:
            corners += [(x, corners[-1][1]), (x, y)]
    corners.append((axes.x(len(values)), corners[-1][1]))
    ordered = corners[::-1] if backwards else corners
    return ("L" if backwards else "M") + "L".join(f"{x:.1f} {y:.1f}" for x, y in ordered)
