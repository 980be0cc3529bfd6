"""Templates that processes which compile can import without much else."""

from __future__ import annotations

import os
import time
from pathlib import Path
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


@pb.template(name="ends_its_process")
def ending(cfg: Any, n: int) -> Any:
    """A copy whose lowering ends in different ways, but not where the task is made."""
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i], name="B")
    cfg.define_knob("end", ["well", "exit", "abort", "never"])
    match cfg["end"].val:
        case "exit":
            os._exit(3)
        case "abort":
            os.abort()
        case "never":
            time.sleep(600)
    return te.create_schedule(b.op), [a, b]


@pb.template(name="waits_in_lowering")
def waiting(cfg: Any, folder: str) -> Any:
    """A copy whose lowering takes minutes; each leaves a file in the folder when it begins."""
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i], name="B")
    cfg.define_knob("number", list(range(16)))
    if number := cfg["number"].val:
        Path(folder, str(number)).touch()
        time.sleep(600)
    return te.create_schedule(b.op), [a, b]
