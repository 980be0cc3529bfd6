"""rfactor of tir.Schedule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pegbox import te
from pegbox.compute.ops import compute, placeholder, reduce_axis
from pegbox.compute.ops import sum as sum_over
from pegbox.errors import ScheduleError
from pegbox.loops.nodes import BlockRealize, Function, Store
from pegbox.loops.reductions.combiner import combination_of
from pegbox.schedule import BlockRef, LoopRef, Schedule
from pegbox.tir import script


def refused(sch: Schedule, loop: LoopRef, *args: Any, match: str) -> str:
    """The message of a refusal that changes nothing."""
    before, known = sch.func, sch.trace
    with pytest.raises(ScheduleError, match=match) as caught:
        sch.rfactor(loop, *args)
    assert sch.func is before
    assert sch.trace == known
    return str(caught.value)


def test_partial_results_come_first_and_are_combined_afterwards(programs: Any, golden: Any, check_values: Any) -> None:
    args, reference = programs.matmul()
    sch = Schedule(args)
    _, k_1 = sch.split(sch.get_loop("C", 2), factor=4)
    assert sch.rfactor(k_1) == BlockRef("C_rf")
    golden(sch)
    check_values(sch, reference)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("place", [0, 1, 2, -1, -2, -3])
@pytest.mark.parametrize("factor", [1, 2, 4, 5, 16])
def test_the_new_dimension_stands_anywhere(
    factor: int, place: int, which: int, programs: Any, check_values: Any
) -> None:
    """Tails need not divide: elements without iterations hold the identity."""
    args, reference = programs.matmul()
    sch = Schedule(args)
    loops = sch.split(sch.get_loop("C", 2), factor=factor)
    if sch.extent(loops[which]) > 1:
        sch.rfactor(loops[which], place)
        partial = next(b for b in sch.func.allocs if b.name == "C_rf")
        assert partial.shape[place] == sch.extent(loops[which])
    check_values(sch, reference)


def test_an_axis_that_is_factored_whole_leaves_no_reduction(programs: Any, golden: Any, check_values: Any) -> None:
    args, reference = programs.argmax()
    sch = Schedule(args)
    sch.rfactor(sch.get_loop("best", 1), -1)
    assert not sch.tree.blocks["best_rf"].block.is_reduction
    golden(sch)
    check_values(sch, reference)


def test_a_tuple_of_values_splits_with_its_condition(golden: Any) -> None:
    x = placeholder((3, 10), name="X")
    k = reduce_axis((0, 10), name="k")
    product = te.comm_reducer(
        lambda a, b: (a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]),
        lambda p, q: (te.const(1, p), te.const(0, q)),
        name="complex_product",
    )
    real, imaginary = compute((3,), lambda i: product((x[i, k], 1 - x[i, k]), axis=k, where=k % 3 != 1), name="P")
    sch = Schedule([x, real, imaginary])
    k_0, _ = sch.split(sch.get_loop("P", 1), factor=4)
    sch.rfactor(k_0)
    golden(sch)


@pytest.mark.parametrize("how", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("dtype", ["int32", "float64"])
def test_all_reducers_keep_their_values(how: str, dtype: str, check_values: Any) -> None:
    x = placeholder((3, 11), dtype, "X")
    k = reduce_axis((2, 11), name="k")
    y = compute((3,), lambda i: getattr(te, how)(x[i, k], axis=k), name="Y")
    sch = Schedule([x, y])
    k_0, k_1 = sch.split(sch.get_loop("Y", 1), factor=4)
    sch.rfactor(k_1)
    sch.rfactor(k_0)
    check_values(sch, lambda a: [getattr(a[:, 2:], how)(1).astype(dtype)])


def test_several_axes_fused_and_split(programs: Any, check_values: Any) -> None:
    args, reference = programs.conv()
    sch = Schedule(args)
    outer, _ = sch.split(sch.fuse(*sch.get_loops("O")[2:]), factor=4)
    sch.rfactor(outer)
    check_values(sch, reference)


def test_other_reduce_axes_stay_whole(programs: Any, check_values: Any) -> None:
    args, reference = programs.conv()
    sch = Schedule(args)
    sch.rfactor(sch.get_loops("O")[2])
    block = sch.tree.blocks["O_rf"].block
    assert [(it.var.name, str(it.kind)) for it in block.iters] == [
        ("vkh", "spatial"), ("vi", "spatial"), ("vj", "spatial"), ("vkw", "reduce"),
    ]  # fmt: skip
    check_values(sch, reference)


def test_partial_results_stay_inside_of_a_loop_with_other_blocks(programs: Any, golden: Any, check_values: Any) -> None:
    args, reference = programs.matmul_relu()
    sch = Schedule(args)
    sch.compute_inline("D")
    sch.compute_at("C", sch.get_loop("E", 0))
    _, k_1 = sch.split(sch.get_loops("C")[-1], factor=4)
    sch.rfactor(k_1, -1)
    sch.vectorize(sch.get_loops("C_rf")[-1])
    sch.parallel(sch.get_loop("E", 0))
    golden(sch)
    check_values(sch, reference)


def test_split_k_over_threads(programs: Any, check_values: Any) -> None:
    args, reference = programs.matmul()
    sch = Schedule(args)
    i, j, k = sch.get_loops("C")
    k_0, k_1 = sch.split(k, nparts=2)
    sch.reorder(k_0, i, j, k_1)
    sch.rfactor(k_0)
    sch.parallel(k_0)
    sch.compute_at("C_rf", sch.get_loops("C")[0])
    check_values(sch, reference)


def test_decompose_reduction_takes_both_blocks(programs: Any, check_values: Any) -> None:
    args, reference = programs.matmul()
    sch = Schedule(args)
    k_0, k_1 = sch.split(sch.get_loop("C", 2), factor=4)
    sch.rfactor(k_1)
    sch.decompose_reduction("C_rf", k_0)
    sch.decompose_reduction("C", sch.get_loop("C", 0))
    assert [b.name for b in sch.get_blocks()] == ["C_rf_init", "C_rf", "C_init", "C"]
    check_values(sch, reference)


def test_names_that_are_taken_get_numbers(programs: Any, check_values: Any) -> None:
    args, reference = programs.matmul()
    sch = Schedule(args)
    k_0, k_1 = sch.split(sch.get_loop("C", 2), factor=2)
    assert sch.rfactor(k_0).name == "C_rf"
    assert sch.rfactor(sch.get_loops("C")[-1]).name == "C_rf_1"
    assert sch.rfactor(k_1).name == "C_rf_rf"
    assert [b.name for b in sch.func.allocs] == ["C_rf", "C_rf_1", "C_rf_rf"]
    check_values(sch, reference)


def test_refuses_spatial_loops_and_loops_of_no_reduction(programs: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    text = refused(sch, sch.get_loop("C", 0), match=r"rfactor\(i\): it is a spatial loop of C")
    assert "  > for i in range(5):" in text
    assert "remedy: give a reduce loop" in text
    refused(sch, sch.get_loop("D", 0), match=r"rfactor\(i\): block D is not a reduction")


def test_refuses_a_loop_that_holds_several_blocks(programs: Any) -> None:
    sch = Schedule(programs.rows()[0])
    sch.compute_at("total", sch.get_loop("centred", 0))
    refused(sch, sch.get_loop("centred", 0), match=r"rfactor\(i\): 2 blocks are below the loop: total, centred")


def test_refuses_a_reduce_loop_that_holds_other_blocks_as_well() -> None:
    x = placeholder((4, 8), name="X")
    k = reduce_axis((0, 8), name="k")
    doubled = compute((4, 8), lambda i, j: x[i, j] * 2, name="D")
    y = compute((4,), lambda i: sum_over(doubled[i, k], axis=k), name="Y")
    sch = Schedule([x, y])
    k_0, k_1 = sch.split(sch.get_loop("Y", 1), factor=4)
    sch.compute_at("D", k_0)
    refused(sch, k_1, match=r"rfactor\(k_1\): the reduce loop k_0 of Y holds other blocks as well")


def test_refuses_loops_of_spatial_and_reduce_variables(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    _, j, k = sch.get_loops("C")
    k_0, k_1 = sch.split(k, factor=2)
    fused = sch.fuse(j, k_0)
    refused(sch, fused, match=r"rfactor\(j_k_0_fused\): j_k_0_fused binds spatial and reduce variables of C at once")
    refused(sch, k_1, match=r"rfactor\(k_1\): j_k_0_fused binds spatial and reduce variables of C at once")


def test_refuses_a_place_beyond_the_dimensions(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    for place in (3, -4):
        refused(sch, sch.get_loop("C", 2), place, match=rf"factor_axis={place} is not a place among the 2 dimension")


def test_refuses_a_decomposed_reduction(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    k = sch.get_loop("C", 2)
    sch.decompose_reduction("C", k)
    text = refused(sch, k, match=r"rfactor\(k\): C has no init \(any more\)")
    assert "remedy: rfactor first, decompose_reduction after" in text


def test_refuses_loops_that_are_not_bound(programs: Any) -> None:
    sch = Schedule(programs.matmul(5, 7, 1)[0])
    _, k_1 = sch.split(sch.get_loop("C", 2), factor=1)
    refused(sch, k_1, match=r"rfactor\(k_1\): it binds no variable of C")


def test_refuses_what_it_cannot_take_apart(programs: Any) -> None:
    """The updates of hand-written blocks say how values combine, or nothing does."""
    sch = Schedule(_with_update(programs.matmul()[0], lambda old, new: old * 2.0 + new))
    refused(sch, sch.get_loop("C", 2), match=r"rfactor\(k\): (it is not known how C combines|.*keep their order)")


def _with_update(args: Any, change: Any) -> Function:
    sch = Schedule(args)
    realize = sch.tree.blocks["C"]
    body = realize.block.body
    assert isinstance(body, Store)
    found = combination_of(realize.block)
    assert found is not None
    value = change(body.value.a, found.sources[0])  # type: ignore[attr-defined]
    block = replace(realize.block, body=Store(body.buffer, body.indices, value), annotations=())
    return sch.tree.replace(realize, BlockRealize(realize.values, block, realize.predicate))


@pytest.mark.parametrize("name", ["matmul", "argmax", "conv"])
def test_programs_that_were_printed_and_read_are_taken_apart_as_well(
    name: str, programs: Any, check_values: Any
) -> None:
    args, reference = getattr(programs, name)()
    sch = Schedule(args)
    again = Schedule(script.from_source(sch.mod.script()))
    block = {"matmul": "C", "argmax": "best", "conv": "O"}[name]
    for each in (sch, again):
        each.rfactor(each.split(each.get_loops(block)[-1], factor=4)[1])
    assert again.mod == sch.mod
    check_values(again, reference)


def test_a_users_reducer_survives_the_script() -> None:
    x = placeholder((3, 10), name="X")
    k = reduce_axis((0, 10), name="k")
    both = te.comm_reducer(
        lambda a, b: (a[0] + b[0], te.maximum(a[1], b[1])), lambda p, q: (te.const(0, p), te.min_value(q)), name="both"
    )
    total, top = compute((3,), lambda i: both((x[i, k], x[i, k]), axis=k), name="Y")
    sch = Schedule([x, total, top])
    again = Schedule(script.from_source(sch.mod.script()))
    for each in (sch, again):
        each.rfactor(each.get_loops("Y")[-1])
    assert again.mod == sch.mod
