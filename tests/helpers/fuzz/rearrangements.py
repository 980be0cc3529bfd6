"""Stages of random graphs that move elements: other indices, padding, concatenation, indices from memory."""

from __future__ import annotations

from math import prod
from typing import Any

from fuzz.drawing import Drawing
from pegbox import te


def transpose(d: Drawing) -> None:
    a = d.some()
    order = list(range(len(a.shape)))
    d.rng.shuffle(order)
    shape = [a.shape[n] for n in order]
    d.add(shape, lambda *i: a[tuple(i[order.index(n)] for n in range(len(order)))] + 1, d.bounds[a] + 1, moved=a)


def reshape(d: Drawing) -> None:
    """Reshape a tensor through the flat index: `//` and `%`."""
    rng, a = d.rng, d.some()
    size = prod(a.shape)
    divisors = [n for n in range(1, size + 1) if size % n == 0]
    first = rng.choice(divisors)
    shape = rng.choice([(size,), (first, size // first)])

    def body(*i: Any) -> Any:
        flat = i[0] if len(i) == 1 else i[0] * shape[1] + i[1]
        indices: list[Any] = []
        for extent in reversed(a.shape):
            indices.append(flat % extent)
            flat = flat // extent
        return a[tuple(reversed(indices))] * 1

    d.add(shape, body, d.bounds[a], moved=a)


def pad(d: Drawing) -> None:
    rng, a = d.rng, d.some()
    pads = [rng.choice((0, 1, 2)) for _ in a.shape]
    shape = [n + p + rng.choice((0, p)) for n, p in zip(a.shape, pads, strict=True)]
    if prod(shape) > d.scale.elements:
        return
    fill = te.const(rng.choice((0, 0, 3)), a.dtype)

    def body(*i: Any) -> Any:
        inside = [c for x, p, n in zip(i, pads, a.shape, strict=True) for c in (x >= p, x < n + p)]
        return te.if_then_else(te.all(*inside), a[tuple(x - p for x, p in zip(i, pads, strict=True))], fill)

    d.add(shape, body, d.bounds[a] + 3, moved=a)


def concat(d: Drawing) -> None:
    """One tensor, then another one along the first axis; or every other element."""
    rng, a = d.rng, d.some()
    b = d.some() if rng.random() < 0.5 else d.fresh(a.shape, a.dtype)
    n = a.shape[0]
    at, (rows, *rest) = d.view(a.shape, b), (2 * n, *a.shape[1:])
    if rows * prod(rest) > d.scale.elements or a.dtype != b.dtype:
        return
    if rng.random() < 0.6:
        body = lambda *i: te.if_then_else(i[0] < n, a[(i[0], *i[1:])], b[at((i[0] - n, *i[1:]))])  # noqa: E731
    else:
        body = lambda *i: te.select(i[0] % 2 == 0, a[(i[0] // 2, *i[1:])], b[at((i[0] // 2, *i[1:]))])  # noqa: E731
    d.add((rows, *rest), body, max(d.bounds[a], d.bounds[b]), moved=a if a in d.ragged else b)


def gather(d: Drawing) -> None:
    """Indices that come from memory, kept inside."""
    rng, a = d.rng, d.some()
    where = d.fresh((d.size(),), rng.choice(("int32", "int32", "int8", "int64")))
    last = a.shape[0] - 1
    shape = (where.shape[0], *a.shape[1:])
    if prod(shape) > d.scale.elements:
        return
    at = lambda i: te.maximum(te.minimum(te.cast("int64", where[i]), last), 0)  # noqa: E731
    if rng.random() < 0.5:
        d.add(shape, lambda *i: a[(at(i[0]), *i[1:])] + 1, d.bounds[a] + 1, moved=a)
    else:
        index = d.add(where.shape, lambda i: at(i), last)
        d.add(shape, lambda *i: a[(index[i[0]], *i[1:])] * 1, d.bounds[a], moved=a)
