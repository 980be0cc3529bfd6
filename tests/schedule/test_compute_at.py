"""compute_at: the producer computes the region that its consumers need, no more and no less."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pegbox.compute.ops import compute, placeholder
from pegbox.errors import ScheduleError
from pegbox.expr import build
from pegbox.schedule import Schedule


def _two(n: int, read: Any, m: int) -> Schedule:
    """B of n elements, of which C (m elements) reads `read(B, i)`."""
    x = placeholder((n,), name="X")
    b = compute((n,), lambda i: x[i] + build.const(1.0, "float32"), name="B")
    return Schedule([x, compute((m,), lambda i: read(b, i), name="C")])


def _value_of(sch: Schedule, block: str = "B") -> tuple[int, str, str]:
    """Extent of the producer's innermost loop, what it binds, its predicate."""
    realize = sch.tree.blocks[block]
    return sch.extent(sch.get_loops(block)[-1]), str(realize.values[-1]), str(realize.predicate)


def test_a_matmul_computes_the_tile_that_its_epilogue_needs(programs: Any, golden: Any, check_values: Any) -> None:
    args, reference = programs.matmul_relu()
    sch = Schedule(args)
    i, j = sch.get_loops("E")
    _, j_0, i_1, _ = sch.tile([i, j], [2, 4])
    sch.compute_at("D", i_1)
    sch.compute_at("C", j_0)
    assert [sch.extent(loop) for loop in sch.get_loops("C")] == [3, 2, 2, 4, 6]
    golden(sch)
    check_values(sch, reference)


def test_packed_panels_are_made_one_at_a_time(programs: Any, golden: Any, check_values: Any) -> None:
    args, reference = programs.packed_matmul()
    sch = Schedule(args)
    j_0, j_1 = sch.split(sch.get_loop("C", 1), factor=4)
    sch.reorder(j_0, sch.get_loop("C", 0), j_1)
    sch.compute_at("packed", j_0)
    assert [sch.extent(loop) for loop in sch.get_loops("packed")] == [2, 1, 6, 4]
    golden(sch)
    check_values(sch, reference)


def test_a_convolution_computes_the_rows_under_its_window(programs: Any, golden: Any, check_values: Any) -> None:
    args, reference = programs.conv()
    sch = Schedule(args)
    i_0, _ = sch.split(sch.get_loop("O", 0), factor=3)
    sch.compute_at("P", i_0)
    assert [sch.extent(loop) for loop in sch.get_loops("P")[1:]] == [7, 7]
    golden(sch)
    check_values(sch, reference)


def test_offsets_move_into_the_binding() -> None:
    sch = _two(12, lambda b, i: b[i + 2], 8)
    outer, _ = sch.split(sch.get_loop("C", 0), factor=4)
    sch.compute_at("B", outer)
    assert _value_of(sch) == (4, "i_0 * 4 + i + 2", "True")


def test_reversed_reads_start_at_the_far_end() -> None:
    sch = _two(12, lambda b, i: b[11 - i], 12)
    outer, _ = sch.split(sch.get_loop("C", 0), factor=4)
    sch.compute_at("B", outer)
    assert _value_of(sch) == (4, "i_0 * -4 + i + 8", "True")


def test_several_reads_share_one_hull_with_a_guard_at_the_end() -> None:
    sch = _two(9, lambda b, i: b[i] + build.select(i < 7, b[i + 2], build.const(0.0, "float32")), 9)
    outer, _ = sch.split(sch.get_loop("C", 0), factor=3)
    sch.compute_at("B", outer)
    assert _value_of(sch) == (5, "i_0 * 3 + i", "i_0 * 3 + i < 9")


def test_reads_before_the_start_are_guarded() -> None:
    sch = _two(8, lambda b, i: build.select(i > 0, b[i - 1], build.const(0.0, "float32")), 8)
    outer, _ = sch.split(sch.get_loop("C", 0), factor=4)
    sch.compute_at("B", outer)
    assert _value_of(sch) == (4, "i_0 * 4 + i - 1", "i_0 * 4 + i >= 1")


def test_reads_whose_distance_varies_need_the_whole_dimension() -> None:
    sch = _two(16, lambda b, i: b[i] + b[i * 2], 8)
    outer, _ = sch.split(sch.get_loop("C", 0), factor=2)
    sch.compute_at("B", outer)
    assert _value_of(sch) == (16, "i", "True")


