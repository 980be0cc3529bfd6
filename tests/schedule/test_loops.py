"""split, fuse, reorder, tile."""

from __future__ import annotations

from typing import Any

import pytest

from pegbox.errors import ScheduleError
from pegbox.loops.nodes import For
from pegbox.schedule import Schedule
from pegbox.schedule.tree import Tree


def test_split_by_factors_that_divide(programs: Any, golden: Any, check_values: Any) -> None:
    args, reference = programs.matmul(8, 6, 4)
    sch = Schedule(args)
    i, j, k = sch.get_loops("C")
    assert [r.name for r in sch.split(i, [2, None, 2])] == ["i_0", "i_1", "i_2"]
    sch.split(j, nparts=3)
    sch.split(k, factor=2, names=["ko", "ki"])
    golden(sch)
    check_values(sch, reference)


def test_split_with_a_tail_guards_the_blocks_below(programs: Any, golden: Any, check_values: Any) -> None:
    args, reference = programs.matmul()
    sch = Schedule(args)
    i, j, k = sch.get_loops("C")
    for loop in (i, j, k):
        sch.split(loop, factor=4)
    sch.split(sch.get_loop("C", 3), factor=3)
    golden(sch)
    check_values(sch, reference)


def test_split_keeps_loops_of_one_iteration(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    outer, inner = sch.split(sch.get_loop("C", 0), factor=16)
    assert (sch.extent(outer), sch.extent(inner)) == (1, 16)


def test_split_of_a_split_of_a_fused_loop_simplifies_where_the_tiles_fit(programs: Any) -> None:
    sch = Schedule(programs.matmul(8, 16, 2)[0])
    i, j, _ = sch.get_loops("C")
    sch.split(sch.fuse(i, j, name="f"), factor=16)
    assert [str(v) for v in sch.tree.blocks["C"].values[:2]] == ["f_0", "f_1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"factors": [2, 2]}, r"2 \* 2 = 4 iterations cannot cover the 5 of i"),
        ({"factors": [None, None]}, "at most one of them None"),
        ({"factors": []}, "at least one extent"),
        ({"factor": 0}, "extent 0 is not a number of iterations"),
        ({"factor": 2.5}, "factor = 2.5 is not an integer"),
        ({"factor": 2, "nparts": 2}, "exactly one of factors, factor and nparts"),
        ({}, "exactly one of"),
        ({"factor": 2, "names": ["a"]}, r"1 name\(s\) for 2 loops"),
    ],
)
def test_split_refuses_bad_extents(programs: Any, options: Any, message: str) -> None:
    sch = Schedule(programs.matmul()[0])
    with pytest.raises(ScheduleError, match=message):
        sch.split(sch.get_loop("C", 0), **options)
    assert len(sch.trace) == 0


