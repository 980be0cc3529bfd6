"""Templates, records and a measurer that the tests of AutoTVM's names share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from pegbox import Config
from pegbox.measure import Result
from pegbox.plugins.tvm import autotvm, te
from pegbox.plugins.tvm.autotvm.measure import MeasureInput, MeasureResult
from pegbox.search.testing import ArtificialMeasurer


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


class CountingMeasurer(ArtificialMeasurer):
    """Compiles nothing: a candidate costs what its place among all that were asked for says, the 3rd least."""

    def __init__(self, asked: list[int]) -> None:
        super().__init__(lambda config: 1e-3 * (1 + abs(asked.index(config.index) - 2)))
        self.asked = asked

    def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
        for config in configs:
            self.asked.append(config.index)
            yield from super().measure([config])


def counting(patch: pytest.MonkeyPatch) -> list[int]:
    """Let searches get costs at once; returns the indices that they ask for."""
    asked: list[int] = []

    def factory(options: Any, **given: Any) -> Any:
        return lambda task, **more: CountingMeasurer(asked)

    patch.setattr("pegbox.search.session.local_measurer", factory)
    return asked


def option() -> dict[str, Any]:
    return autotvm.measure_option(builder="local", runner=autotvm.LocalRunner())
