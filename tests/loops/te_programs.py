"""Small computations for the tests of the passes, and what their scheduled programs become, pass by pass."""

from __future__ import annotations

from typing import Any

import numpy as np
from lowered_interpreter import run_on

from pegbox import te
from pegbox.compute.reference import evaluate
from pegbox.compute.tensor import Tensor
from pegbox.loops.nodes import Function
from pegbox.loops.passes import lower_function
from pegbox.loops.passes.compact import compact_buffers
from pegbox.loops.passes.flatten import flatten_blocks
from pegbox.loops.passes.guards import drop_guards
from pegbox.loops.passes.hoist import hoist_tests
from pegbox.loops.passes.init import lower_inits
from pegbox.loops.passes.partition import partition_loops
from pegbox.schedule.te.replay import lower_te
from pegbox.schedule.te.schedule import TESchedule

PASSES = {
    "init": lower_inits,
    "flatten": flatten_blocks,
    "compact": compact_buffers,
    "guards": drop_guards,
    "hoist": hoist_tests,
    "partition": partition_loops,
}


def through(last: str, s: TESchedule, tensors: list[Tensor]) -> Function:
    """The program after the pass `last` and all those before it."""
    func = lower_te(s, tensors)
    for name, run in PASSES.items():
        func = run(func)
        if name == last:
            return func
    raise KeyError(last)


def vector(n: int = 10, dtype: str = "float32") -> tuple[Tensor, Tensor]:
    a = te.placeholder((n,), dtype, "A")
    return a, te.compute((n,), lambda i: a[i] + 1, "B")


def matmul(m: int = 5, k: int = 7, n: int = 6, dtype: str = "float32") -> list[Tensor]:
    a, b = te.placeholder((m, k), dtype, "A"), te.placeholder((k, n), dtype, "B")
    r = te.reduce_axis((0, k), "k")
    return [a, b, te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), "C")]


def two_stages(n: int = 10) -> list[Tensor]:
    """B = A + 1, C = B * 2."""
    a, b = vector(n)
    return [a, b, te.compute((n,), lambda i: b[i] * 2, "C")]


def blur(n: int = 10) -> list[Tensor]:
    """B = A + 1, C[i] = B[i] + B[i + 1]: neighbouring tiles of C need one element of B twice."""
    a, b = vector(n + 1)
    return [a, b, te.compute((n,), lambda i: b[i] + b[i + 1], "C")]


def check_values(s: TESchedule, tensors: list[Tensor]) -> Function:
    """Lower, run, and compare exactly with the reference; gives the lowered program."""
    func = lower_function(lower_te(s, tensors))
    rng = np.random.default_rng(1)
    outputs = [t for t in tensors if t.buffer in func.outputs]
    inputs: dict[Tensor, Any] = {
        t: rng.integers(-4, 5, t.shape).astype(t.dtype) for t in tensors if t.buffer not in func.outputs
    }
    for got, want in zip(run_on(func, tensors, inputs), evaluate(outputs, inputs), strict=True):
        np.testing.assert_array_equal(got, want)
    return func