def test_split_refuses_a_loop_that_is_vectorized_already(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    j = sch.get_loop("C", 1)
    sch.vectorize(j)
    with pytest.raises(ScheduleError, match=r"split\(j, factor=2\): j is vectorized already") as caught:
        sch.split(j, factor=2)
    assert "  >     for j in vectorized range(7):" in str(caught.value)
    assert "remedy: do this first" in str(caught.value)


def test_fuse_makes_one_loop(programs: Any, golden: Any, check_values: Any) -> None:
    args, reference = programs.matmul()
    sch = Schedule(args)
    sch.annotate(sch.get_loop("C", 1), "note", 7)
    fused = sch.fuse(*sch.get_loops("C"))
    assert sch.extent(fused) == 5 * 7 * 6
    golden(sch)
    check_values(sch, reference)


def test_fuse_refuses_loops_with_something_between(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    i, j, k = sch.get_loops("C")
    with pytest.raises(ScheduleError, match="k is not the only statement directly inside i"):
        sch.fuse(i, k)
    with pytest.raises(ScheduleError, match="i is not the only statement directly inside j"):
        sch.fuse(j, i)
    with pytest.raises(ScheduleError, match="loop i is given twice"):
        sch.fuse(i, i)


def test_reorder_leaves_the_other_loops_in_place(programs: Any, golden: Any, check_values: Any) -> None:
    args, reference = programs.matmul()
    sch = Schedule(args)
    i, _, k = sch.get_loops("C")
    sch.reorder(k, i)
    golden(sch)
    check_values(sch, reference)


def test_reorder_does_nothing_when_the_order_is_there(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    before = sch.func
    sch.reorder(*sch.get_loops("C"))
    assert sch.func is before


def test_reorder_refuses_to_cross_a_branch(programs: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    with pytest.raises(ScheduleError, match="the program branches before all of them"):
        sch.reorder(sch.get_loop("D", 0), *sch.get_loops("C"))
    i, j = sch.get_loops("E")
    sch.compute_at("D", i)
    with pytest.raises(ScheduleError, match="below i the program branches") as caught:
        sch.reorder(j, i)
    assert "block D: " in str(caught.value)


def test_reorder_refuses_to_start_a_reduction_again(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    fused = sch.fuse(*sch.get_loops("C")[1:])
    outer, inner = sch.split(fused, factor=4)
    with pytest.raises(ScheduleError, match="binds both spatial and reduce variables of the reduction C"):
        sch.reorder(inner, outer)


def test_reorder_of_such_loops_is_fine_after_decompose_reduction(programs: Any, check_values: Any) -> None:
    args, reference = programs.matmul()
    sch = Schedule(args)
    outer, inner = sch.split(sch.get_loop("C", 2), factor=4)
    sch.decompose_reduction("C", outer)
    sch.reorder(inner, outer)
    check_values(sch, reference)


def test_reorder_checks_parallel_loops_at_their_new_place(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    i, j, _ = sch.get_loops("C")
    fused = sch.fuse(i, j)
    outer, inner = sch.split(fused, factor=2)
    sch.parallel(outer)
    sch.vectorize(inner)
    with pytest.raises(ScheduleError, match="would be parallel inside"):
        sch.reorder(inner, outer)


def test_tile_splits_and_reorders(programs: Any, golden: Any, check_values: Any) -> None:
    args, reference = programs.matmul()
    sch = Schedule(args)
    names = [loop.name for loop in sch.tile(sch.get_loops("C")[:2], [2, 4])]
    assert names == ["i_0", "j_0", "i_1", "j_1"]
    assert [step.primitive for step in sch.trace] == ["split", "split", "reorder"]
    golden(sch)
    check_values(sch, reference)


def test_tile_wants_a_factor_for_each_loop(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    with pytest.raises(ScheduleError, match=r"2 loop\(s\) but 1 factor"):
        sch.tile(sch.get_loops("C")[:2], [2])


def test_untouched_nests_are_shared(programs: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    before = sch.tree.top_of(sch.tree.blocks["C"])
    sch.split(sch.get_loop("E", 0), factor=2)
    assert sch.tree.top_of(sch.tree.blocks["C"]) is before


def test_a_replaced_loop_is_reported_with_the_loops_that_are_there(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    i = sch.get_loop("C", 0)
    sch.split(i, factor=2)
    with pytest.raises(ScheduleError, match="loop i is not in the program") as caught:
        sch.unroll(i)
    assert "for i_0 in range(3):" in str(caught.value)
    with pytest.raises(ScheduleError, match="is not a loop"):
        sch.unroll(i.var)  # type: ignore[arg-type]


def test_a_lowered_program_is_refused(programs: Any) -> None:
    func = Schedule(programs.matmul()[0]).func
    body = func.body
    assert isinstance(body, For)
    inner = Schedule(func).tree.blocks["C"].block.body
    with pytest.raises(ScheduleError, match="a Store is outside any block"):
        Tree(func.with_body(inner))


def test_loops_are_told_apart_by_variable_not_name(programs: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    first, second = sch.get_loop("D", 0), sch.get_loop("E", 0)
    assert first.name == second.name
    assert first != second
    sch.unroll(second)
    assert "for i_2 in unrolled range(5)" in str(sch)
