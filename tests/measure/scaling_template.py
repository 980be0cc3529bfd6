"""A template that processes which compile can import without much else."""

from __future__ import annotations

from typing import Any

import pegbox as pb
from pegbox import te

lowered_here: list[str] = []


@pb.template(name="lowered_elsewhere")
def scaled(cfg: Any, n: int) -> Any:
    """B = A + 2: two of four configs have equal programs, and one is invalid."""
    lowered_here.append("")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 2.0, name="B")
    s = te.create_schedule(b.op)
    cfg.define_knob("lanes", [1, 4, 8, 0])
    lanes = cfg["lanes"].val
    if lanes == 0:
        raise ValueError("no lanes")
    if lanes == 8:
        _, inner = s[b].split(b.op.axis[0], factor=4)
        s[b].vectorize(inner)
    if lanes == 4:
        _, inner = s[b].split(b.op.axis[0], factor=lanes)
        s[b].vectorize(inner)
    return s, [a, b]
