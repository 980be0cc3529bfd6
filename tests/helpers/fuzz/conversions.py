"""Stages that take numbers as they are, of any magnitude: conversions between types, and operations that round once.

Nothing here multiplies and then adds, since a kernel may round the two once.
"""

from __future__ import annotations

from fuzz import dtypes
from fuzz.drawing import Drawing, Element
from pegbox import te
from pegbox.compute.tensor import Tensor
from pegbox.expr.dtypes import is_float


def _holds(d: Drawing, a: Tensor, dtype: str) -> int:
    """The bound of the numbers of `a` where they are converted to a type."""
    low = dtypes.lowest(dtype, 1)
    return d.bounds[a] if low < 0 and d.bounds[a] <= 100 and a not in d.ragged else dtypes.UNBOUNDED


def convert(d: Drawing) -> None:
    """Into another type, at times through a third one or through bool."""
    rng, a = d.rng, d.some(exact=True)
    types = [rng.choice((*dtypes.NUMBERS, "bool")) for _ in range(rng.choice((1, 1, 2)))]
    if types[-1] == "bool":
        types.append(dtypes.draw(rng))

    def value(*i: object) -> object:
        number = a[i]
        for dtype in types:
            number = dtypes.converted(number, dtype)
        return number

    d.add(a.shape, value, min(_holds(d, a, dtype) for dtype in types) if len(types) == 1 else dtypes.UNBOUNDED)


def raw(d: Drawing) -> None:
    """An operation on numbers as they are, that rounds at most once."""
    rng, a = d.rng, d.some(exact=True)
    b = next((t for t in d.bounds if t.dtype == a.dtype and t.shape and t not in d.rough | d.final | {a}), a)
    at = d.view(a.shape, b)
    extremes: list[Element] = [
        lambda *i: te.maximum(a[i], b[at(i)]), lambda *i: te.minimum(a[i], b[at(i)]), lambda *i: te.relu(a[i]),
    ]  # fmt: skip
    forms: list[Element] = [
        lambda *i: te.select(a[i] < b[at(i)], a[i], b[at(i)]),
        lambda *i: te.select(te.logical_not(a[i] <= b[at(i)]), b[at(i)], a[i]),
        lambda *i: te.select(a[i] == b[at(i)], te.const(1, a.dtype), a[i]),
        lambda *i: te.abs(a[i]),
        lambda *i: te.cast("float32", a[i] != b[at(i)]),
        lambda *i: a[i] + b[at(i)],
        lambda *i: a[i] - b[at(i)],
        lambda *i: -a[i],
    ]
    if is_float(a.dtype):
        forms += [
            lambda *i: te.floor(a[i]), lambda *i: te.ceil(a[i]), lambda *i: te.round(a[i]), lambda *i: te.trunc(a[i]),
            lambda *i: te.select(te.isinf(a[i]), te.const(2, a.dtype), a[i]),
            lambda *i: te.cast("int8", te.isnan(a[i])) + te.cast("int8", te.isfinite(a[i])) * te.const(2, "int8"),
        ]  # fmt: skip
        if d.signed_zeros:
            forms += [lambda *i: te.copysign(a[i], b[at(i)]), lambda *i: te.const(1, a.dtype) / a[i]]
            forms += [lambda *i: a[i] / b[at(i)]]
    draw = rng.random()
    if draw < 0.1:  # its rounding must not be left out
        d.final.add(d.add(a.shape, lambda *i: a[i] * b[at(i)], dtypes.UNBOUNDED))
    elif draw < 0.25:
        d.signed_zeros = False  # either of 0.0 and -0.0 is the larger one
        d.add(a.shape, rng.choice(extremes), dtypes.UNBOUNDED)
    else:
        d.add(a.shape, rng.choice(forms), dtypes.UNBOUNDED)


def extremes(d: Drawing) -> None:
    """The smallest or the largest number along an axis, NaN where there is one."""
    rng, a = d.rng, d.some(exact=True)
    *rows, n = a.shape
    k = te.reduce_axis((0, n), "k")
    fold = rng.choice((te.max, te.min))
    d.signed_zeros = False
    d.add(rows or (1,), lambda *i: fold(a[(*i[: len(rows)], k)], axis=k), dtypes.UNBOUNDED)
