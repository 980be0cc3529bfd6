"""merge: a stage's loop runs together with one of another stage; values stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from te_values import check_values, grid

import pegbox as pb
from pegbox import te
from pegbox.errors import LoweringError, ScheduleError


def rows(n: int = 6, m: int = 40, *, part: int | None = None, backwards: bool = False) -> list[Any]:
    """A -> B = A * 2; S sums rows of B, or the first `part` columns; C = B + S."""
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, part or m), name="k")
    b = te.compute((n, m), lambda i, j: a[i, j] * 2, name="B")
    s = te.compute((n,), lambda i: te.sum(b[i, m - 1 - k if backwards else k], axis=k), name="S")
    return [a, b, s, te.compute((n, m), lambda i, j: b[i, j] + s[i], name="C")]


def attached(tensors: list[Any], count: int = 1) -> tuple[te.TESchedule, Any]:
    """B and S are computed for `count` rows of C; gives the schedule and the place."""
    _, b, total, c = tensors
    s = te.create_schedule(c.op)
    place, _ = s[c].split(c.op.axis[0], factor=count)
    for stage in (b, total):
        s[stage].compute_at(s[c], place)
    return s, place


def merged(tensors: list[Any], *, count: int = 1, factors: tuple[int, int] = (16, 16)) -> te.TESchedule:
    """The loops over blocks of B and S are one; blocks are vectors."""
    _, b, total, _ = tensors
    s, _ = attached(tensors, count)
    blocks = []
    for tensor, axis, factor in ((b, b.op.axis[1], factors[0]), (total, total.op.reduce_axis[0], factors[1])):
        outer, inner = s[tensor].split(axis, factor=factor)
        s[tensor].vectorize(inner)
        blocks.append(outer)
    s[total].merge(blocks[1], s[b], blocks[0])
    return s


def test_te_merge_of_a_sum_with_its_producer(golden: Any) -> None:
    tensors = rows()
    s = merged(tensors, count=2)
    check_values(s, [tensors[0], tensors[3]])
    golden(pb.lower(s, [tensors[0], tensors[3]], simple_mode=True))


@pytest.mark.parametrize(("m", "factor", "count"), [(40, 8, 1), (37, 16, 3), (64, 16, 6), (5, 16, 2)])
def test_te_merge_keeps_values_of_any_sizes(m: int, factor: int, count: int) -> None:
    tensors = rows(m=m)
    check_values(merged(tensors, count=count, factors=(factor, factor)), [tensors[0], tensors[3]])


def test_te_merge_of_stages_at_the_root() -> None:
    a, b, total, c = rows()
    s = te.create_schedule(c.op)
    s[total].merge(total.op.reduce_axis[0], s[b], b.op.axis[1])
    s[c].compute_root()
    check_values(s, [a, c])
    assert pb.lower(s, [a, c]).loops("B")[:1] == pb.lower(s, [a, c]).loops("S")[:1]


def test_te_merge_gives_the_new_loop_to_later_steps() -> None:
    tensors = a, b, total, c = rows(64, 64)
    s, place = attached(tensors)
    s[total].merge(total.op.reduce_axis[0], s[b], b.op.axis[1])
    s[c].prefetch(a, place, 1, among=b.op.axis[1])
    text = str(pb.lower(s, [a, c], simple_mode=True))
    assert "prefetch(address(A[min(i.outer + 1, 63), min(j_m, 3) * 16]" in text
    check_values(s, [a, c])


def test_te_merge_is_copied_with_a_schedule() -> None:
    tensors = rows()
    s = merged(tensors)
    same = pb.lower(s.copy(), [tensors[0], tensors[3]], simple_mode=True)
    assert str(same) == str(pb.lower(s, [tensors[0], tensors[3]], simple_mode=True))


def test_te_three_nests_are_merged_and_the_first_computes_ahead() -> None:
    """The producer keeps two iterations: it computes one while the other is used."""
    a, b = grid(6, 12)
    k, r = te.reduce_axis((0, 12), "k"), te.reduce_axis((0, 12), "r")
    total = te.compute((6,), lambda i: te.sum(b[i, k], axis=k), "S")
    squares = te.compute((6,), lambda i: te.sum(b[i, r] * b[i, r], axis=r), "Q")
    out = te.compute((6,), lambda i: total[i] - squares[i], "R")
    s = te.create_schedule(out.op)
    for tensor in (b, total, squares):
        s[tensor].compute_at(s[out], out.op.axis[0])
    outer, _ = s[b].split(b.op.axis[1], factor=4)
    s[total].merge(s[total].split(k, factor=4)[0], s[b], outer)
    s[squares].merge(s[squares].split(r, factor=4)[0], s[b], outer)
    s[b].double_buffer()
    check_values(s, [a, out])
    assert pb.lower(s, [a, out]).allocations["B"] == ((2, 1, 4), "float32", "global")


def test_te_one_loop_is_merged_with_those_of_several_stages() -> None:
    a = te.placeholder((4, 10), name="A")
    b, d = (te.compute((4, 10), lambda i, j, n=n: a[i, j] * n, name) for n, name in ((2, "B"), (3, "D")))
    c = te.compute((4, 10), lambda i, j: b[i, j] + d[i, j], "C")
    s = te.create_schedule(c.op)
    for each in (b, d):
        s[c].merge(c.op.axis[0], s[each], each.op.axis[0])
    for copied in (s, s.copy()):
        check_values(copied, [a, c])
        program = pb.lower(copied, [a, c])
        assert program.loops("B")[0] == program.loops("D")[0] == program.loops("C")[0]
    with pytest.raises(ScheduleError, match="i runs together with another stage's loop"):
        s[c].split(c.op.axis[0], factor=2)


def test_te_merge_in_a_parallel_loop_around() -> None:
    tensors = a, _, _, c = rows()
    s = merged(tensors, count=2)
    s[c].parallel(s[c].leaf_iter_vars[0])
    check_values(s, [a, c])


def lower(s: te.TESchedule, tensors: list[Any]) -> None:
    pb.lower(s, [tensors[0], tensors[-1]])


def test_te_merge_refuses_loops_with_other_iterations() -> None:
    tensors = rows()
    with pytest.raises(ScheduleError, match="the nests differ"):
        lower(merged(tensors, factors=(16, 8)), tensors)


def test_te_merge_refuses_what_later_iterations_make() -> None:
    tensors = rows(backwards=True)
    with pytest.raises(ScheduleError, match="needs elements of B that other iterations of B make"):
        lower(merged(tensors), tensors)


def test_te_merge_refuses_loops_that_are_not_serial() -> None:
    tensors = rows()
    s, _ = attached(tensors)
    b, total = tensors[1:3]
    s[b].vectorize(b.op.axis[1])
    s[total].merge(total.op.reduce_axis[0], s[b], b.op.axis[1])
    with pytest.raises(ScheduleError, match=r"the loop is vectorized(?s:.*)merge serial loops; one around or inside"):
        lower(s, tensors)


def test_te_merge_refuses_a_stage_of_another_schedule() -> None:
    tensors = rows()
    b, total, c = tensors[1:]
    s, other = te.create_schedule(c.op), te.create_schedule(c.op)
    s[total].merge(total.op.reduce_axis[0], other[b], b.op.axis[1])
    with pytest.raises(ScheduleError, match=r"B is a stage of another schedule; give one of this, as s\[B\]"):
        lower(s, tensors)


def test_te_merge_refuses_a_reader_in_the_loop_that_makes_a_sum() -> None:
    tensors = rows()
    total, c = tensors[2:]
    s, _ = attached(tensors)
    s[c].merge(c.op.axis[1], s[total], total.op.reduce_axis[0])
    with pytest.raises(ScheduleError, match="C needs elements of S that other iterations of S make"):
        lower(s, tensors)


def test_te_a_merged_producer_with_a_reader_behind_the_loop_is_not_made_ahead() -> None:
    tensors = rows()
    s = merged(tensors)
    s[tensors[1]].double_buffer()
    with pytest.raises(LoweringError, match=r"writes S as well, and C reads it after that.*all its readers or none"):
        lower(s, tensors)


@pytest.mark.parametrize("is_inlined", [False, True])
def test_te_merge_refuses_loops_that_became_others(is_inlined: bool) -> None:
    tensors = rows()
    b, total = tensors[1:3]
    s, _ = attached(tensors)
    s[total].merge(total.op.reduce_axis[0], s[b], b.op.axis[1])
    with pytest.raises(ScheduleError, match=r"runs together with another stage's loop.*merge the resulting loop"):
        s[total].split(total.op.reduce_axis[0], factor=4)
    if is_inlined:
        s[b].compute_inline()
    else:
        s[b].split(b.op.axis[1], factor=4)
    with pytest.raises(ScheduleError, match="j is not a loop of B any more; merge one of its present loops"):
        lower(s, tensors)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s, b, t: s[t].merge(b.op.axis[1], s[b], b.op.axis[1]), "j is not a loop of this stage"),
        (lambda s, b, t: s[t].merge(t.op.reduce_axis[0], s[b], t.op.axis[0]), "i is not a loop of this stage"),
        (lambda s, b, t: s[t].merge(t.op.reduce_axis[0], b, b.op.axis[1]), "is not a stage"),
        (lambda s, b, t: s[t].merge(t.op.reduce_axis[0], s[t], t.op.axis[0]), "both are loops of S"),
    ],
)
def test_te_merge_refuses_wrong_arguments(call: Callable[..., None], message: str) -> None:
    tensors = rows()
    with pytest.raises(ScheduleError, match=message):
        call(te.create_schedule(tensors[3].op), *tensors[1:3])
