"""A template: every element of a vector, times two."""

from __future__ import annotations

from typing import Any

import pegbox as pb
from pegbox import te


@pb.template("acme_scale")
def scale(cfg: Any, N: int, dtype: str = "float32") -> Any:
    """y[i] = 2 x[i] for a vector of N elements."""
    x = te.placeholder((N,), name="x", dtype=dtype)
    y = te.compute((N,), lambda i: x[i] + x[i], name="y")
    s = te.create_schedule(y.op)
    (axis,) = s[y].op.axis
    cfg.define_split("tile", axis, num_outputs=2)
    cfg.define_knob("vectorize", [0, 1])
    _, inner = cfg["tile"].apply(s, y, axis)
    if cfg["vectorize"].val and cfg["tile"].size[-1] <= 64:
        s[y].vectorize(inner)
    return s, [x, y]
