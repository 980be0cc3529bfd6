"""Ordered reductions: their steps keep their order, and prefixes of a scan are made as they are read."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from interpreter import interpret

import pegbox as pb
from pegbox import te
from pegbox.compute.graph import post_order
from pegbox.compute.printer import te_lines, tensor_names
from pegbox.compute.reducer import Reducer
from pegbox.compute.reference import evaluate
from pegbox.errors import ComputeError, ScheduleError
from pegbox.schedule import Schedule
from pegbox.tir.script import from_source

M, N, K = 4, 6, 12


def _follow(a: Any, b: Any) -> Any:
    """Combine x -> a[0] x + a[1] with the map that comes after it: composition does not commute."""
    return a[0] * b[0], a[1] * b[0] + b[1]


def _start(types: Any) -> Any:
    return tuple(te.const(0, t) for t in types)


affine = te.comm_reducer(_follow, lambda s, t: (te.const(1, s), te.const(0, t)), name="affine", ordered=True)


def maps() -> list[Any]:
    """The composition of K maps, in two axes."""
    x, y = (te.placeholder((M, N, K), name=name, dtype="int32") for name in "XY")
    k, n = te.reduce_axis((0, K), name="k"), te.reduce_axis((0, N), name="n")
    return [x, y, *te.compute((M,), lambda i: affine((x[i, n, k], y[i, n, k]), axis=[n, k]), name="C")]


def _values(args: list[Any]) -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(3)
    inputs = [rng.integers(-2, 3, t.shape).astype(t.dtype) for t in args[:2]]
    return inputs, evaluate(args[2:], dict(zip(args[:2], inputs, strict=True)))


def _of_tensors(args: list[Any]) -> Schedule:
    return Schedule(args)


def _of_script(args: list[Any]) -> Schedule:
    """Print the program, and read the text again: the note of the order is in it."""
    return Schedule(from_source(Schedule(args).func.script()))


def test_the_reference_combines_in_order() -> None:
    args = maps()
    (x, y), (factor, shift) = _values(args)
    for i in range(M):
        a, b = 1, 0
        for s, t in zip(x[i].flat, y[i].flat, strict=True):
            a, b = a * s, b * s + t
        assert (factor[i], shift[i]) == (np.int32(a), np.int32(b))


def _tile(sch: Schedule) -> None:
    i, n, k = sch.get_loops("C")
    outer, inner = sch.split(k, factor=5)
    sch.reorder(n, outer, i, inner)
    sch.unroll(inner)


def _lanes(sch: Schedule) -> None:
    i, n, k = sch.get_loops("C")
    sch.reorder(n, k, i)
    sch.vectorize(i)


def _exchange(sch: Schedule) -> None:
    outer, inner = sch.split(sch.get_loops("C")[2], factor=4)
    sch.reorder(inner, outer)


LEGAL: list[Callable[[Schedule], object]] = [
    _tile,
    _lanes,
    lambda s: s.parallel(s.get_loops("C")[0]),
    lambda s: s.decompose_reduction("C", s.get_loops("C")[1]),
]
ILLEGAL: list[tuple[Callable[[Schedule], object], str]] = [
    (_exchange, "the reduction of C is ordered"),
    (lambda s: s.reorder(*reversed(s.get_loops("C")[1:])), "the reduction of C is ordered"),
    (lambda s: s.vectorize(s.get_loops("C")[2]), "cannot be vectorized: the reduction of block C is ordered"),
    (lambda s: s.parallel(s.get_loops("C")[1]), "cannot be parallel"),
    (lambda s: s.bind(s.get_loops("C")[2], "threadIdx.x"), "is ordered"),
    (lambda s: s.rfactor(s.get_loops("C")[1], 0), "would not be combined in order"),
    (lambda s: s.annotate("C", "ordered", False), "says that the steps of a reduction keep their order"),
]


@pytest.mark.parametrize("program", [_of_tensors, _of_script])
@pytest.mark.parametrize("change", LEGAL)
def test_schedules_that_keep_the_order_keep_the_values(
    change: Callable[[Schedule], object], program: Callable[[list[Any]], Schedule]
) -> None:
    args = maps()
    sch = program(args)
    change(sch)
    inputs, want = _values(args)
    for got, right in zip(interpret(sch.func, inputs), want, strict=True):
        np.testing.assert_array_equal(got, right)
    out = [np.full_like(w, 99) for w in want]
    pb.build(sch, target="llvm -num-cores 2")(*inputs, *out)
    for got, right in zip(out, want, strict=True):
        np.testing.assert_array_equal(got, right)


@pytest.mark.parametrize("program", [_of_tensors, _of_script])
@pytest.mark.parametrize(("change", "why"), ILLEGAL)
def test_schedules_that_change_the_order_are_refused(
    change: Callable[[Schedule], object], why: str, program: Callable[[list[Any]], Schedule]
) -> None:
    sch = program(maps())
    with pytest.raises(ScheduleError, match=why):
        change(sch)


def test_te_stages_keep_the_order() -> None:
    args = maps()
    s = te.create_schedule(args[-1].op)
    n, k = s[args[-1]].op.reduce_axis
    s[args[-1]].reorder(k, n)
    with pytest.raises(ScheduleError, match="the reduction of C is ordered"):
        pb.lower(s, args)
    with pytest.raises(ScheduleError, match="would not be combined in order"):
        te.create_schedule(args[-1].op).rfactor(args[-1], k)


def test_the_order_is_printed_pickled_and_checked() -> None:
    args = maps()
    ops = post_order([t.op for t in args])
    lines = te_lines(ops, tensor_names(ops))
    assert any('name="affine", ordered=True)' in line for line in lines)
    assert pickle.loads(pickle.dumps(Reducer("affine", _follow, _start, ordered=True))).ordered
    with pytest.raises(ComputeError, match="ordered="):
        te.comm_reducer(_follow, lambda s, t: (s, t), ordered=np.zeros(2))  # type: ignore[arg-type]


# Scans that are made as they are read -------------------------------------------------------------------------------


def decay(where: Any = None) -> list[Any]:
    """A sum that each step rescales by a running maximum of its own."""
    x, y = (te.placeholder((K, N), name=name) for name in "XY")
    state = te.placeholder((K, N), name="state")
    first = te.compute((1, N), lambda t, i: x[t, i], name="first")
    step = te.compute((K, N), lambda t, i: te.maximum(state[t - 1, i], x[t, i]), name="step")
    top = te.scan(first, step, state, name="top")
    t = te.reduce_axis((0, K), name="t")
    condition = None if where is None else where(t)
    each = te.compute((N,), lambda i: affine((top[t, i], y[t, i]), axis=t, where=condition), name="R")
    return [x, y, *each]


def _attached(args: list[Any], factor: int = 3) -> tuple[Any, Any]:
    out = args[-1]
    s = te.create_schedule(out.op)
    scan = next(stage for stage in s.stages if stage.op.name == "top")
    next(stage for stage in s.stages if stage.op.name == "first").compute_inline()
    (i,), (t,) = out.op.axis, out.op.reduce_axis
    outer, inner = s[out].split(i, factor=factor)
    s[out].reorder(outer, t, inner)
    s[scan.op.outputs[0]].compute_at(s[out], t)
    return s, scan


@pytest.mark.parametrize("where", [None, lambda t: t < 7, lambda t: t * 2 <= 9])
def test_a_scan_makes_one_row_in_each_step_of_its_consumer(where: Any) -> None:
    args = decay(where)
    s, _ = _attached(args)
    text = str(pb.lower(s, args, simple_mode=True))
    assert text.count(f"in range({K})") == 1  # one loop over t, and none inside it
    rng = np.random.default_rng(4)
    inputs = [rng.integers(-2, 3, t.shape).astype(t.dtype) for t in args[:2]]
    want = evaluate(args[2:], dict(zip(args[:2], inputs, strict=True)))
    out = [np.full_like(w, np.nan) for w in want]
    pb.build(s, args)(*inputs, *out)
    for got, right in zip(out, want, strict=True):
        np.testing.assert_array_equal(got, right)


def test_a_scan_makes_all_rows_where_some_are_not_asked_for() -> None:
    """The rows before the first one that is read are needed, too."""
    args = decay(lambda t: t >= 5)
    s, _ = _attached(args)
    inputs = [np.random.default_rng(4).integers(-2, 3, t.shape).astype(t.dtype) for t in args[:2]]
    want = evaluate(args[2:], dict(zip(args[:2], inputs, strict=True)))
    out = [np.full_like(w, np.nan) for w in want]
    pb.build(s, args)(*inputs, *out)
    np.testing.assert_array_equal(out[1], want[1])
