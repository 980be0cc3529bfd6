"""decompose_reduction."""

from __future__ import annotations

from typing import Any

import pytest

from pegbox.compute.ops import compute, placeholder, reduce_axis
from pegbox.compute.ops import sum as sum_over
from pegbox.errors import ScheduleError
from pegbox.schedule import BlockRef, Schedule


def test_the_init_runs_before_the_loop_over_copies_of_the_spatial_loops(
    programs: Any, golden: Any, check_values: Any
) -> None:
    args, reference = programs.matmul()
    sch = Schedule(args)
    i, j, k = sch.get_loops("C")
    j_0, j_1 = sch.split(j, factor=4)
    k_0, k_1 = sch.split(k, factor=4)
    sch.reorder(i, j_0, k_0, k_1, j_1)
    sch.vectorize(j_1)
    assert sch.decompose_reduction("C", k_0) == BlockRef("C_init")
    golden(sch)
    check_values(sch, reference)


def test_all_elements_may_start_before_the_whole_nest(programs: Any, check_values: Any) -> None:
    args, reference = programs.matmul()
    sch = Schedule(args)
    sch.decompose_reduction("C", sch.get_loop("C", 0))
    assert len(sch.get_loops("C_init")) == 2
    check_values(sch, reference)


def test_several_outputs_start_together(programs: Any, check_values: Any) -> None:
    args, reference = programs.argmax()
    sch = Schedule(args)
    sch.decompose_reduction("best", sch.get_loop("best", 1))
    check_values(sch, reference)


def test_refuses_a_loop_inside_of_a_reduce_loop(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    i, j, k = sch.get_loops("C")
    sch.reorder(i, k, j)
    with pytest.raises(ScheduleError, match=r"the reduce loop\(s\) k are outside j") as caught:
        sch.decompose_reduction("C", j)
    assert "remedy: give k or a loop further out" in str(caught.value)


def test_refuses_blocks_without_init_and_foreign_loops(programs: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    with pytest.raises(ScheduleError, match="D has no init"):
        sch.decompose_reduction("D", sch.get_loop("D", 0))
    with pytest.raises(ScheduleError, match="C is not inside i"):
        sch.decompose_reduction("C", sch.get_loop("D", 0))


def test_refuses_to_start_before_a_loop_that_recomputes(programs: Any) -> None:
    """Rows of C overlap between the windows of D: starting all of them first would add them up twice."""
    x = placeholder((8, 4), name="X")
    k = reduce_axis((0, 4), name="k")
    c = compute((8,), lambda i: sum_over(x[i, k], axis=k), name="C")
    d = compute((7,), lambda i: c[i] + c[i + 1], name="D")
    sch = Schedule([x, d])
    i = sch.get_loop("D", 0)
    sch.compute_at("C", i)
    with pytest.raises(ScheduleError, match="or visits elements again"):
        sch.decompose_reduction("C", i)
    sch.decompose_reduction("C", sch.get_loop("C", 1))


def test_refuses_a_loop_fused_from_spatial_and_reduce(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    _, j, k = sch.get_loops("C")
    fused = sch.fuse(j, k)
    with pytest.raises(ScheduleError, match="j_k_fused binds spatial and reduce variables at once"):
        sch.decompose_reduction("C", fused)


def test_a_tail_over_spatial_and_reduce_loops_guards_the_init_as_well(programs: Any, check_values: Any) -> None:
    args, reference = programs.matmul(5, 7, 6)
    sch = Schedule(args)
    sch.split(sch.fuse(*sch.get_loops("C")[1:], name="f"), [4, 2, 6])
    sch.decompose_reduction("C", sch.get_loop("C", 0))
    assert str(sch.tree.blocks["C_init"].predicate) == "f_0 * 12 + f_1 * 6 < 42"
    check_values(sch, reference)
