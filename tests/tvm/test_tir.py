"""`tvm.tir` and `tvm.ir`: names of schedules, and comparisons of programs."""

from __future__ import annotations

import pytest

from pegbox.plugins import tvm
from pegbox.plugins.tvm import te, tir
from pegbox.plugins.tvm.ir.module import IRModule
from pegbox.plugins.tvm.script import tir as T


@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * T.float32(2)


def test_one_schedule_has_many_names() -> None:
    assert tir.Schedule is tvm.tir.Schedule
    schedule = tir.Schedule(IRModule({"main": main}), debug_mask="all", error_render_level="detail")
    block = schedule.get_block("B")
    assert isinstance(block, tir.BlockRV)
    (loop,) = schedule.get_loops(block)
    assert isinstance(loop, tir.LoopRV)
    with pytest.raises(tir.ScheduleError):
        schedule.split(loop, factors=[])
    assert isinstance(schedule.mod["main"], tir.PrimFunc)
    assert tir.IndexMap.from_func(lambda i: (i // 4, i % 4)).map_shape((8,)) == (2, 4)
    assert isinstance(te.const(1) + tir.Var("x", "int64"), tir.PrimExpr)


def test_moved_blocks_have_no_loops_of_one_iteration_unless_they_are_asked_for() -> None:
    (A,) = (te.placeholder((4, 8), name="A"),)
    B = te.compute((4, 8), lambda i, j: A[i, j] * 2, name="B")
    C = te.compute((4, 8), lambda i, j: B[i, j] + 1, name="C")
    program = te.create_prim_func([A, C])
    for move, block, other in (("compute_at", "B", "C"), ("reverse_compute_at", "C", "B")):
        for keep, count in ((False, 2), (True, 3)):
            schedule = tir.Schedule(program)
            getattr(schedule, move)(
                block, schedule.get_loops(other)[0], **({"preserve_unit_loops": True} if keep else {})
            )
            assert len(schedule.get_loops(block)) == count
            again = tir.Schedule(program)
            schedule.trace.apply_to_schedule(again, remove_postproc=False)
            tvm.ir.assert_structural_equal(again.mod["main"], schedule.mod["main"])
            assert schedule.get(schedule.get_block(block)).name_hint == block


def test_a_decomposed_reduction_is_found_by_the_name_that_tvm_gives_it() -> None:
    A, k = te.placeholder((4, 8), name="A"), te.reduce_axis((0, 8), name="k")
    B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="B")
    schedule = tir.Schedule(te.create_prim_func([A, B]))
    with pytest.raises(tir.ScheduleError, match="no block is called 'B_update'"):
        schedule.get_block("B_update")
    init = schedule.decompose_reduction("B", schedule.get_loops("B")[1])
    assert init == schedule.get_block("B_init")
    update = schedule.get_block("B_update", func_name="main")
    assert [schedule.get(loop).loop_var.name for loop in schedule.get_loops(update)] == ["i", "k"]


def test_names_do_not_count_where_programs_are_compared() -> None:
    other = tir.Schedule(
        te.create_prim_func([A := te.placeholder((8,), name="X"), te.compute((8,), lambda i: A[i] * 2.0)])
    )
    changed = main.with_attr({"global_symbol": "main", "tir.noalias": True})
    tvm.ir.assert_structural_equal(other.mod["main"], changed)
    assert other.mod["main"] != changed


def test_programs_are_compared() -> None:
    mod = IRModule({"main": main})
    tvm.ir.assert_structural_equal(mod, IRModule.from_expr(main))
    assert not tvm.ir.structural_equal(mod, IRModule({"other": main}))
    with pytest.raises(AssertionError, match="the programs differ"):
        tvm.ir.assert_structural_equal(mod, IRModule({"other": main}))
