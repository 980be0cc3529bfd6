"""TE schedules of computations whose extents are size variables."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from fuzz.cases import Tally, draw_case
from fuzz.schedules import called

import pegbox as pb
from pegbox import te, tir
from pegbox.compute.reference import evaluate
from pegbox.compute.tensor import Tensor
from pegbox.errors import ArgumentError, ComputeError, LoweringError, ScheduleError
from pegbox.schedule.te.program import at_sizes
from pegbox.schedule.te.replay import lower_te

Made = tuple[te.TESchedule, list[Tensor]]


def tiled(n: Any, m: Any) -> Made:
    A = te.placeholder((n, m), name="A")
    B = te.compute(A.shape, lambda i, j: A[i, j] * n + m, name="B")
    C = te.compute((n, m + 1), lambda i, j: te.if_then_else(j < m, B[i, te.minimum(j, m - 1)], 0), name="C")
    s = te.create_schedule(C.op)
    xo, yo, xi, yi = s[C].tile(*C.op.axis, x_factor=10, y_factor=5)
    s[C].unroll(xi)
    s[C].vectorize(yi)
    s[C].parallel(s[C].fuse(xo, yo))
    s[B].vectorize(s[B].split(B.op.axis[1], nparts=3)[1])
    return s, [A, C]


def cached(n: Any, m: Any) -> Made:
    A = te.placeholder((n, m), name="A")
    B = te.placeholder((m, n), name="B")
    k = te.reduce_axis((0, m), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    local = s.cache_write(C, "local", order=[1, 0])
    i, j = C.op.axis
    jo, _ = s[C].split(j, factor=4)
    copied = s.cache_read(A, "shared", [local])
    s[copied].compute_at(s[C], i)
    s[local].compute_at(s[C], jo)
    s[copied].storage_align(copied.op.axis[0], 8, 3)
    s[copied].double_buffer()
    s[local].pragma(s[local].op.axis[0], "auto_unroll_max_step", 4)
    s[local].prefetch(B, s[local].op.reduce_axis[0], 2)
    return s, [A, B, C]


def factored(n: Any, m: Any) -> Made:
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k, where=k < m - 1), name="B")
    s = te.create_schedule(B.op)
    _, ki = s[B].split(k, factor=4)
    partial = s.rfactor(B, ki)
    assert isinstance(partial, Tensor)
    xo, xi = s[B].split(s[B].op.axis[0], factor=8)
    s[B].bind(xo, te.thread_axis("blockIdx.x"))
    s[B].bind(xi, te.thread_axis("threadIdx.y"))
    tx = te.thread_axis("threadIdx.x")
    s[B].bind(s[B].op.reduce_axis[0], tx)
    s[partial].compute_at(s[B], s[B].op.reduce_axis[0])
    s[B].set_store_predicate(tx.var.equal(0))
    return s, [A, B]


def fully_factored(n: Any, m: Any) -> Made:
    A = te.placeholder((n, m), name="A")
    k, r = te.reduce_axis((0, m), name="k"), te.reduce_axis((0, n), name="r")
    B = te.compute((), lambda: te.max(A[r, k], axis=[r, k]), name="B")
    s = te.create_schedule(B.op)
    outer, _ = s[B].split(s[B].fuse(r, k), nparts=4)
    partial = s.rfactor(B, outer)
    s[partial].parallel(s[partial].op.axis[0])
    return s, [A, B]


def several(n: Any, m: Any) -> Made:
    A = te.placeholder((m, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    argmax = te.comm_reducer(
        lambda x, y: (te.if_then_else(x[1] >= y[1], x[0], y[0]), te.maximum(x[1], y[1])),
        lambda i, v: (te.const(-1, i), te.min_value(v)),
        name="argmax",
    )
    where, most = te.compute((m,), lambda i: argmax((k, A[i, k]), axis=k), name="T")
    less = te.compute((m,), lambda i: most[i] - 1, name="less")
    out = te.compute((m,), lambda i: less[i] * where[i], name="out")
    s = te.create_schedule(out.op)
    s[less].compute_inline()
    group = s.create_group(less, [A], include_inputs=False)
    group.compute_at(s[out], s[out].split(out.op.axis[0], factor=3)[0])
    return s, [A, out]


SCHEDULES: list[Callable[[Any, Any], Made]] = [tiled, cached, factored, fully_factored, several]


@pytest.mark.parametrize("make", SCHEDULES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("sizes", [(7, 5), (16, 12), (1, 2)], ids=str)
def test_te_sizes_give_the_program_that_numbers_give(make: Callable[[Any, Any], Made], sizes: tuple[int, int]) -> None:
    n, m = te.var("n"), te.size_var("m")
    s, args = make(n, m)
    static, static_args = make(*sizes)
    given = {"n": sizes[0], m: sizes[1]}
    for simple in (True, False):
        wanted = pb.lower(static, static_args, simple_mode=simple)
        assert str(pb.lower(s, args, simple_mode=simple, sizes=given)) == str(wanted)


@pytest.mark.parametrize("make", SCHEDULES, ids=lambda make: make.__name__)
def test_te_schedules_with_sizes_compute_what_the_reference_does(make: Callable[[Any, Any], Made]) -> None:
    kernel = pb.build(*make(te.var("n"), te.var("m")))
    for sizes in ((7, 5), (16, 12)):
        _, args = make(*sizes)
        rng = np.random.default_rng(0)
        arrays = [rng.integers(-4, 5, t.shape).astype(t.dtype) for t in args]
        kernel(*arrays)
        wanted = evaluate(args[-1:], dict(zip(args[:-1], arrays[:-1], strict=True)))
        np.testing.assert_array_equal(arrays[-1], wanted[0])


def test_te_a_schedule_stays_what_it_was_when_it_is_given_sizes() -> None:
    s, args = tiled(te.var("n"), te.var("m"))
    before = repr(s.stages), args[0].shape
    first = pb.lower(s, args, sizes={"n": 20, "m": 10})
    pb.lower(s, args, sizes={"n": 3, "m": 4})
    assert (repr(s.stages), args[0].shape) == before
    assert str(pb.lower(s, args, sizes={"n": 20, "m": 10})) == str(first)


def test_te_extents_are_expressions_that_can_be_shown_and_used() -> None:
    n = te.var("n")
    A = te.placeholder((n, n + 2), name="A")
    assert repr(A) == "Tensor(A: float32[n, n + 2])"
    assert A.shape[0] is n
    B = te.compute((A.shape[1] - 2,), lambda i: A[i, i], name="B")
    s = te.create_schedule(B.op)
    assert pb.lower(s, [A, B], sizes={"n": 4}).params[1].shape == (4,)


def test_te_simple_programs_are_shown_for_numbers_that_a_warning_names(golden: Any) -> None:
    s, args = factored(te.var("n"), te.var("m"))
    with pytest.warns(UserWarning, match=r"shown for n = 1023, m = 511 \(pegbox.lower takes others: sizes=") as caught:
        program = pb.lower(s, args, simple_mode=True)
    assert caught[0].filename == __file__
    golden(program)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (None, r"size variables are n, m; add \{'n': 128, 'm': 128\}"),
        ({"n": 3}, r"add \{'m': 128\} to \{'n': 3\}"),
        ({"n": 3, "m": 0}, "m is 0; sizes are integers from 1 up"),
        ({"n": 3, "m": 2.5}, "m is 2.5"),
        ({"n": 3, "m": 2, "k": 1}, "no size variable is called 'k'; there are n, m"),
    ],
)
def test_te_sizes_that_do_not_fit_are_refused(sizes: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        pb.lower(*tiled(te.var("n"), te.var("m")), sizes=sizes)


def test_te_two_variables_of_one_name_are_given_by_themselves() -> None:
    a, b = te.var("n"), te.var("n")
    made = tiled(a, b)
    with pytest.raises(ArgumentError, match="several size variables are called 'n'"):
        pb.lower(*made, sizes={"n": 3})
    assert pb.lower(*made, sizes={a: 3, b: 4}).params[0].shape == (3, 4)


def test_te_sizes_of_what_has_none_are_refused() -> None:
    with pytest.raises(ArgumentError, match="no size variable is called 'n'; there are none"):
        pb.lower(*tiled(3, 4), sizes={"n": 3})
    A = te.placeholder((3,), name="A")
    B = te.compute((3,), lambda i: A[i], name="B")
    with pytest.raises(ArgumentError, match="only a TE schedule has size variables, not a Schedule"):
        pb.lower(tir.Schedule([A, B]), sizes={"n": 3})


def test_te_extents_that_sizes_make_empty_are_refused() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n - 2,), lambda i: A[i + 2], name="B")
    with pytest.raises(ArgumentError, match=r"the extent n - 2 is 0 where n = 2; extents are from 1 up"):
        pb.lower(te.create_schedule(B.op), [A, B], sizes={"n": 2})


def test_te_what_is_illegal_for_some_sizes_is_refused_for_these() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i], name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis((0, 32), "threadIdx.x"))
    pb.lower(s, [A, B], sizes={"n": 32})
    with pytest.raises(ScheduleError, match=r"threadIdx.x has 32 threads, but i 33 iterations"):
        pb.lower(s, [A, B], sizes={"n": 33})


def test_te_only_numbers_can_be_computed_with() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i], name="B")
    message = r"its size n is a variable; .* give numbers as extents, or lower and build a TE schedule"
    for use in (lambda: tir.Schedule([A, B]), lambda: te.create_prim_func([A, B])):
        with pytest.raises(ComputeError, match=message):
            use()
    with pytest.raises(ComputeError, match=message):
        evaluate([B], {A: np.zeros(3, np.float32)})

    def template(cfg: pb.TemplateConfig) -> Any:
        return te.create_schedule(B.op), [A, B]

    with pytest.raises(ComputeError, match=message):
        pb.create_task(template)


def test_te_a_tensor_of_another_computation_is_refused() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i], name="B")
    C = te.compute((n,), lambda i: A[i], name="C")
    with pytest.raises((ComputeError, LoweringError, ScheduleError), match="C is computed, but not by"):
        pb.lower(te.create_schedule(B.op), [A, B, C], sizes={"n": 3})


def test_te_schedules_with_sizes_can_be_pickled() -> None:
    s, args = factored(te.var("n"), te.var("m"))
    again, same = pickle.loads(pickle.dumps((s, args)))
    sizes = {"n": 9, "m": 6}
    assert str(pb.lower(again, same, sizes=sizes)) == str(pb.lower(s, args, sizes=sizes))


def test_te_one_variable_is_the_shape_of_a_vector() -> None:
    n = te.var("n")
    A = te.placeholder((n, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    B = te.compute(n, lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    partial = s.rfactor(B, k)
    assert isinstance(partial, Tensor)
    assert B.shape == (n,)
    assert partial.shape == (n, n)
    assert s[B].op.reduce_axis[0].dom.extent == n


def replayed(s: te.TESchedule, args: Sequence[Tensor]) -> tuple[bool, str]:
    """Is the schedule legal? And its program, or why it is not."""
    try:
        return True, str(lower_te(s, args))
    except ScheduleError as error:
        return False, error.message


def test_te_copies_of_random_schedules_say_the_same() -> None:
    legal = 0
    for seed in range(40):
        case = draw_case(seed, language="te")
        graph = case.graph()
        s, _ = called(graph, case.steps[:6], Tally())
        wanted = replayed(s, graph.tensors)
        assert replayed(*at_sizes(s, graph.tensors, {})) == wanted
        legal += wanted[0]
    assert legal > 10
