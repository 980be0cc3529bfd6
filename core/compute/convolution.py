"""Convolutions of tensors and borders around tensors, each as one stage."""

from __future__ import annotations

from collections.abc import Sequence

from pegbox.compute.ops import compute, reduce_axis, sum
from pegbox.compute.tensor import Tensor
from pegbox.expr.build import all_of, const, if_then_else
from pegbox.expr.nodes import Expr


def padded(
    x: Tensor, before: Sequence[int], after: Sequence[int], value: Expr | float = 0.0, *, name: str = "padded"
) -> Tensor:
    """Put a border of one value around X: `before[d]` elements before axis d, `after[d]` after it."""
    if not any((*before, *after)):
        return x
    edge = value if isinstance(value, Expr) else const(value, x.dtype)
    sides = list(zip(before, x.shape, after, strict=True))

    def element(*at: Expr) -> Expr:
        tests: list[Expr] = []
        for i, (low, extent, high) in zip(at, sides, strict=True):
            tests += [i >= low] * (low > 0) + [i < extent + low] * (high > 0)
        return if_then_else(all_of(tests), x(*(i - low for i, low in zip(at, before, strict=True))), edge)

    return compute(tuple(low + extent + high for low, extent, high in sides), element, name=name)


def convolve(
    x: Tensor,
    w: Tensor,
    strides: Sequence[int],
    dilations: Sequence[int],
    groups: int = 1,
    *,
    channel_last: bool = False,
) -> Tensor:
    """Convolve X[n, c, *spatial], which has its border, with filters W[o, c / groups, *kernel].

    Args:
        channel_last: X and the result have their channels after the spatial axes.
    """
    n, *spatial = x.shape
    spatial.pop(-1 if channel_last else 0)
    o, c, *kernel = w.shape
    rc = reduce_axis((0, c), name="rc")
    offsets = [reduce_axis((0, k), name=f"r{d}") for d, k in enumerate(kernel)]

    def element(*at: Expr) -> Expr:
        b, *pixel = at
        f = pixel.pop(-1 if channel_last else 0)
        channel = rc if groups == 1 else f // (o // groups) * c + rc
        places = [i * s + r * d for i, s, r, d in zip(pixel, strides, offsets, dilations, strict=True)]
        point = (*places, channel) if channel_last else (channel, *places)
        return sum(x(b, *point) * w(f, rc, *offsets), axis=[rc, *offsets])

    counts = _counts(spatial, kernel, strides, dilations)
    return compute((n, *counts, o) if channel_last else (n, o, *counts), element, name="conv")


def convolve_nhwc(x: Tensor, w: Tensor, strides: Sequence[int], dilations: Sequence[int]) -> Tensor:
    """Convolve X[n, y, x, c], which has its border, with filters W[ky, kx, c, o]."""
    n, *spatial, _ = x.shape
    *kernel, c, o = w.shape
    (down, across), (dy, dx) = strides, dilations
    ry, rx, rc = (reduce_axis((0, e), name=name) for e, name in zip((*kernel, c), ("ry", "rx", "rc"), strict=True))

    def element(b: Expr, i: Expr, j: Expr, f: Expr) -> Expr:
        return sum(x[b, i * down + ry * dy, j * across + rx * dx, rc] * w[ry, rx, rc, f], axis=[ry, rx, rc])

    return compute((n, *_counts(spatial, kernel, strides, dilations), o), element, name="conv")


def _counts(
    extents: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[int]:
    """Count the outputs along each axis."""
    sides = zip(extents, kernel, strides, dilations, strict=True)
    return [(extent - dilation * (k - 1) - 1) // stride + 1 for extent, k, stride, dilation in sides]
