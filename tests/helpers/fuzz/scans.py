"""Random scans: running sums, recurrent cells, several states, with stages before and behind them."""

from __future__ import annotations

import random
from typing import Any

from fuzz.drawing import Graph
from pegbox import te

_EXTENTS = (2, 3, 5, 6, 8)


def scan(rng: random.Random) -> Graph:
    """A recurrence of small integers: values stay small, as each step halves, clamps or takes a maximum."""
    rank, dtype = rng.choice((1, 2, 2, 3)), rng.choice(("float32", "float64", "int32"))
    shape = tuple(rng.choice(_EXTENTS) for _ in range(rank))
    x = te.placeholder(shape, dtype, "X")
    data: Any = x
    if rng.random() < 0.4:
        data = te.compute(shape, lambda *i: x[i] * 2 + 1, "before")
    axis = rng.randrange(rank)
    made = _several(rng, data, axis) if rng.random() < 0.3 else [_one(rng, data, axis)]
    if rng.random() < 0.5:
        last = made[-1]
        after = te.compute(shape, lambda *i: last[i] * 2 - data[i], "after")
        made = [*made, after] if rng.random() < 0.4 else [after]
    return Graph("scan", (x, *made), tuple(made))


def _calm(value: Any, dtype: str) -> Any:
    return te.maximum(te.minimum(value, te.const(9, dtype)), te.const(-9, dtype))


def _back(i: tuple[Any, ...], axis: int, rows: int) -> tuple[Any, ...]:
    return (*i[:axis], i[axis] - rows, *i[axis + 1 :])


def _placeholder(data: Any, name: str) -> Any:
    return te.placeholder(data.shape, data.dtype, name)


def _start(data: Any, axis: int, rows: int, name: str) -> Any:
    return te.compute((*data.shape[:axis], rows, *data.shape[axis + 1 :]), lambda *i: data[i] + 1, name)


def _one(rng: random.Random, data: Any, axis: int) -> Any:
    shape, rank = data.shape, len(data.shape)
    rows = rng.choice([r for r in (1, 1, 2) if r < shape[axis]])
    state = _placeholder(data, "state")
    kind = rng.choice(("sum", "calm", "far", "mirror", "cell", "product"))
    read: Any = state
    if kind == "cell":
        read = te.compute(shape, lambda *i: state[_back(i, axis, 1)] + data[i], "cell")
    if kind == "product" and rank > 1:
        other = rng.choice([a for a in range(rank) if a != axis])
        k = te.reduce_axis((0, shape[other]), "k")

        def summed(*i: Any) -> Any:
            at = _back(i, axis, 1)
            return te.sum(state[(*at[:other], k, *at[other + 1 :])], axis=k)

        read = te.compute(shape, summed, "product")

    def step(*i: Any) -> Any:
        before = state[_back(i, axis, 1)]
        match kind:
            case "sum":
                return before + data[i]
            case "far":
                return _calm(before - state[_back(i, axis, rows)] + data[i], data.dtype)
            case "mirror":
                at = [n - 1 - v if a != axis else v for a, (v, n) in enumerate(zip(i, shape, strict=True))]
                return _calm(state[_back(tuple(at), axis, 1)] + data[i], data.dtype)
            case "cell" | "product" if read is not state:
                return _calm(read[i] - data[i], data.dtype)
            case _:
                return _calm(te.maximum(before, data[i]) + 1, data.dtype)

    update = te.compute(shape, step, "update")
    return te.scan(_start(data, axis, rows, "first"), update, state, name="rows", axis=axis)


def _several(rng: random.Random, data: Any, axis: int) -> list[Any]:
    shape, dtype = data.shape, data.dtype
    a, b = _placeholder(data, "a"), _placeholder(data, "b")
    new = te.compute(shape, lambda *i: te.maximum(a[_back(i, axis, 1)], data[i]), "new")
    if rng.random() < 0.5:
        other = te.compute(shape, lambda *i: _calm(b[_back(i, axis, 1)] - new[i], dtype), "other")
    else:
        other = te.compute(shape, lambda *i: _calm(a[_back(i, axis, 1)] + b[_back(i, axis, 1)], dtype), "other")
    starts = [_start(data, axis, 1, name) for name in ("first_a", "first_b")]
    return list(te.scan(starts, [new, other], [a, b], name="rows", axis=axis))
