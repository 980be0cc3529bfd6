"""compute_inline."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pegbox.compute.ops import compute, placeholder
from pegbox.errors import ScheduleError
from pegbox.schedule import Schedule
from pegbox.tir.script import tir as T


def test_the_value_moves_into_all_consumers(programs: Any, golden: Any, check_values: Any) -> None:
    args, reference = programs.chain()
    sch = Schedule(args)
    sch.compute_inline("A")
    sch.compute_inline("B")
    assert [b.name for b in sch.func.allocs] == ["C"]
    golden(sch)
    check_values(sch, reference)


def test_padding_moves_into_a_reduction(programs: Any, golden: Any, check_values: Any) -> None:
    args, reference = programs.conv()
    sch = Schedule(args)
    sch.compute_inline("P")
    golden(sch)
    check_values(sch, reference)


def test_packing_dissolves_into_plain_indices(programs: Any, check_values: Any) -> None:
    args, reference = programs.packed_matmul()
    sch = Schedule(args)
    sch.split(sch.get_loop("C", 1), factor=4)
    sch.compute_inline("packed")
    check_values(sch, reference)


def test_refuses_reductions_outputs_and_tuples(programs: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    with pytest.raises(ScheduleError, match=r"compute_inline\(C\): it is a reduction") as caught:
        sch.compute_inline("C")
    assert "  >             block C: " in str(caught.value)
    with pytest.raises(ScheduleError, match=r"compute_inline\(E\): it writes a parameter of the function"):
        sch.compute_inline("E")
    x = placeholder((4,), name="X")
    a, b = compute((4,), lambda i: (x[i] + x[i], x[i]), name="A")
    sch = Schedule([x, compute((4,), lambda i: a[i] * b[i], name="B")])
    with pytest.raises(ScheduleError, match="it has several outputs"):
        sch.compute_inline("A")


def test_refuses_unknown_blocks_with_the_names_there_are(programs: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    with pytest.raises(ScheduleError, match=r"no block is called 'F'[\s\S]*remedy: the program has C, D, E"):
        sch.compute_inline("F")


def test_a_predicate_takes_the_value_in_too(check_values: Any) -> None:
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8,), "float32")
        for i in range(8):
            with T.block("zero"):
                vi = T.axis.spatial(8, i)
                C[vi] = T.float32(0)
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] * T.float32(2)
        for i in range(8):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                T.where(B[i] < T.float32(4))
                C[vi] = B[vi]

    sch = Schedule(main)
    sch.compute_inline("B")
    assert not sch.func.allocs
    assert "T.where(A[i] * T.float32(2.0) < T.float32(4.0))" in sch.func.script()
    check_values(sch, lambda a: [np.where(a * 2 < 4, a * 2, 0)])
