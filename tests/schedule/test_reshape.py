"""add_unit_loop, loop_partition, reorder_block_iter_var; places and unit loops of compute_at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox import te
from pegbox.compute.ops import compute, placeholder
from pegbox.errors import ScheduleError
from pegbox.expr import build
from pegbox.schedule import Schedule, Trace


def _names(refs: Any) -> list[str]:
    return [r.name for r in refs]


def test_unit_loops_around_blocks_and_loops(programs: Any, check_values: Any, golden: Any) -> None:
    args, reference = programs.matmul()
    sch = Schedule(args)
    outer = sch.add_unit_loop(sch.get_loop("C", 0))
    inner = sch.add_unit_loop("C")
    assert _names(sch.get_loops("C")) == ["u", "i", "j", "k", "u"]
    assert [sch.extent(outer), sch.extent(inner)] == [1, 1]
    golden(sch)
    check_values(sch, reference)


def test_a_spatial_loop_in_parts(programs: Any, check_values: Any, golden: Any) -> None:
    args, reference = programs.matmul_relu()
    sch = Schedule(args)
    parts = sch.loop_partition(sch.get_loop("E", 1), [2, None, 1])
    assert [sch.extent(p) for p in parts] == [2, 4, 1]
    assert _names(sch.get_child_blocks(parts[1])) == ["E_j_1"]
    sch.vectorize(parts[1])
    golden(sch)
    check_values(sch, reference)


def test_only_the_first_part_of_a_reduction_starts(programs: Any, check_values: Any, golden: Any) -> None:
    args, reference = programs.matmul()
    sch = Schedule(args)
    i, j, k = sch.get_loops("C")
    sch.reorder(k, i, j)
    parts = sch.loop_partition(k, [4])
    assert [sch.extent(p) for p in parts] == [4, 2]
    golden(sch)
    check_values(sch, reference)
    kernel = pb.build(sch)
    a, b = np.ones((5, 6), "float32"), np.ones((6, 7), "float32")
    out = np.empty((5, 7), "float32")
    kernel(a, b, out)
    np.testing.assert_array_equal(out, a @ b)


def test_parts_of_a_loop_over_spatial_and_reduce_iterations(programs: Any, check_values: Any) -> None:
    args, reference = programs.matmul()
    sch = Schedule(args)
    fused = sch.fuse(*sch.get_loops("C"))
    for part in sch.loop_partition(fused, [3, None, 4]):
        sch.split(part, factor=2)
    check_values(sch, reference)


def test_parts_of_one_iteration_may_go_without_a_loop(programs: Any, check_values: Any) -> None:
    args, reference = programs.chain()
    sch = Schedule(args)
    parts = sch.loop_partition(sch.get_loop("A", 0), [1, None], preserve_unit_iters=False)
    assert [sch.extent(p) for p in parts] == [10]
    assert sch.get_loops("A_i_0") == ()
    check_values(sch, reference)


def test_parts_of_a_nest_with_several_blocks(programs: Any, check_values: Any) -> None:
    args, reference = programs.chain()
    sch = Schedule(args)
    sch.compute_at("B", sch.get_loop("C", 0))
    sch.loop_partition(sch.get_loop("C", 0), [3, 3])
    assert _names(sch.get_blocks()) == ["A", "B_i_0", "C_i_0", "B_i_1", "C_i_1", "B_i_2", "C_i_2", "D"]
    check_values(sch, reference)


PARTITIONS: list[tuple[Any, str]] = [
    (lambda s, i: s.loop_partition(i, [4, 2]), r"6 iterations and 0 further part\(s\) do not fit into the 5 iter"),
    (lambda s, i: s.loop_partition(i, [5, None]), r"5 iterations and 1 further part\(s\) do not fit"),
    (lambda s, i: s.loop_partition(i, [None, None]), r"0 iterations and 2 further part\(s\) do not fit"),
    (lambda s, i: s.loop_partition(i, []), "are not sizes"),
    (lambda s, i: s.loop_partition(i, [0, 2]), "are not sizes"),
    (lambda s, i: (s.parallel(i), s.loop_partition(i, [2])), "the loop is parallel"),
    (lambda s, i: (s.annotate(i, "note", 1), s.loop_partition(i, [2])), "the loop has annotations"),
    (lambda s, i: s.reorder_block_iter_var("C", [0, 1]), r"\[0, 1\] does not hold each variable once"),
    (lambda s, i: s.reorder_block_iter_var("C", [0, 1, 1]), "they are 0: vi, 1: vj, 2: vk"),
]


@pytest.mark.parametrize(("call", "why"), PARTITIONS)
def test_parts_and_orders_that_cannot_be_are_refused(call: Any, why: str, programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    with pytest.raises(ScheduleError, match=why):
        call(sch, sch.get_loop("C", 0))
    assert all(step.primitive not in ("loop_partition", "reorder_block_iter_var") for step in sch.trace)


def test_what_is_made_in_parts_stays_where_it_is(programs: Any) -> None:
    """A consumer needs all parts: it cannot follow one of them."""
    sch = Schedule(programs.matmul_relu()[0])
    first, second = sch.loop_partition(sch.get_loop("C", 0), [2, None])
    with pytest.raises(ScheduleError, match="C_i_0, which is not inside i, makes a part of C"):
        sch.reverse_compute_at("D", second)
    with pytest.raises(ScheduleError, match=r"makes a part of C|runs later"):
        sch.reverse_compute_at("D", first)
    with pytest.raises(ScheduleError, match="also written by C_i_1"):
        sch.compute_at("C_i_0", sch.get_loop("D", 0))


def test_variables_of_a_block_in_another_order(programs: Any, check_values: Any, golden: Any) -> None:
    args, reference = programs.matmul_relu()
    sch = Schedule(args)
    sch.reorder_block_iter_var("D", [1, 0])
    sch.compute_at("D", sch.get_loop("E", 0))
    golden(sch)
    check_values(sch, reference)


def test_compute_at_a_place_among_the_statements(programs: Any, check_values: Any) -> None:
    """A is read by the last statement only: it may come first, in the middle or last."""
    for index, order in ((-1, "BCAD"), (-2, "ABCD"), (0, "ABCD"), (1, "BACD"), (2, "BCAD")):
        args, reference = programs.chain()
        sch = Schedule(args)
        sch.cache_read("B", "A", "global", ["B"])
        loop = sch.get_loop("D", 0)
        sch.compute_at("C", loop)
        sch.compute_at("B", loop)
        copy = sch.cache_read("D", "A", "local", ["D"])
        sch.compute_at(copy, loop, index=index)
        assert "".join(n[0] if n != "A_local" else "A" for n in _names(sch.get_child_blocks(loop))) == order
        check_values(sch, reference)


def test_a_place_that_is_none_is_refused(programs: Any) -> None:
    sch = Schedule(programs.chain()[0])
    loop = sch.get_loop("D", 0)
    sch.compute_at("C", loop)
    with pytest.raises(
        ScheduleError, match=r"at position 1 of the 2 statement\(s\) of i, B would lack inputs"
    ) as caught:
        sch.compute_at("B", loop, index=1)
    assert caught.value.remedy == "give a position from 0 to 0, -1 for the last or -2 for the first of them"
    sch.compute_at("B", loop, index=0)
    assert _names(sch.get_child_blocks(loop)) == ["B", "C", "D"]


def test_the_first_place_is_right_behind_the_producers(programs: Any, check_values: Any) -> None:
    args, reference = programs.rows()
    sch = Schedule(args)
    i = sch.get_loop("total", 0)
    sch.reverse_compute_at("centred", i)
    sch.reverse_compute_at("out", i, index=-2)
    assert _names(sch.get_child_blocks(i)) == ["total", "centred", "out"]
    check_values(sch, reference)


def test_moved_blocks_may_go_without_loops_of_one_iteration(programs: Any, check_values: Any) -> None:
    args, reference = programs.matmul_relu()
    sch = Schedule(args)
    sch.compute_at("D", sch.get_loop("E", 0), preserve_unit_loops=False)
    assert _names(sch.get_loops("D")) == ["i", "j"]
    sch.compute_at("C", sch.get_loop("E", 0))
    assert [sch.extent(x) for x in sch.get_loops("C")] == [5, 1, 7, 6]
    check_values(sch, reference)


def test_a_buffer_that_each_parallel_iteration_has_is_not_shared_by_parts() -> None:
    a = te.placeholder((7, 2, 7), name="A")
    b = te.compute((7, 2, 7), lambda i, j, k: a[i, j, k] * 2, name="B")
    sch = Schedule([a, te.compute((7, 2, 7), lambda i, j, k: b[i, j, k] + b[i, k // 4, j * 6], name="C")])
    sch.compute_at("B", sch.get_loop("C", 2))
    i, j, _ = sch.get_loops("C")
    sch.parallel(j)
    with pytest.raises(
        ScheduleError, match="j cannot be parallel: several of its iterations may write the same elements of B"
    ):
        sch.loop_partition(i, [2, None, 3])


def _rows() -> Any:
    x = placeholder((4, 6), name="X")
    b = compute((4, 6), lambda i, j: x[i, j] + build.const(1.0, "float32"), name="B")
    c = compute((4, 6), lambda i, j: b[i, j] * build.const(2.0, "float32"), name="C")
    d = compute((4, 6), lambda i, j: c[i, 5 - j] - b[i, j], name="D")
    return [x, d], lambda xs: [(xs + 1)[:, ::-1] * 2 - (xs + 1)]


def test_nests_after_each_other_become_one(check_values: Any, golden: Any) -> None:
    args, reference = _rows()
    sch = Schedule(args)
    inner = sch.merge(sch.get_loop("B", 1), sch.get_loop("C", 1))
    assert inner == sch.get_loop("C", 1)
    sch.merge(sch.get_loop("B", 0), sch.get_loop("D", 0))
    golden(sch)
    check_values(sch, reference)
    assert Trace.from_json(sch.trace.to_json()).apply_to_schedule(Schedule(args)).mod == sch.mod


def test_a_merged_loop_has_the_annotations_of_all() -> None:
    sch = Schedule(_rows()[0])
    sch.pragma(sch.get_loop("C", 0), "auto_unroll_max_step", 4)
    sch.pragma(sch.get_loop("C", 1), "loop_partition_hint", True)
    inner = sch.merge(sch.get_loop("B", 1), sch.get_loop("C", 1))
    outer = sch.get_loop("B", 0)
    assert sch.get(outer).annotations == (("pragma_auto_unroll_max_step", 4),)
    assert sch.get(inner).annotations == (("pragma_loop_partition_hint", True),)


def test_what_stands_between_merged_nests_stays_there_where_it_can(check_values: Any) -> None:
    x, y = placeholder((5,), name="X"), placeholder((5,), name="Y")
    b = compute((5,), lambda i: x[i] + x[i], name="B")
    c = compute((5,), lambda i: y[i] * y[i], name="C")
    d = compute((5,), lambda i: b[i] + build.const(1.0, "float32"), name="D")
    sch = Schedule([x, y, c, d])
    sch.merge(sch.get_loop("B", 0), sch.get_loop("D", 0))
    assert len({sch.get_loop(name, 0) for name in ("B", "D")}) == 1
    check_values(sch, lambda xs, ys: [ys * ys, xs + xs + 1])


_MERGES: dict[str, tuple[Any, str]] = {
    "one": (lambda s: s.merge(s.get_loop("B", 0)), r"1 loop\(s\) given"),
    "reversed": (
        lambda s: s.merge(s.get_loop("C", 1), s.get_loop("D", 1)),
        "D needs elements of C that other iterations of C make",
    ),
    "around": (lambda s: s.merge(s.get_loop("B", 0), s.get_loop("B", 1)), "i is around the others"),
    "depths": (lambda s: s.merge(s.get_loop("B", 0), s.get_loop("C", 1)), "the nests differ"),
    "kinds": (lambda s: (s.parallel(s.get_loop("B", 0)), s.merge(s.get_loop("B", 0), s.get_loop("C", 0))), "parallel"),
    "between": (lambda s: s.merge(s.get_loop("B", 0), s.get_loop("D", 0)), "C is between the nests"),
    "annotations": (
        lambda s: (
            s.pragma(s.get_loop("B", 0), "auto_unroll_max_step", 4),
            s.pragma(s.get_loop("C", 0), "auto_unroll_max_step", 8),
            s.merge(s.get_loop("B", 0), s.get_loop("C", 0)),
        ),
        "auto_unroll_max_step is 4 for one loop and 8 for another",
    ),
}


@pytest.mark.parametrize("name", _MERGES)
def test_nests_that_need_each_other_are_not_merged(name: str) -> None:
    call, why = _MERGES[name]
    sch = Schedule(_rows()[0])
    with pytest.raises(ScheduleError, match=why) as caught:
        call(sch)
    assert caught.value.primitive == "merge"


def test_parts_of_a_copy_are_not_shared_by_parallel_iterations() -> None:
    x = placeholder((14, 4), name="X")
    s = compute((3, 4), lambda i, j: x[i * 3, j] + x[i * 3 + 4, j], name="S")
    d = compute((3, 4), lambda i, j: s[2 - i, j] + s[i, j], name="D")
    sch = Schedule([x, d])
    i = sch.get_loop("S", 0)
    sch.parallel(i)
    sch.read_at(i, "S", "X", "shared")
    sch.loop_partition(sch.get_loop("X_shared", 1), [2, None])
    with pytest.raises(ScheduleError, match="may write the same elements of X_shared in different iterations"):
        sch.compute_at("S", sch.get_loop("D", 0))


def test_parts_of_a_loop_may_be_written_in_parallel(check_values: Any) -> None:
    x = placeholder((4, 12), name="X")
    b = compute((4, 12), lambda i, j: x[i, j] + x[i, j], name="B")
    sch = Schedule([x, b])
    i, j = sch.get_loops("B")
    sch.loop_partition(j, [5, None])
    sch.parallel(i)
    check_values(sch, lambda xs: [xs + xs])
