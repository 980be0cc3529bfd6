"""Programs that are only shown: what is not legal in them is marked, and never built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import pegbox as pb
from pegbox import te
from pegbox.compute.tensor import Tensor
from pegbox.errors import ScheduleError
from pegbox.loops.module import IRModule

Made = tuple[te.TESchedule, list[Tensor]]


def rows() -> tuple[te.TESchedule, Tensor, Tensor]:
    A = te.placeholder((8, 16), name="A")
    k = te.reduce_axis((0, 16), name="k")
    B = te.compute((8,), lambda i: te.sum(A[i, k], axis=k), name="B")
    return te.create_schedule(B.op), A, B


def parallel_sum() -> Made:
    s, A, B = rows()
    ko, _ = s[B].split(B.op.reduce_axis[0], factor=4)
    s[B].parallel(ko)
    return s, [A, B]


def sum_over_blocks() -> Made:
    s, A, B = rows()
    s[B].bind(B.op.reduce_axis[0], te.thread_axis("blockIdx.x"))
    return s, [A, B]


def wrong_number_of_threads() -> Made:
    s, A, B = rows()
    s[B].bind(B.op.axis[0], te.thread_axis((0, 32), "threadIdx.x"))
    return s, [A, B]


def predicate_of_no_thread() -> Made:
    s, A, B = rows()
    s[B].set_store_predicate(te.thread_axis("threadIdx.x").var.equal(0))
    return s, [A, B]


def stages_inside_of_a_race() -> Made:
    A = te.placeholder((8, 16), name="A")
    B = te.compute((8, 16), lambda i, j: A[i, j] + 1, name="B")
    k = te.reduce_axis((0, 16), name="k")
    C = te.compute((8,), lambda i: te.sum(B[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[C].parallel(k)
    s[B].compute_at(s[C], k)
    return s, [A, C]


def rows_for_the_next_thread() -> Made:
    A = te.placeholder((10, 4), name="A")
    B = te.compute((10, 4), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((8, 4), lambda i, j: B[i, j] + B[i + 2, j], name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], factor=4)
    s[B].compute_at(s[C], outer)
    s[B].rolling_buffer()
    s[C].parallel(outer)
    return s, [A, C]


DRAFTS: list[tuple[Callable[[], Made], str]] = [
    (parallel_sum, "k.outer cannot be parallel: its iterations add up into the same elements"),
    (sum_over_blocks, "k cannot be bound to blockIdx.x"),
    (wrong_number_of_threads, "threadIdx.x has 32 threads, but i 8 iterations"),
    (predicate_of_no_thread, "no loop around the block is bound to threadIdx.x"),
    (stages_inside_of_a_race, "k cannot be parallel"),
    (rows_for_the_next_thread, "i.outer is parallel"),
]


@pytest.mark.parametrize(("make", "message"), DRAFTS, ids=lambda value: getattr(value, "__name__", None))
def test_te_what_is_not_legal_is_shown_with_a_mark_and_a_warning(make: Any, message: str, golden: Any) -> None:
    s, args = make()
    with pytest.warns(UserWarning, match="is shown, but not legal, and is not built: .*") as caught:
        program = pb.lower(s, args, simple_mode=True)
    assert message in str(caught[0].message)
    assert caught[0].filename == __file__
    assert f"# illegal = {message}" in str(program)
    golden(program)


@pytest.mark.parametrize(("make", "message"), DRAFTS, ids=lambda value: getattr(value, "__name__", None))
def test_te_what_is_not_legal_is_lowered_and_built_by_no_way(make: Any, message: str) -> None:
    s, args = make()
    for refused in (pb.lower, pb.build):
        with pytest.raises(ScheduleError, match=message.replace(".", r"\.")):
            refused(s, args)
    with pytest.warns(UserWarning, match="not legal"):
        program = pb.lower(s, args, simple_mode=True)
    for again in (program, IRModule(program)):
        for refused in (pb.lower, pb.build):
            with pytest.raises(ScheduleError, match=r"main was lowered to be shown, with a loop .* that is not legal"):
                refused(again)
    assert str(pb.lower(program, simple_mode=True)) == str(program)


def test_te_arguments_that_are_not_computed_are_shown_with_a_warning() -> None:
    s, A, B = rows()
    C = te.compute((8,), lambda i: B[i] * 2, name="C")
    with pytest.warns(UserWarning, match="not built: the argument C is computed, but not by this schedule"):
        program = pb.lower(s, [A, B, C], simple_mode=True)
    assert [buffer.name for buffer in program.params] == ["A", "B", "C"]
    with pytest.raises(ScheduleError, match="C is computed, but not by this schedule"):
        pb.build(s, [A, B, C])


def test_te_drafts_have_sizes_too() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    k = te.reduce_axis((0, n), name="k")
    B = te.compute((), lambda: te.sum(A[k], axis=k), name="B")
    C = te.compute((n,), lambda i: B() * n, name="C")
    s = te.create_schedule(B.op)
    s[B].parallel(k)
    with pytest.warns(UserWarning, match="the program is shown") as caught:
        program = pb.lower(s, [A, B, C], simple_mode=True)
    assert [str(each.message).partition(":")[0] for each in caught] == [
        "sizes are variables; the program is shown for n = 1023 (pegbox.lower takes others",
        "the program is shown, but not legal, and is not built",
        "the program is shown, but not legal, and is not built",
    ]
    assert "for k in parallel range(1023):  # illegal = k cannot" in str(program)


def test_te_legal_programs_are_shown_without_a_word(recwarn: pytest.WarningsRecorder) -> None:
    s, A, B = rows()
    assert "illegal" not in str(pb.lower(s, [A, B], simple_mode=True))
    assert not recwarn.list


def test_te_an_output_that_is_no_argument_is_shown_with_a_warning() -> None:
    s, A, _ = rows()
    with pytest.warns(UserWarning, match=r"not built: the output B is missing from the arguments \['A'\]"):
        program = pb.lower(s, [A], simple_mode=True)
    assert "B[0] = B[0] + A[i, k]" in str(program)
    with pytest.raises(ScheduleError, match="the output B is missing"):
        pb.lower(s, [A])
