"""Stages of random graphs that read neighbours: stencils and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from fuzz import dtypes
from fuzz.drawing import Drawing
from pegbox import te


def stencil(d: Drawing) -> None:
    """Neighbours along one or two axes, in steps, spread out, or clamped at the border."""
    rng, a = d.rng, d.some()
    get = d.calm(a)
    dims = rng.sample(range(len(a.shape)), rng.choice((1, min(2, len(a.shape)))))
    taps, shape = {}, list(a.shape)
    for dim in dims:
        stride, dilation, count = rng.choice((1, 1, 2, 3)), rng.choice((1, 1, 2)), rng.choice((2, 3))
        reach = (count - 1) * dilation + 1
        if a.shape[dim] < reach:
            continue
        shape[dim] = (a.shape[dim] - reach) // stride + 1
        taps[dim] = (stride, dilation, count)

    def at(i: Sequence[Any], dim: int | None, tap: int) -> Any:
        return get(*(x * taps[n][0] + (tap * taps[n][1] if n == dim else 0) if n in taps else x
                     for n, x in enumerate(i)))  # fmt: skip

    def body(*i: Any) -> Any:
        total = at(i, None, 0)
        for dim, (_, _, count) in taps.items():
            for tap in range(1, count):
                total = total + at(i, dim, tap)
        return total

    d.add(shape, body, 100)


def border(d: Drawing) -> None:
    """A stencil that is cut at the border instead of shrinking."""
    rng, a = d.rng, d.some()
    get = d.calm(a)
    dim = rng.randrange(len(a.shape))
    last = a.shape[dim] - 1
    step = rng.choice((-1, 1, 2))

    def shifted(i: Sequence[Any], *, clamp: bool) -> Any:
        x = i[dim] + step
        x = te.maximum(te.minimum(x, last), 0) if clamp else x
        return get(*(x if n == dim else y for n, y in enumerate(i)))

    if rng.random() < 0.5:
        d.add(a.shape, lambda *i: get(*i) + shifted(i, clamp=True), 40)
    else:

        def body(*i: Any) -> Any:
            inside = te.all(i[dim] + step >= 0, i[dim] + step <= last)
            return te.if_then_else(inside, get(*i) + shifted(i, clamp=False), get(*i))

        d.add(a.shape, body, 40)


def convolution(d: Drawing) -> None:
    """Over the last axis or the last two, with stride and dilation; the axes before them are summed over."""
    rng, a = d.rng, d.some()
    get = d.calm(a, 8)
    rank = len(a.shape)
    spatial = [rank - 2, rank - 1] if rank > 2 else [rank - 1]
    windows, strides, dilations, out = [], [], [], []
    for dim in spatial:
        width, dilation, stride = rng.choice((1, 2, 3)), rng.choice((1, 2)), rng.choice((1, 2))
        if (width - 1) * dilation + 1 > a.shape[dim]:
            width = 1
        windows.append(width), strides.append(stride), dilations.append(dilation)
        out.append((a.shape[dim] - (width - 1) * dilation - 1) // stride + 1)
    channels = list(a.shape[: spatial[0]])
    filters = rng.choice((1, 2, 3))
    kernel = d.fresh((filters, *channels, *windows), d.near(a.dtype))
    taps = prod([*channels, *windows])
    if filters * prod(out) * taps > d.scale.work or filters * prod(out) > d.scale.elements:
        return
    rc = [te.reduce_axis((0, c), "rc") for c in channels]
    rs = [te.reduce_axis((0, w), f"r{n}") for n, w in enumerate(windows)]
    sums = dtypes.wide(a.dtype, 32 * taps)
    weight = d.factor(kernel, sums)

    def body(*i: Any) -> Any:
        f, *xs = i
        at = [x * s + r * e for x, s, r, e in zip(xs, strides, rs, dilations, strict=True)]
        return te.sum(te.cast(sums, get(*rc, *at)) * weight(f, *rc, *rs), axis=[*rc, *rs])

    d.add((filters, *out), body, 32 * taps)
