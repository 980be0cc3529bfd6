"""Buffers that no output depends on are not filled; those that a test or a call needs are."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from lowered_interpreter import run
from te_programs import check_values

from pegbox import te
from pegbox.expr.build import ZERO, compare
from pegbox.expr.low_level import Address, call_extern
from pegbox.expr.nodes import Binary, Buffer, Const, Load, Var
from pegbox.loops.nodes import Alloc, Evaluate, For, Function, If, Seq, Stmt, Store
from pegbox.loops.passes.unused_buffer import drop_unused
from pegbox.loops.visit import walk


def follow(a: Any, b: Any) -> tuple[Any, Any]:
    return a[0] * b[0], a[1] * b[0] + b[1]


maps = te.comm_reducer(follow, lambda f, y: (te.const(1, f), te.const(0, y)), name="maps", ordered=True)


def sums(number: int) -> list[Any]:
    """Compute twice the factor, or the summand, of each row's maps in order."""
    f, y = (te.placeholder((3, 8), "float32", name) for name in "FY")
    t = te.reduce_axis((0, 8), "t")
    r = te.compute((3,), lambda i: maps((f[i, t], y[i, t]), axis=t), "R")
    return [f, y, te.compute((3,), lambda i: r[number][i] * 2, "C")]


def test_a_reduction_of_tuples_computes_what_is_read(golden: Any) -> None:
    tensors = sums(1)
    golden(check_values(te.create_schedule(tensors[-1].op), tensors))


def test_a_number_that_another_one_needs_is_computed() -> None:
    # The larger number decides about its place.
    a = te.placeholder((3, 8), "float32", "A")
    t = te.reduce_axis((0, 8), "t")
    first = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.maximum(x[1], y[1])),
        lambda i, v: (te.const(0, i), te.min_value(v)),
        name="first",
        ordered=True,
    )
    m = te.compute((3,), lambda i: first((t, a[i, t]), axis=t), "M")
    c = te.compute((3,), lambda i: m[0][i] + 1, "C")
    assert check_values(te.create_schedule(c.op), [a, c]) is not None


def stored(buffer: Buffer, value: Any) -> Store:
    return Store(buffer, (ZERO,), value)


def number(value: float) -> Const:
    return Const(value, "float32")


def test_what_tests_and_calls_need_is_computed() -> None:
    out, tested, called, lost, ignored = (Buffer(name, (1,), "float32") for name in ("O", "T", "X", "L", "R"))
    test = compare("gt", Load(tested, (ZERO,)), number(0))
    call = Evaluate(call_extern("int32", "f", Address(called, (ZERO,), (1,), "r")))
    fills = [stored(buffer, number(1)) for buffer in (tested, called, lost)]
    result = stored(ignored, call_extern("float32", "g"))
    body: Stmt = Seq((*fills, call, result, If(test, stored(out, number(2)))))
    for buffer in (tested, called, lost, ignored):
        body = Alloc(buffer, body)
    text = str(drop_unused(Function("f", (out,), (out,), body)))
    assert "T[0] = 1\n" in text
    assert "X[0] = 1\n" in text
    assert "R[0] = call_extern" in text
    assert "L" not in text


steps = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4)), max_size=12)


@given(steps)
def test_outputs_of_random_programs_stay(chosen: list[tuple[int, int, int]]) -> None:
    """Sums of two buffers go to a third, over and over; the last buffer is the output."""
    buffers = [Buffer(f"B{n}", (1,), "float32") for n in range(5)]
    i, out = Var("i"), buffers[-1]
    sums_ = [
        stored(buffers[to], Binary("add", Load(buffers[a], (ZERO,)), Load(buffers[b], (ZERO,)))) for to, a, b in chosen
    ]
    loop = [For(i, 3, Seq(tuple(sums_)))] if sums_ else []
    body: Stmt = Seq((*(stored(b, number(n + 1)) for n, b in enumerate(buffers)), *loop))
    for buffer in buffers[:-1]:
        body = Alloc(buffer, body)
    before = Function("f", (out,), (out,), body)
    after = drop_unused(before)
    results = [np.zeros(1, np.float32) for _ in range(2)]
    for func, result in zip((before, after), results, strict=True):
        run(func, [result])
    np.testing.assert_array_equal(results[0], results[1])
    left = {s.buffer for s in walk(after.body) if isinstance(s, Store)}
    assert left == needed(chosen, buffers)


def needed(chosen: list[tuple[int, int, int]], buffers: list[Buffer]) -> set[Buffer]:
    """Return the output, and the buffers that reach it through any number of sums."""
    found = {len(buffers) - 1}
    for _ in buffers:
        found |= {source for to, *sources in chosen if to in found for source in sources}
    return {buffers[n] for n in found}


def test_programs_without_such_buffers_stay_the_same() -> None:
    out = Buffer("O", (4,), "float32")
    i = Var("i")
    func = Function("f", (out,), (out,), For(i, 4, Store(out, (i,), number(1))))
    assert drop_unused(func).body is func.body
