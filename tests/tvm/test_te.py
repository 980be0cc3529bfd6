"""tvm.te: names beyond pegbox's, and what is refused with the way that there is."""

from __future__ import annotations

import operator as op
from typing import Any

import numpy as np
import pytest

from pegbox.errors import ScheduleError
from pegbox.plugins import tvm
from pegbox.plugins.tvm import te, tir


@pytest.mark.parametrize("name", ["extern_primfunc", "gradient", "trace", "hybrid", "SpecializedCondition"])
def test_what_is_not_here_is_refused_with_the_way(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"te\.{name} is not here: "):
        getattr(te, name)


def copied(a: te.Tensor) -> te.Tensor:
    return te.compute(a.shape, lambda *i: a(*i), name="B")


def test_programs_of_one_tensor_and_of_several() -> None:
    a = te.placeholder((4,), name="A")
    zeros = te.compute((4,), lambda i: 0.0, name="B")
    assert [p.name for p in te.create_prim_func([a, copied(a)]).params] == ["A", "B"]
    assert [p.name for p in te.create_prim_func(zeros).params] == ["B"]


def test_functions_of_the_c_library_by_name_are_those_of_te() -> None:
    a = te.placeholder((4,), name="A")
    assert str(tvm.tir.call_pure_extern("float32", "expf", a[0])) == str(te.exp(a[0]))
    assert str(tvm.tir.call_pure_extern("float32", "__expf", a[0])) == str(te.exp(a[0]))
    assert str(tvm.tir.call_pure_extern("float64", "pow", a[0], 2.0)) == str(te.pow(te.cast("float64", a[0]), 2.0))
    assert "mine" in str(tvm.tir.call_pure_extern("float32", "mine", a[0]))


@pytest.mark.parametrize("factored", [False, True])
@pytest.mark.parametrize("where", [False, True])
@pytest.mark.parametrize(
    ("reduce", "wanted"),
    [
        (te.sum, np.sum),
        (te.max, np.max),
        (te.min, np.min),
        (te.prod, np.prod),
        (te.comm_reducer(lambda a, b: a + b, lambda t: te.const(0, t), "plus"), np.sum),
    ],
)
def test_a_reduction_has_a_start(reduce: Any, wanted: Any, where: bool, factored: bool) -> None:
    A, S, k = te.placeholder((4, 8), name="A"), te.placeholder((4,), name="S"), te.reduce_axis((2, 8), name="k")
    test = (lambda: k % 2 != 0) if where else (lambda: None)
    B = te.compute((4,), lambda i: reduce(A[i, k], axis=k, where=test(), init=S[i] * 2), name="B")
    s = te.create_schedule(B.op)
    if factored:
        outer, _ = s[B].split(B.op.reduce_axis[0], factor=3)
        s.rfactor(B, outer)
    rng = np.random.default_rng(0)
    a, start = (rng.integers(-3, 4, shape).astype("float32") for shape in ((4, 8), (4,)))
    b = tvm.nd.empty((4,))
    tvm.build(s, [A, S, B])(tvm.nd.array(a), tvm.nd.array(start), b)
    chosen = a[:, [3, 5, 7]] if where else a[:, 2:]
    np.testing.assert_array_equal(b.numpy(), wanted(np.column_stack([start * 2, chosen]), axis=1))


def test_a_reduction_of_pairs_has_a_start() -> None:
    argmax = te.comm_reducer(
        lambda a, b: (te.if_then_else(a[1] >= b[1], a[0], b[0]), te.max(a[1], b[1])),
        lambda i, v: (te.const(-1, i), te.min_value(v)),
        "argmax",
    )
    A, k = te.placeholder((4, 8), name="A"), te.reduce_axis((0, 8), name="k")
    start = (te.const(100, "int32"), te.const(0.5))
    P, V = te.compute((4,), lambda i: argmax((te.cast("int32", k), A[i, k]), axis=k, init=start), name="B")
    a = np.random.default_rng(0).uniform(0, 1, (4, 8)).astype("float32")
    a[2] /= 4
    found, value = tvm.nd.empty((4,), "int32"), tvm.nd.empty((4,))
    tvm.build(te.create_schedule(P.op), [A, P, V])(tvm.nd.array(a), found, value)
    np.testing.assert_array_equal(found.numpy(), np.where(a.max(1) > 0.5, a.argmax(1), 100))
    np.testing.assert_array_equal(value.numpy(), np.maximum(a.max(1), np.float32(0.5)))


@pytest.mark.parametrize("operator", ["add", "sub", "mul", "truediv"])
def test_a_number_meets_a_whole_tensor_on_either_side(operator: str) -> None:
    apply, Z = getattr(op, operator), te.placeholder((), name="Z")
    for n in (te.const(2.0), te.cast("float32", te.var("n"))):
        assert [apply(n, Z).shape, apply(Z, n).shape] == [(), ()]


def test_a_loop_is_split_by_a_constant_of_tir() -> None:
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[0], factor=tir.const(4, "int32"))
    assert (outer.extent, inner.extent) == (16, 4)
    sch = tir.Schedule(te.create_prim_func([A, B]))
    (loop,) = sch.get_loops("B")
    assert len(sch.split(loop, [None, tir.const(8, "int64")])) == 2


@pytest.mark.parametrize(
    "ask",
    [
        lambda ib: ib.allocate("float32", te.var("n"), name="a"),
        lambda ib: ib.allocate("float32", (4, 0)),
        lambda ib: ib.while_loop(te.const(True)),
        lambda ib: ib.pointer("float32"),
    ],
)
def test_the_builder_refuses_in_words(ask: Any) -> None:
    with pytest.raises(ScheduleError, match="ir_builder: "):
        ask(tir.ir_builder.create())
