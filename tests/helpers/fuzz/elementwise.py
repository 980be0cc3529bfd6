"""Stages of random graphs that compute each element from elements of others at the same place, or nearly so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fuzz import dtypes
from fuzz.drawing import Drawing, Element
from fuzz.integers import arithmetic
from pegbox import te
from pegbox.expr.dtypes import is_float


def unary(d: Drawing) -> None:
    rng, a = d.rng, d.some()
    c, e = rng.randint(dtypes.lowest(a.dtype, 3), 3), rng.randint(dtypes.lowest(a.dtype, 5), 5)
    get = d.calm(a)
    bound = min(d.bounds[a], 16)
    forms: list[tuple[Element, int]] = [
        (lambda *i: get(*i) * c + e, 3 * bound + 5),
        (lambda *i: te.relu(get(*i) - abs(e)), bound + 5),
        (lambda *i: te.select(i[0] % 2 == 0, get(*i), get(*i) + 1), bound + 1),
        (lambda *i: te.select(i[-1] > 1, get(*i), te.const(3, a.dtype)), bound + 3),
        (lambda *i: get(*i) * get(*i), bound * bound),
    ]
    if a not in d.rough:
        other, plain = dtypes.draw(rng), d.plain(a)
        forms += [(lambda *i: dtypes.cast(other, plain(*i)), 16)] * 2
        forms.append((lambda *i: te.select(get(*i) > 0, get(*i), te.const(1, a.dtype)), bound + 1))
    d.add(a.shape, *rng.choice(forms))


def binary(d: Drawing) -> None:
    """Two tensors, often of different types."""
    rng, a = d.rng, d.some()
    if rng.random() < 0.7:
        b = d.some()
    else:
        b = d.fresh(rng.choice([a.shape, a.shape[-1:]]), a.dtype if rng.random() < 0.5 else dtypes.draw(rng))
    at, get, other = d.view(a.shape, b), d.calm(a), d.calm(b)
    forms: list[Element] = [
        lambda *i: get(*i) + other(*at(i)),
        lambda *i: get(*i) - other(*at(i)),
        lambda *i: get(*i) * other(*at(i)),
        lambda *i: te.maximum(get(*i), other(*at(i))),
        lambda *i: te.select(i[-1] % 3 < 1, get(*i), other(*at(i))),
    ]
    d.add(a.shape, rng.choice(forms), 256)


def mask(d: Drawing) -> None:
    """A tensor of truth values, computed or given, and what it chooses."""
    rng, a = d.rng, d.some(exact=True)
    at, get = d.view(a.shape, a), d.calm(a)
    if rng.random() < 0.7:
        chosen = d.add(a.shape, lambda *i: te.all(get(*i) > 0, i[-1] != 1), 1)
    else:
        chosen = d.fresh(a.shape, "bool")
    fill = te.const(2, a.dtype)
    if rng.random() < 0.5:
        d.add(a.shape, lambda *i: te.select(chosen[at(i)], get(*i), fill), 16)
    else:
        d.add(a.shape, lambda *i: te.cast(a.dtype, chosen[at(i)]) + get(*i), 17)


def outputs(d: Drawing) -> None:
    """One operation that makes two tensors, of two types at times."""
    a = d.some()
    get, plain = d.calm(a), d.plain(a)
    other = dtypes.draw(d.rng) if a not in d.rough and d.rng.random() < 0.5 else a.dtype
    second = (lambda *i: get(*i) * 2) if other == a.dtype else (lambda *i: dtypes.cast(other, plain(*i)))
    d.add(a.shape, lambda *i: (get(*i) + 1, second(*i)), 40)


def intrinsic(d: Drawing) -> None:
    a = d.some()
    if not is_float(a.dtype):
        return
    get = d.plain(a, 4)
    body = d.rng.choice([
        lambda *i: te.exp(get(*i) * 0.25), lambda *i: te.sqrt(te.abs(get(*i))), lambda *i: te.tanh(get(*i)),
        lambda *i: te.sigmoid(get(*i)), lambda *i: te.erf(get(*i)), lambda *i: te.log(te.abs(get(*i)) + 1),
    ])  # fmt: skip
    d.rough.add(d.add(a.shape, body, 4))


def scalar(d: Drawing) -> None:
    """Tensors of rank 0: an input or a reduction of everything, what is made of it, and who reads that."""
    rng, a = d.rng, d.some()
    get = d.calm(a, 8)
    axes = [te.reduce_axis((0, n), "k") for n in a.shape]
    size = 1
    for n in a.shape:
        size *= n
    sums = dtypes.wide(a.dtype, 8 * size)
    made = rng.choice([
        lambda: d.fresh((), a.dtype),
        lambda: d.add((), lambda: te.sum(te.cast(sums, get(*axes)), axis=axes), 8 * size),
        lambda: d.add((), lambda: get(*(n - 1 for n in a.shape)) + 1, 9),
    ])()  # fmt: skip
    for _ in range(rng.choice((0, 1, 1, 2))):
        before = d.calm(made, 8)
        made = d.add((), lambda before=before: before() * 2 + 1, 17)
    value = d.calm(made, 20)
    shape = rng.choice([(), (1,), d.shape(), a.shape])
    if shape == a.shape and rng.random() < 0.7:
        d.add(shape, lambda *i: value() + get(*i), 28)
    else:
        d.add(shape, lambda *i: value() * 2, 40)


def wrapping(d: Drawing) -> None:
    """Arithmetic on indices and elements that wraps around, or a tensor read where such a number says."""
    rng, a = d.rng, d.some(exact=True)
    get, rank = d.plain(a), len(a.shape)
    dtype = rng.choice(("int64", "int64", *dtypes.INTEGERS))
    element: Element = (lambda *i: a[i]) if not is_float(a.dtype) else get
    plan = arithmetic(rng, dtype, rank + 1, rng.choice((2, 3, 4)))

    def value(i: Sequence[Any]) -> Any:
        return plan([dtypes.cast(dtype, x) for x in (*i, element(*i))])

    if rng.random() < 0.75:
        d.add(a.shape, lambda *i: value(i), dtypes.UNBOUNDED)
    else:
        extent = a.shape[0]
        d.add(a.shape, lambda *i: get(te.cast("int64", value(i)) % extent, *i[1:]) * 1, 16)


def division(d: Drawing) -> None:
    """Divisors that come from memory."""
    a = d.some(exact=True)
    if a.dtype not in ("int32", "int64"):
        return
    get = d.calm(a)
    by = d.add(a.shape, lambda *i: get(*i) * get(*i) + 1, 257)
    at = d.view(a.shape, by)
    d.add(a.shape, lambda *i: 100 // by[i] + get(*i) % by[at(i)], 400)