def test_gathers_need_the_whole_dimension() -> None:
    where = placeholder((8,), "int64", name="where")
    x = placeholder((8,), name="X")
    b = compute((8,), lambda i: x[i] + build.const(1.0, "float32"), name="B")
    c = compute((8,), lambda i: b[where[i]], name="C")
    sch = Schedule([where, x, c])
    sch.compute_at("B", sch.get_loop("C", 0))
    assert _value_of(sch) == (8, "i", "True")


def test_floordiv_across_a_tile_border_covers_both_sides() -> None:
    sch = _two(4, lambda b, i: b[i // 3], 12)
    outer, _ = sch.split(sch.get_loop("C", 0), factor=4)
    sch.compute_at("B", outer)
    assert _value_of(sch) == (2, "i_0 * 4 // 3 + i", "True")


def test_floormod_within_one_period_stays_a_tile() -> None:
    sch = _two(8, lambda b, i: b[i % 8], 32)
    outer, _ = sch.split(sch.get_loop("C", 0), factor=4)
    sch.compute_at("B", outer)
    assert _value_of(sch) == (4, "i_0 % 2 * 4 + i", "True")


def test_predicates_of_uneven_inner_splits_keep_the_region_tight() -> None:
    sch = _two(16, lambda b, i: b[i], 16)
    outer, inner = sch.split(sch.get_loop("C", 0), factor=8)
    sch.split(inner, factor=3)
    sch.compute_at("B", outer)
    assert _value_of(sch) == (8, "i_0 * 8 + i", "True")


def test_one_iteration_dimensions_keep_their_loop(programs: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    sch.compute_at("C", sch.get_loop("D", 1))
    assert [(loop.name, sch.extent(loop)) for loop in sch.get_loops("C")[2:]] == [("i", 1), ("j", 1), ("k", 6)]


@pytest.mark.parametrize("number", [np.int64, np.array])
def test_numpys_integers_are_positions(number: Any) -> None:
    sch = _two(16, lambda b, i: b[i], 16)
    with pytest.raises(ScheduleError, match="give a position from 0 to 0, -1 for the last"):
        sch.compute_at("B", sch.get_loops("C")[0], index=number(5))
    sch.compute_at("B", sch.get_loops("C")[0], index=number(0))
    assert "index=0" in str(sch.trace)


def test_a_block_may_move_again(programs: Any, check_values: Any) -> None:
    args, reference = programs.matmul_relu()
    sch = Schedule(args)
    i, j = sch.get_loops("E")
    sch.compute_at("D", i)
    sch.compute_at("D", j)
    check_values(sch, reference)
    sch.compute_at("D", i)
    check_values(sch, reference)


def test_a_parameter_may_be_made_where_it_is_read_if_all_of_it_is(check_values: Any) -> None:
    x = placeholder((11,), name="X")
    b = compute((11,), lambda i: x[i] + 1, name="B")
    sch = Schedule([x, b, compute((10,), lambda i: b[i] * b[i + 1], name="C")])
    sch.compute_at("B", sch.split(sch.get_loop("C", 0), factor=4)[0])
    check_values(sch, lambda xs: [xs + 1, (xs[:-1] + 1) * (xs[1:] + 1)])
    assert "        for i in range(5):\n            block B:" in str(sch)


def test_a_parameter_that_neighbours_make_again_is_not_made_in_parallel() -> None:
    x = placeholder((11,), name="X")
    b = compute((11,), lambda i: x[i] + 1, name="B")
    sch = Schedule([x, b, compute((10,), lambda i: b[i] * b[i + 1], name="C")])
    loop = sch.get_loop("C", 0)
    sch.parallel(loop)
    with pytest.raises(ScheduleError, match="several of its iterations may write the same elements of B"):
        sch.compute_at("B", loop)


def test_refuses_parameters_of_which_a_part_is_read(programs: Any) -> None:
    sch = Schedule(programs.rows()[0])
    with pytest.raises(ScheduleError, match="centred writes the parameter centred, all of which is needed"):
        sch.compute_at("centred", sch.get_loop("out", 0))


def test_refuses_a_loop_that_is_not_around_all_consumers(programs: Any) -> None:
    sch = Schedule(programs.chain()[0])
    with pytest.raises(ScheduleError, match="D needs A too, but is not inside i") as caught:
        sch.compute_at("A", sch.get_loop("B", 0))
    assert "  >     block D: vi=i" in str(caught.value)


def test_refuses_a_block_that_nothing_reads(programs: Any) -> None:
    x = placeholder((4,), name="X")
    a, b = compute((4,), lambda i: (x[i], x[i]), name="A")
    sch = Schedule([x, a, b])
    with pytest.raises(ScheduleError, match="no block reads what A writes"):
        sch.compute_at("A", sch.get_loop("A", 0))


def test_refuses_a_decomposed_reduction(programs: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    sch.decompose_reduction("C", sch.get_loop("C", 2))
    with pytest.raises(ScheduleError, match="C is also written by C_init"):
        sch.compute_at("C", sch.get_loop("D", 0))


def test_refuses_vectorized_loops(programs: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    j = sch.get_loop("D", 1)
    sch.vectorize(j)
    with pytest.raises(ScheduleError, match="j is vectorized: its iterations are lanes"):
        sch.compute_at("C", j)


def test_refuses_a_place_where_its_own_inputs_are_not_ready(programs: Any) -> None:
    x = placeholder((8,), name="X")
    a = compute((8,), lambda i: x[i] + x[i], name="A")
    b = compute((8,), lambda i: a[7 - i], name="B")
    c = compute((8,), lambda i: a[i] * b[i], name="C")
    sch = Schedule([x, c])
    i = sch.get_loop("C", 0)
    with pytest.raises(ScheduleError, match="B needs A too"):
        sch.compute_at("A", i)
    sch.compute_at("B", i)
    sch.compute_at("A", i)
    assert [blk.name for blk in sch.get_child_blocks(i)] == ["A", "B", "C"]


def test_iterations_that_no_consumer_has_are_skipped(programs: Any, golden: Any, check_values: Any) -> None:
    """The tail of the outer loop is not an iteration of C: its producers need not (and sometimes cannot) run there."""
    args, reference = programs.conv()
    sch = Schedule(args)
    sch.split(sch.get_loop("O", 0), factor=3)
    sch.compute_at("P", sch.get_loop("O", 1))
    copy = sch.cache_read("O", "W")
    sch.compute_at(copy, sch.get_loop("O", 2))
    golden(sch)
    check_values(sch, reference)


def test_moving_again_is_refused_when_a_producer_has_made_too_little(programs: Any) -> None:
    x = placeholder((16,), name="X")
    a = compute((16,), lambda i: x[i] + x[i], name="A")
    b = compute((16,), lambda i: a[i] * a[i], name="B")
    c = compute((3, 4), lambda r, i: b[i] + b[i * 2], name="C")
    sch = Schedule([x, c])
    r, i = sch.get_loops("C")
    sch.compute_at("B", r)  # needs 0 to 6
    sch.compute_at("A", r)
    assert sch.extent(sch.get_loops("A")[-1]) == 7
    with pytest.raises(ScheduleError, match="B reads A, but A, which makes it, may have made only a part of it"):
        sch.compute_at("B", i)  # would need all 16, since b[i] and b[i * 2] drift apart


def test_the_tightest_of_two_predicates_says_what_of_a_parameter_is_made() -> None:
    """The loops reach all eight columns of B, the consumer's predicate leaves two of them out."""
    x = placeholder((3, 8), name="X")
    b = compute((3, 8), lambda i, j: x[i, j] + 1.0, name="B")
    c = compute((3, 6), lambda i, j: b[i, j] * 2.0, name="C")
    sch = Schedule([x, b, c])
    sch.split(sch.get_loop("C", 1), [4, 4])
    with pytest.raises(ScheduleError, match="B writes the parameter B, all of which is needed"):
        sch.compute_at("B", sch.get_loop("C", 2))


def test_what_an_output_with_composite_indices_needs_is_all_of_it(check_values: Any) -> None:
    """The other output's reader asks for a part only; that says nothing of what the first one's asks for."""
    a = placeholder((2, 8), name="A")
    b0, b1 = compute((2, 8), lambda i, j: (a[i, j] + 1.0, a[i, j] * 2.0), name="B")
    c = compute((4, 8), lambda i, j: build.select(i < 2, b0[i, j], b1[i - 2, j]), name="C")
    sch = Schedule([a, c])
    sch.transform_layout("B", ("write", "B_0"), lambda i, j: ((j * 14 + i) % 5, (j * 14 + i) // 5))
    sch.compute_at("B", sch.get_loops("C")[1])
    check_values(sch, lambda x: [np.concatenate([x + 1, x * 2])])
