"""Random ordered reductions: compositions of maps x -> a x + b; some have factors from a scan, as attention has."""

from __future__ import annotations

import random
from typing import Any

from fuzz.drawing import Graph
from pegbox import te

_EXTENTS = (1, 2, 3, 5, 8, 17)


def _follow(a: Any, b: Any) -> Any:
    return a[0] * b[0], a[1] * b[0] + b[1]


_MAPS = te.comm_reducer(_follow, lambda f, y: (te.const(1, f), te.const(0, y)), name="maps", ordered=True)


def ordered(rng: random.Random) -> Graph:
    """A composition of maps of each column; the factors are -1, 0 and 1, so that values stay small integers."""
    n, m, dtype = rng.choice(_EXTENTS), rng.choice(_EXTENTS), rng.choice(("float32", "float64", "int32"))
    x = te.placeholder((n, m), dtype, "X")
    one, less = te.const(1, dtype), te.const(-1, dtype)
    if n > 1 and rng.random() < 0.5:
        top = _running_maximum(x)
        factor = te.compute(x.shape, lambda t, i: te.select(x[t, i] < top[t, i], one, less), "factor")
    else:
        factor = te.compute(x.shape, lambda t, i: te.maximum(te.minimum(x[t, i], one), less), "factor")
    k, first = te.reduce_axis((0, n), "k"), rng.randrange(n)
    prefix = rng.random() < 0.4

    def element(i: Any) -> Any:
        return _MAPS((factor[k, i], x[k, i]), axis=k, where=k <= i + first if prefix else None)

    slope, value = te.compute((m,), element, name="R")
    if rng.random() < 0.3:
        return Graph("ordered", (x, slope, value), (slope, value))
    out = te.compute((m,), lambda i: value[i] * 2 - x[0, i], "O")
    return Graph("ordered", (x, out), (out,))


def _running_maximum(x: Any) -> Any:
    state = te.placeholder(x.shape, x.dtype, "state")
    start = te.compute((1, x.shape[1]), lambda t, i: x[t, i], "start")
    step = te.compute(x.shape, lambda t, i: te.maximum(state[t - 1, i], x[t, i]), "step")
    return te.scan(start, step, state, name="top")
