"""Scheduled programs give the same values as machine code."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pegbox.codegen import Target, build, emit
from pegbox.errors import ScheduleError
from pegbox.loops.passes import lower_function
from pegbox.schedule import Schedule

TARGET = Target("llvm -num-cores 2")


def run(sch: Schedule, reference: Any) -> None:
    """Compile, run on small integers, compare exactly."""
    rng = np.random.default_rng(0)
    func = sch.func
    arrays = {b: rng.integers(-5, 6, b.shape).astype(b.dtype) for b in func.params}
    want = reference(*(a for b, a in arrays.items() if b not in func.outputs))
    for buffer in func.outputs:
        arrays[buffer][...] = 77
    build(emit(lower_function(func), TARGET))(*arrays.values())
    for buffer, expected in zip(func.outputs, want, strict=True):
        np.testing.assert_array_equal(arrays[buffer], expected)


@pytest.mark.parametrize("shape", [(5, 7, 6), (16, 32, 8), (1, 1, 1), (33, 17, 3)])
def test_a_tiled_matmul_with_write_back(programs: Any, shape: Any) -> None:
    args, reference = programs.matmul(*shape)
    sch = Schedule(args)
    i, j, k = sch.get_loops("C")
    i_0, i_1 = sch.split(i, factor=4)
    j_0, j_1 = sch.split(j, factor=8)
    k_0, k_1 = sch.split(k, factor=2)
    sch.reorder(i_0, j_0, k_0, k_1, i_1, j_1)
    back = sch.cache_write("C", 0, "local")
    sch.reverse_compute_at(back, j_0)
    sch.compute_at(sch.cache_read("C", "B", "local"), k_0)
    sch.vectorize(sch.get_loops(back)[-1])
    sch.vectorize(j_1)
    sch.unroll(i_1)
    sch.decompose_reduction("C", k_0)
    sch.parallel(i_0)
    run(sch, reference)


def test_a_vectorized_reduction(programs: Any) -> None:
    args, reference = programs.matmul(3, 2, 21)
    sch = Schedule(args)
    _, inner = sch.split(sch.get_loop("C", 2), factor=8)
    sch.vectorize(inner)
    run(sch, reference)


def test_a_convolution_by_rows(programs: Any) -> None:
    args, reference = programs.conv()
    sch = Schedule(args)
    outer, _ = sch.split(sch.get_loop("O", 0), factor=3)
    sch.compute_at("P", outer)
    sch.vectorize(sch.get_loops("P")[-1])
    sch.parallel(outer)
    run(sch, reference)


def _tile(sch: Schedule, block: str, draw: Any) -> None:
    loops = [sch.split(loop, factor=draw(st.integers(1, 9))) for loop in sch.get_loops(block)]
    order = draw(st.permutations([part for pair in loops for part in pair]))
    sch.reorder(*order)


@pytest.mark.parametrize("which", range(7))
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_random_tiles_attachments_and_kinds(which: int, data: Any, programs: Any) -> None:
    args, reference = programs.all[which]()
    sch = Schedule(args)
    for block in reversed(sch.get_blocks()):
        near = [loop for consumer in sch.get_consumers(block) for loop in sch.get_loops(consumer)]
        with suppress(ScheduleError):
            if near:
                sch.compute_at(block, data.draw(st.sampled_from(near)))
            else:
                _tile(sch, block.name, data.draw)
    for block in sch.get_blocks():
        for loop in sch.get_loops(block):
            with suppress(ScheduleError):
                data.draw(st.sampled_from([sch.vectorize, sch.parallel, sch.unroll, sch.extent]))(loop)
    run(sch, reference)
