"""Templates and runners that the tests of AutoTVM's names share."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from pegbox.plugins.tvm import autotvm, te
from pegbox.plugins.tvm.autotvm.measure import MeasureInput, MeasureResult, Runner


@autotvm.template("testing/matmul")
def matmul(N: int, L: int, M: int, dtype: str) -> Any:
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    y, x = s[C].op.axis
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    yo, yi = cfg["tile_y"].apply(s, C, y)
    if cfg["tile_x"].size[-1] > 1:
        xo, xi = cfg["tile_x"].apply(s, C, x)
        s[C].reorder(yo, xo, k, yi, xi)
    else:
        s[C].reorder(yo, k, yi, x)
    return s, [A, B, C]


def sample_task(n: int = 128) -> Any:
    return autotvm.task.create("testing/matmul", args=(n, n, n, "float32"), target="llvm")


def sample_records(count: int, n: int = 128) -> list[tuple[MeasureInput, MeasureResult]]:
    """Trials of the sample task, each slower than the one before."""
    task = sample_task(n)
    space = task.config_space
    return [
        (MeasureInput(task.target, task, space.get(i % len(space))), MeasureResult((i + 1.0,), 0, 0.5, 1.7e9 + i))
        for i in range(count)
    ]


class CountingRunner(Runner):
    """Runs nothing: a candidate costs what its place among all that were asked for says, the 3rd least."""

    def __init__(self) -> None:
        super().__init__(1, 1)
        self.numbers = itertools.count()
        self.asked: list[int] = []

    def run(self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Any]) -> list[MeasureResult]:
        assert len(measure_inputs) == len(build_results)
        self.asked += [inp.config.index for inp in measure_inputs]
        return [MeasureResult((1e-3 * (1 + abs(next(self.numbers) - 2)),), 0, 0.2, 1.7e9) for _ in measure_inputs]


def option(runner: Any = None) -> dict[str, Any]:
    return autotvm.measure_option(builder=autotvm.LocalBuilder(), runner=runner or CountingRunner())
