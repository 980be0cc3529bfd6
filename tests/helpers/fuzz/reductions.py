"""Stages of random graphs that reduce: sums, extremes, products of matrices, normalized rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from fuzz import dtypes
from fuzz.drawing import Drawing, Element
from fuzz.integers import condition
from pegbox import te

ARGMAX = te.comm_reducer(
    lambda a, b: (
        te.select(te.any(a[1] > b[1], te.all(a[1] >= b[1], a[0] < b[0])), a[0], b[0]),
        te.maximum(a[1], b[1]),
    ),
    lambda i, v: (te.const(2**30, i), te.min_value(v)),
    name="argmax",
)
_OWN = te.comm_reducer(lambda a, b: a + b, lambda t: te.const(0, t), name="plus")


def reduction(d: Drawing) -> None:
    """Over some axes of a tensor, maybe over a part of them, maybe not everywhere, maybe with a factor."""
    rng, a = d.rng, d.some()
    rank = len(a.shape)
    over = sorted(rng.sample(range(rank), rng.randint(1, min(rank, 2))))
    firsts = [rng.choice((0, 0, 0, 1)) if a.shape[n] > 1 else 0 for n in over]
    axes = [te.reduce_axis((f, a.shape[n]), f"k{n}") for n, f in zip(over, firsts, strict=True)]
    kept = [n for n in range(rank) if n not in over]
    shape = [a.shape[n] for n in kept] or [1]

    def point(i: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(axes[over.index(n)] if n in over else i[kept.index(n)] for n in range(rank))

    size = prod([a.shape[n] for n in over])
    where: Any = lambda i: None  # noqa: E731
    if rng.random() < 0.2:
        some = condition(rng, "int64", 2)
        where = rng.choice([lambda i: (axes[0] + i[0]) % 3 != 0, lambda i: some((axes[0], i[0]))])
    kinds = ["sum", "sum", "sum", "max", "min", "own"]
    if a not in d.rough:
        kinds += ["argmax"]
        if size <= 7:
            kinds += ["prod"]
    kind = rng.choice(kinds)
    if kind == "argmax":
        wide, get = te.cast("int32", axes[0]), d.plain(a, 8)
        d.add(shape, lambda *i: ARGMAX((wide, get(*point(i))), axis=axes, where=where(i)), dtypes.UNBOUNDED)
        return
    reduce = {"sum": te.sum, "max": te.max, "min": te.min, "prod": te.prod, "own": _OWN}[kind]
    get, bound = (d.calm(a, 2), 2**7) if kind == "prod" else (d.calm(a, 8), 8 * size)
    if kind in ("sum", "own"):
        element, sums = get, dtypes.wide(a.dtype, bound)
        get = lambda *i: te.cast(sums, element(*i))  # noqa: E731
    if kind in ("max", "min"):
        bound = dtypes.UNBOUNDED
    made = d.add(shape, lambda *i: reduce(get(*point(i)), axis=axes, where=where(i)), bound)
    if kind in ("max", "min") and rng.random() < 0.7:
        low = dtypes.lowest(a.dtype, 9)
        d.add(shape, lambda *i: te.maximum(te.minimum(made[i], 9), low) + 1, 10)


def product(d: Drawing) -> None:
    """Matrix products: plain, transposed, batched, packed, with a vector; with sums in a wider type at times."""
    rng, a = d.rng, d.some()
    if len(a.shape) < 2 or rng.random() < 0.3:
        a = d.fresh(d.shape(2), dtypes.draw(rng))
    depth = a.shape[-1]
    form = rng.choice(["plain", "plain", "transposed", "packed", "vector", "self"])
    sums = dtypes.wide(a.dtype, 64 * depth)
    if a.dtype in ("int8", "uint8") and rng.random() < 0.5:
        sums = "int32"
    get = d.calm(a, 8)
    n = d.size()
    r = te.reduce_axis((0, depth), "k")
    *batch, m, _ = a.shape
    size = prod(a.shape) * (m if form == "self" else 1 if form == "vector" else n)
    if size > d.scale.work or prod(batch) * m * n > d.scale.elements:
        return
    lead = tuple(batch)

    def total(left: Any, right: Any) -> Any:
        return te.sum(te.cast(sums, left) * te.cast(sums, right), axis=r)

    if form == "vector":
        v = d.fresh((depth,), d.near(a.dtype))
        other = d.factor(v, sums)
        d.add((*lead, m), lambda *i: total(get(*i, r), other(r)), 32 * depth)
    elif form == "self":
        d.add((*lead, m, m), lambda *i: total(get(*i[:-1], r), get(*i[:-2], i[-1], r)), 64 * depth)
    elif form == "packed":
        nr = rng.choice((2, 4, 8))
        b = d.fresh((depth, n), d.near(a.dtype))
        other = d.calm(b, 4)
        packed = d.add(
            (-(-n // nr), depth, nr),
            lambda x, y, z: te.if_then_else(x * nr + z < n, other(y, x * nr + z), te.const(0, b.dtype)),
            4,
        )
        element = d.factor(packed, sums)
        d.add((*lead, m, n), lambda *i: total(get(*i[:-1], r), element(i[-1] // nr, r, i[-1] % nr)), 32 * depth)
    else:
        own = rng.random() < 0.5
        b = d.fresh((*(lead if own else ()), *((n, depth) if form == "transposed" else (depth, n))), d.near(a.dtype))
        other = d.factor(b, sums)

        def right(i: Sequence[Any]) -> Any:
            first = tuple(i[: len(lead)]) if own else ()
            return other(*first, i[-1], r) if form == "transposed" else other(*first, r, i[-1])

        d.add((*lead, m, n), lambda *i: total(get(*i[:-1], r), right(i)), 32 * depth)


def normalized(d: Drawing) -> None:
    """Draw the structure of softmax and layer norm in integers: reductions of rows, and elements that use them."""
    a = d.some()
    get = d.plain(a, 4)
    *rows, n = a.shape
    if not rows or a.dtype in ("int8", "uint8") or 72 * n > dtypes.exact_to(a.dtype):
        return
    k, k2 = te.reduce_axis((0, n), "k"), te.reduce_axis((0, n), "q")
    top = d.add(rows, lambda *i: te.max(get(*i, k), axis=k), 4)
    less = d.add(a.shape, lambda *i: get(*i) - top[i[:-1]], 8)
    total = d.add(rows, lambda *i: te.sum(less[(*i, k2)] * less[(*i, k2)], axis=k2), 64 * n)
    low = te.const(0, a.dtype)
    d.add(a.shape, lambda *i: less[i] * n - te.maximum(total[i[:-1]], low), 8 * n + 64 * n)


def softmax(d: Drawing) -> None:
    a = d.some()
    *rows, n = a.shape
    if not rows or a.dtype not in ("float32", "float64"):
        return
    k, k2 = te.reduce_axis((0, n), "k"), te.reduce_axis((0, n), "q")
    get: Element = d.plain(a, 4)
    top = d.add(rows, lambda *i: te.max(get(*i, k), axis=k), 4)
    e = d.add(a.shape, lambda *i: te.exp(get(*i) - top[i[:-1]]), 1)
    d.rough.add(e)
    total = d.add(rows, lambda *i: te.sum(e[(*i, k2)], axis=k2), n)
    d.add(a.shape, lambda *i: e[i] / total[i[:-1]], 1)
