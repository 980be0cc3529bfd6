"""Runs a TE schedule as machine code and holds the outputs against the NumPy reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import pegbox as pb
from pegbox import te
from pegbox.compute.reference import evaluate
from pegbox.compute.tensor import Tensor
from pegbox.schedule.te.replay import lower_te
from pegbox.schedule.te.schedule import TESchedule


def check_values(s: TESchedule, tensors: Sequence[Tensor]) -> None:
    """Small integers in floats: exact, whatever the order of the additions."""
    made = {t.buffer for stage in s.stages for t in stage.op.outputs}
    rng = np.random.default_rng(3)
    arrays = [
        np.full(t.shape, 77, t.dtype) if t.buffer in made else rng.integers(-5, 6, t.shape).astype(t.dtype)
        for t in tensors
    ]
    inputs = {t: a for t, a in zip(tensors, arrays, strict=True) if t.buffer not in made}
    expected = evaluate([t for t in tensors if t.buffer in made], inputs)
    pb.build(s, tensors, target="llvm -num-cores 2")(*arrays)
    got = [a for t, a in zip(tensors, arrays, strict=True) if t.buffer in made]
    for mine, wanted in zip(got, expected, strict=True):
        np.testing.assert_array_equal(mine, wanted)


def scheduled(s: TESchedule, tensors: Sequence[Tensor]) -> str:
    """The program with its blocks; the values are checked on the way."""
    check_values(s, tensors)
    return str(lower_te(s, tensors))


def matmul(m: int = 5, k: int = 7, n: int = 6) -> list[Any]:
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "k")
    return [a, b, te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), "C")]


def grid(m: int = 6, n: int = 10) -> list[Any]:
    """B = A + 1 over a matrix."""
    a = te.placeholder((m, n), name="A")
    return [a, te.compute((m, n), lambda i, j: a[i, j] + 1, "B")]


def stages(m: int = 6, n: int = 10) -> list[Any]:
    """A -> B -> C -> D, elementwise; D reads C shifted by one column."""
    a, b = grid(m, n)
    c = te.compute((m, n), lambda i, j: b[i, j] * 2, "C")
    d = te.compute((m, n - 1), lambda i, j: c[i, j] + c[i, j + 1], "D")
    return [a, b, c, d]
