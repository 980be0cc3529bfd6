"""vectorize, parallel, unroll, annotate, pragma."""

from __future__ import annotations

from typing import Any

import pytest

from pegbox.compute.ops import compute, placeholder, reduce_axis
from pegbox.compute.ops import max as max_over
from pegbox.errors import ScheduleError
from pegbox.schedule import Schedule


def test_parallel_vectorized_unrolled_and_annotated_loops(programs: Any, golden: Any, check_values: Any) -> None:
    args, reference = programs.matmul()
    sch = Schedule(args)
    i, j, k = sch.get_loops("C")
    sch.parallel(i)
    sch.vectorize(j)
    sch.unroll(k)
    sch.pragma(i, "auto_unroll_max_step", 64)
    sch.pragma(i, "unroll_explicit", True)
    sch.pragma(i, "auto_unroll_max_step", 16)
    sch.annotate(sch.get_block("C"), "note", "hot")
    golden(sch)
    check_values(sch, reference)


def test_the_last_kind_wins(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    j = sch.get_loop("C", 1)
    sch.vectorize(j)
    sch.unroll(j)
    assert "for j in unrolled range(7)" in str(sch)


def test_parallel_refuses_a_reduce_loop(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    with pytest.raises(ScheduleError, match="k cannot be parallel: its iterations add up into the same elements"):
        sch.parallel(sch.get_loop("C", 2))


def test_parallel_refuses_a_loop_fused_from_spatial_and_reduce(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    with pytest.raises(ScheduleError, match="cannot be parallel"):
        sch.parallel(sch.fuse(*sch.get_loops("C")[1:]))


def test_parallel_takes_fused_and_split_spatial_loops(programs: Any, check_values: Any) -> None:
    args, reference = programs.matmul()
    sch = Schedule(args)
    outer, inner = sch.split(sch.fuse(*sch.get_loops("C")[:2]), factor=4)
    sch.parallel(outer)
    sch.vectorize(inner)
    check_values(sch, reference)


def test_parallel_allows_private_intermediates_that_overlap(programs: Any, check_values: Any) -> None:
    args, reference = programs.conv()
    sch = Schedule(args)
    i = sch.get_loop("O", 0)
    sch.compute_at("P", i)
    sch.parallel(i)
    check_values(sch, reference)


def test_parallel_refuses_shared_intermediates_that_overlap() -> None:
    x = placeholder((8,), name="X")
    a = compute((9,), lambda i: x[i // 2], name="A")
    b = compute((8,), lambda i: a[i] + a[i + 1], name="B")
    sch = Schedule([x, b])
    i = sch.get_loop("B", 0)
    sch.compute_at("A", i)
    sch.parallel(i)  # each thread has an A of its own
    with pytest.raises(ScheduleError, match=r"i cannot be vectorized: several of its iterations may write .* of A"):
        sch.vectorize(i)


def test_vectorize_takes_a_reduce_loop_of_a_maximum() -> None:
    x = placeholder((4, 8), name="X")
    k = reduce_axis((0, 8), name="k")
    sch = Schedule([x, compute((4,), lambda i: max_over(x[i, k], axis=k), name="M")])
    sch.vectorize(sch.get_loop("M", 1))
    assert "for k in vectorized range(8)" in str(sch)


def test_vectorize_refuses_a_reduction_that_lanes_cannot_do(programs: Any) -> None:
    sch = Schedule(programs.argmax()[0])
    with pytest.raises(ScheduleError, match="block best is not a sum, prod, max or min with one output"):
        sch.vectorize(sch.get_loop("best", 1))


def test_vectorize_refuses_lanes_within_lanes_and_threads_within_lanes(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    i, j, _ = sch.get_loops("C")
    sch.vectorize(j)
    with pytest.raises(ScheduleError, match="j would be vectorized inside i, which is vectorized"):
        sch.vectorize(i)
    sch.parallel(i)
    with pytest.raises(ScheduleError, match="j would be parallel inside i, which is parallel"):
        sch.parallel(j)


def test_pragma_refuses_what_it_does_not_know(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    i = sch.get_loop("C", 0)
    with pytest.raises(ScheduleError, match=r"unknown pragma 'unroll'[\s\S]*remedy: use one of auto_unroll_max_step"):
        sch.pragma(i, "unroll", 1)
    with pytest.raises(ScheduleError, match="-1 is not an int"):
        sch.pragma(i, "auto_unroll_max_step", -1)


def test_annotate_refuses_the_combiner_and_odd_values(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    with pytest.raises(ScheduleError, match="'combiner' says what a reduction computes"):
        sch.annotate(sch.get_block("C"), "combiner", "max")
    with pytest.raises(ScheduleError, match="is not True or False, an integer, a number, a string or a list"):
        sch.annotate(sch.get_loop("C", 0), "note", {1})  # type: ignore[arg-type]


def _private_then_shared(programs: Any) -> Any:
    """B is computed twice by neighbouring iterations of C's parallel loop, each for itself."""
    args, reference = programs.chain()
    sch = Schedule(args)
    sch.compute_at("B", sch.get_loop("C", 0))
    sch.parallel(sch.get_loop("B", 0))
    return sch, reference


def test_what_a_parallel_loop_made_for_itself_must_not_become_shared(programs: Any, check_values: Any) -> None:
    sch, reference = _private_then_shared(programs)
    before = str(sch)
    words = "cannot be parallel: several of its iterations may write the same elements of B in block B"
    with pytest.raises(ScheduleError, match=words):
        sch.compute_at("C", sch.get_loop("D", 0))
    with pytest.raises(ScheduleError, match=words):
        sch.compute_inline("C")
    assert str(sch) == before
    check_values(sch, reference)


def test_what_a_parallel_loop_made_for_its_reduction_must_not_become_shared(programs: Any) -> None:
    sch = Schedule(programs.rows()[0])
    sch.compute_at("total", sch.get_loop("centred", 1))
    sch.parallel(sch.get_loop("total", 1))
    sch.cache_write("centred", 0, "local")
    with pytest.raises(ScheduleError, match="may write the same elements of total in block total"):
        sch.compute_inline("centred")
