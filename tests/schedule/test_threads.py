"""bind, env_threads and set_store_predicate of tir.Schedule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from interpreter import interpret
from lowered_interpreter import run

import pegbox as pb
from pegbox import te
from pegbox.errors import ScheduleError
from pegbox.loops.passes import lower_function
from pegbox.schedule import Schedule, Trace


def elementwise(n: int = 10) -> Schedule:
    a = te.placeholder((n, 12), name="A")
    b = te.compute((n, 12), lambda i, j: a[i, j] + 1, name="B")
    return Schedule([a, b])


def sums(reduced: int = 12) -> Schedule:
    a, k = te.placeholder((5, 12), name="A"), te.reduce_axis((0, reduced), name="k")
    return Schedule([a, te.compute((5,), lambda i: te.sum(a[i, k], axis=k), name="B")])


def chain() -> Schedule:
    """B, then C of it."""
    a = te.placeholder((8, 12), name="A")
    b = te.compute((8, 12), lambda i, j: a[i, j] + 1, name="B")
    return Schedule([a, te.compute((8, 12), lambda i, j: b[i, j] * 2, name="C")])


def right(sch: Schedule) -> None:
    """The program as scheduled, as lowered, and as a kernel does what it did at first."""
    func = sch.func
    rng = np.random.default_rng(1)
    inputs = [rng.integers(-5, 6, b.shape).astype(b.dtype) for b in func.params if b not in func.outputs]
    expected = interpret(func, inputs)
    for lowered in (lower_function(func), lower_function(func, simple=True)):
        arrays = [*inputs, *(np.zeros_like(x) for x in expected)]
        run(lowered, arrays)
        np.testing.assert_array_equal(arrays[-1], expected[-1])
    arrays = [*inputs, *(np.zeros_like(x) for x in expected)]
    pb.build(lower_function(func))(*arrays)
    np.testing.assert_array_equal(arrays[-1], expected[-1])


def refused(sch: Schedule, says: str, call: Any, *marked: str) -> None:
    """The call is refused so; what is marked in the message are these; nothing changes."""
    before = sch.func
    with pytest.raises(ScheduleError) as caught:
        call()
    assert says in str(caught.value)
    assert sch.func is before
    lines = [line for line in str(caught.value).splitlines() if line.startswith("  > ")]
    assert len(lines) == len(marked)
    assert all(name in line for name, line in zip(marked, lines, strict=True)), lines


# bind


def test_bind_makes_loops_blocks_and_threads(golden: Any) -> None:
    sch = elementwise()
    i, j = sch.get_loops("B")
    sch.bind(i, "blockIdx.x")
    sch.bind(sch.split(j, factor=8)[1], "threadIdx.x")
    golden(sch)
    assert [kind for _, _, kind in sch.func.loops("B")] == ["thread", "serial", "thread"]
    right(sch)


def test_a_trace_keeps_thread_axes() -> None:
    sch = sums()
    i, k = sch.get_loops("B")
    sch.bind(i, "blockIdx.x", extent=5)
    sch.bind(k, "threadIdx.x")
    sch.env_threads(i, [("threadIdx.y", 2)])
    sch.set_store_predicate("B", "threadIdx.x == 0 and threadIdx.y == 1")
    again = Trace.from_json(sch.trace.to_json()).apply(sums())
    assert str(again) == str(sch)
    right(sch)


def test_bind_of_a_reduce_loop(golden: Any) -> None:
    sch = sums()
    sch.bind(sch.split(sch.get_loops("B")[1], factor=8)[1], "threadIdx.x")
    golden(lower_function(sch.func, simple=True))
    right(sch)


def test_what_starts_a_reduction_keeps_its_threads() -> None:
    sch = sums()
    i, k = sch.get_loops("B")
    sch.reorder(k, i)
    sch.bind(i, "threadIdx.x")
    sch.decompose_reduction("B", k)
    assert str(sch).count("thread(threadIdx.x) range(5)") == 2
    right(sch)


def shared(scope: str = "shared") -> tuple[Schedule, list[Any]]:
    """C on threads; below them B, which they are to share, with the loops of B."""
    sch = chain()
    i, j = sch.get_loops("C")
    sch.bind(i, "threadIdx.x")
    sch.set_scope("B", 0, scope)
    sch.compute_at("B", j)
    return sch, list(sch.get_loops("B"))


def test_threads_share_work(golden: Any) -> None:
    sch, loops = shared()
    sch.bind(loops[2], "threadIdx.x")
    golden(f"{sch}\n{lower_function(sch.func)}")
    right(sch)


def test_bind_refuses_unknown_axes() -> None:
    sch = elementwise()
    i, _ = sch.get_loops("B")
    refused(sch, "bind(i, threadIdx.q): unknown thread axis 'threadIdx.q'", lambda: sch.bind(i, "threadIdx.q"), "for i")


@pytest.mark.parametrize("kind", ["vectorize", "parallel", "unroll"])
def test_bind_refuses_loops_that_are_something_else(kind: str) -> None:
    sch = elementwise()
    j = sch.get_loops("B")[1]
    getattr(sch, kind)(j)
    refused(sch, "j is", lambda: sch.bind(j, "threadIdx.x"), "for j")


@pytest.mark.parametrize("kind", ["vectorize", "parallel", "unroll"])
def test_bound_loops_become_nothing_else(kind: str) -> None:
    sch = elementwise()
    j = sch.get_loops("B")[1]
    sch.bind(j, "threadIdx.x")
    refused(sch, "it is bound to threadIdx.x", lambda: getattr(sch, kind)(j), "for j")
    refused(sch, "j is bound to threadIdx.x already", lambda: sch.bind(j, "threadIdx.y"), "for j")


def test_bound_loops_are_neither_split_nor_fused() -> None:
    sch = elementwise()
    i, j = sch.get_loops("B")
    sch.bind(j, "threadIdx.x")
    refused(sch, "j is bound to threadIdx.x already", lambda: sch.split(j, factor=4), "for j")
    refused(sch, "j is bound to threadIdx.x already", lambda: sch.fuse(i, j), "for j")


def test_bind_refuses_another_number_of_threads() -> None:
    sch = elementwise()
    j = sch.get_loops("B")[1]
    refused(sch, "threadIdx.x has 16 threads, but j 12", lambda: sch.bind(j, "threadIdx.x", extent=16), "for j")


def test_threads_stand_neither_in_lanes_nor_in_parallel_loops_nor_around_these() -> None:
    for outer, inner in (("vectorize", None), ("parallel", None), (None, "parallel")):
        sch = elementwise()
        i, j = sch.get_loops("B")
        getattr(sch, outer or inner)(i if outer else j)
        loop = j if outer else i
        refused(sch, "would be", lambda s=sch, x=loop: s.bind(x, "threadIdx.x"), "for i", "for j")
    sch = elementwise()
    i, j = sch.get_loops("B")
    sch.bind(j, "threadIdx.x")
    refused(sch, "j would be thread inside i", lambda: sch.vectorize(i), "for i", "for j")
    refused(sch, "j would be thread inside i", lambda: sch.parallel(i), "for i", "for j")


def test_one_axis_has_one_extent_in_a_kernel() -> None:
    sch = elementwise()
    i, j = sch.get_loops("B")
    sch.bind(i, "threadIdx.x")
    refused(
        sch,
        "threadIdx.x would have 10 iterations as i and 12 as j in one kernel",
        lambda: sch.bind(j, "threadIdx.x"),
        "for i",
        "for j",
    )


def test_kernels_have_extents_of_their_own() -> None:
    sch = chain()
    sch.bind(sch.get_loops("B")[0], "threadIdx.x")
    sch.bind(sch.get_loops("C")[1], "threadIdx.x")
    right(sch)


def test_a_loop_around_two_makes_them_one_kernel() -> None:
    sch = chain()
    i, j = sch.get_loops("C")
    sch.compute_at("B", i)
    sch.bind(j, "threadIdx.x")
    outer, _ = sch.split(sch.get_loops("B")[2], factor=4)
    sch.bind(outer, "threadIdx.x")
    refused(sch, "3 iterations", lambda: sch.bind(i, "blockIdx.x"), "j_0", "for j")


def test_one_axis_stands_twice_on_a_path_only_where_threads_share() -> None:
    sch = elementwise(12)
    i, j = sch.get_loops("B")
    sch.bind(i, "threadIdx.x")
    says = "j cannot be bound to threadIdx.x inside i, which is bound to it too: the values of B there are not the same"
    refused(sch, says, lambda: sch.bind(j, "threadIdx.x"), "for i", "for j")
    sch = elementwise(12)
    i, j = sch.get_loops("B")
    sch.bind(i, "blockIdx.x")
    refused(sch, "blocks share no work", lambda: sch.bind(j, "blockIdx.x"), "for i", "for j")


def test_threads_share_no_local_memory() -> None:
    a = te.placeholder((12,), name="A")
    b = te.compute((12,), lambda i: a[i] + 1, name="B")
    c = te.compute((12, 12), lambda i, j: b[j] * 2, name="C")
    sch = Schedule([a, c])
    i, _ = sch.get_loops("C")
    sch.bind(i, "threadIdx.x")
    sch.set_scope("B", 0, "local")
    sch.compute_at("B", i)
    loop = sch.get_loops("B")[1]
    says = "B writes B, whose scope 'local' threads do not share"
    refused(sch, says, lambda: sch.bind(loop, "threadIdx.x"), "for i", "for i")


def test_what_is_computed_for_one_thread_is_not_shared() -> None:
    """Moved there before the loop was bound, B has the region of one thread."""
    sch = chain()
    i, j = sch.get_loops("C")
    sch.set_scope("B", 0, "shared")
    sch.compute_at("B", i)
    sch.bind(j, "threadIdx.y")
    sch.bind(i, "threadIdx.x")
    loop = sch.split(sch.get_loops("B")[2], [None, 8])[1]
    refused(sch, "the values of B there are not the same for all threads", lambda: sch.bind(loop, "threadIdx.x"),
            "for i", "for j_1")  # fmt: skip


def test_only_threads_of_a_block_reduce_together() -> None:
    for tag in ("blockIdx.x", "vthread"):
        sch = sums()
        k = sch.get_loops("B")[1]
        refused(sch, f"{tag} takes no part in reductions", lambda s=sch, t=tag, x=k: s.bind(x, t), "for k", "block B")
    sch = sums()
    fused = sch.fuse(*sch.get_loops("B"))
    refused(
        sch,
        "binds spatial and reduce variables at once",
        lambda: sch.bind(fused, "threadIdx.x"),
        "for i_k",
        "block B",
    )


def test_two_threads_write_no_element() -> None:
    a = te.placeholder((20,), name="A")
    b = te.compute((20,), lambda i: a[i] + 1, name="B")
    c = te.compute((9,), lambda i: b[i * 2] + b[i * 2 + 1] + b[i * 2 + 2], name="C")
    sch = Schedule([a, c])
    (i,) = sch.get_loops("C")
    sch.compute_at("B", i)
    sch.bind(i, "threadIdx.x")  # each thread has its own three
    right(sch)


# env_threads


def test_env_threads_start_threads_around_a_loop(golden: Any) -> None:
    sch = elementwise()
    i, j = sch.get_loops("B")
    sch.env_threads(i, [("threadIdx.y", 2), ("threadIdx.x", 12)])
    sch.bind(j, "threadIdx.x")
    golden(f"{sch}\n{lower_function(sch.func)}")
    right(sch)


@pytest.mark.parametrize("threads", [[("threadIdx.q", 2)], [("threadIdx.x", 0)], [("threadIdx.x", "2")]])
def test_env_threads_are_axes_with_extents(threads: Any) -> None:
    sch = elementwise()
    with pytest.raises(ScheduleError, match="env_threads"):
        sch.env_threads("B", threads)


@pytest.mark.parametrize("reduced", [12, 1])
def test_env_threads_do_not_add_up_again(reduced: int) -> None:
    sch = sums(reduced)
    i, k = sch.get_loops("B")
    sch.reorder(k, i)
    says = "several of its iterations may write the same elements of B"
    refused(sch, says, lambda: sch.env_threads(i, [("threadIdx.x", 4)]), "threadIdx_x", "block B")


# set_store_predicate


def test_a_predicate_on_threads_that_reduce_is_a_note(golden: Any) -> None:
    sch = sums()
    sch.bind(sch.get_loops("B")[1], "threadIdx.x")
    sch.set_store_predicate("B", "threadIdx.x == 0")
    golden(sch)
    right(sch)


def test_a_predicate_leaves_threads_out_that_do_the_same(golden: Any) -> None:
    sch = sums()
    sch.env_threads(sch.get_loops("B")[0], [("threadIdx.x", 4), ("threadIdx.y", 3)])
    sch.set_store_predicate("B", "threadIdx.x == 1 and not threadIdx.y < 2")
    golden(sch)
    right(sch)


def test_a_predicate_on_what_threads_share_is_a_note() -> None:
    sch, _ = shared()
    sch.set_store_predicate("B", "threadIdx.x == 3")
    assert "annotation store_predicate = threadIdx.x == 3" in str(sch)
    right(sch)


@pytest.mark.parametrize(
    ("predicate", "says"),
    [
        ("threadIdx.x == 4", "it holds for no thread"),
        ("threadIdx.x", "is a number, not a condition"),
        ("threadIdx.x ==", "is not a condition"),
        ("threadIdx.z == 0", "no loop around the block is bound to threadIdx.z; bound are threadIdx.x"),
        ("f(threadIdx.x) == 0", "does not compare thread axes with numbers"),
        ("threadIdx.x / 2 == 0", "has no place in a condition"),
        ("threadIdx.x in 0", "In has no place in a condition"),
        ("threadIdx.x == 0 is 1", "Is has no place in a condition"),
        ("not threadIdx.x", "has dtype int64 where a condition is needed"),
        ("threadIdx.x % 0 == 0", "division by zero"),
    ],
)
def test_other_predicates_are_refused(predicate: str, says: str) -> None:
    sch = sums()
    sch.env_threads(sch.get_loops("B")[0], [("threadIdx.x", 4)])
    refused(sch, says, lambda: sch.set_store_predicate("B", predicate), "block B")


def test_two_predicates_hold_for_a_thread_together() -> None:
    sch = sums()
    sch.env_threads(sch.get_loops("B")[0], [("threadIdx.x", 4)])
    sch.set_store_predicate("B", "threadIdx.x < 2")
    refused(sch, "it holds for no thread", lambda: sch.set_store_predicate("B", "threadIdx.x == 2"), "block B")
    right(sch)


def test_a_predicate_leaves_no_element_without_a_value() -> None:
    sch = elementwise()
    j = sch.get_loops("B")[1]
    sch.bind(j, "threadIdx.x")
    says = "threadIdx.x selects what B writes"
    refused(sch, says, lambda: sch.set_store_predicate("B", "threadIdx.x == 0"), "for j", "block B")


def test_a_predicate_leaves_no_thread_without_what_it_reads() -> None:
    a = te.placeholder((12,), name="A")
    b = te.compute((12,), lambda i: a[i] + 1, name="B")
    sch = Schedule([a, te.compute((6, 12), lambda i, j: b[j] * 2, name="C")])
    i, _ = sch.get_loops("C")
    sch.bind(i, "threadIdx.x")
    sch.set_scope("B", 0, "local")
    sch.compute_at("B", i)
    says = "C reads B in all threads, but its scope is 'local'"
    refused(sch, says, lambda: sch.set_store_predicate("B", "threadIdx.x == 0"), "for i", "block B", "block C")


def test_a_predicate_on_a_decomposed_reduction_is_refused() -> None:
    """The init would be done in all threads, and again after a sum that only some of them make."""
    sch = sums()
    sch.env_threads(sch.get_loops("B")[0], [("threadIdx.x", 3)])
    early = sch.copy()
    sch.decompose_reduction("B", sch.get_loops("B")[-1])
    says = "B_init writes the same buffer, in all threads"
    refused(sch, says, lambda: sch.set_store_predicate("B", "threadIdx.x < 2"), "block B_init", "block B:")
    early.set_store_predicate("B", "threadIdx.x < 2")
    early.decompose_reduction("B", early.get_loops("B")[-1])
    right(early)


def test_a_predicate_may_be_a_value() -> None:
    axis = te.thread_axis("threadIdx.x", name="tx")
    text, value = sums(), sums()
    for sch, predicate in ((text, "threadIdx.x >= 1"), (value, axis.var >= 1)):
        sch.env_threads(sch.get_loops("B")[0], [("threadIdx.x", 4)])
        sch.set_store_predicate("B", predicate)
    assert str(value) == str(text)
    assert value.trace == text.trace
    right(value)


@pytest.mark.parametrize(
    ("predicate", "says"),
    [
        (te.thread_axis("threadIdx.z").var.equal(0), "no loop around the block is bound to threadIdx.z"),
        (te.thread_axis("threadIdx.x").var + 1, "'threadIdx.x + 1' is a number, not a condition"),
        (te.placeholder((4,), name="T")[te.thread_axis("threadIdx.x").var] > 0, "does not compare thread axes"),
        (te.var("n") > 0, "no loop around the block is bound to n"),
    ],
)
def test_other_values_are_refused_as_predicates(predicate: Any, says: str) -> None:
    sch = sums()
    sch.env_threads(sch.get_loops("B")[0], [("threadIdx.x", 4)])
    refused(sch, says, lambda: sch.set_store_predicate("B", predicate), "block B")
