"""tvm.te: names beyond pegbox's, and what is refused with the way that there is."""

from __future__ import annotations

import operator as op
from typing import Any

import pytest

from pegbox.errors import ComputeError, ScheduleError
from pegbox.plugins import tvm
from pegbox.plugins.tvm import te, tir
from pegbox.plugins.tvm.notice import MeaninglessOption


@pytest.mark.parametrize(
    ("use", "way"),
    [
        (lambda a: te.scan(a, a, a, name="sums"), r"te.scan \(sums\).*tir.ir_builder in te.extern"),
        (lambda a: te.extern_primfunc([a], te.create_prim_func([a, copied(a)])), "tir.Schedule"),
        (lambda a: te.gradient(a, [a]), "write the gradient with te.compute"),
        (lambda a: te.trace([a[0]]), "make the stage an output"),
        (lambda a: te.hybrid.script(lambda x: x), "te.hybrid.script.*T.prim_func"),
    ],
)
def test_what_is_not_here_is_refused_with_the_way(use: Any, way: str) -> None:
    with pytest.raises(ComputeError, match=way):
        use(te.placeholder((4,), name="A"))


def copied(a: te.Tensor) -> te.Tensor:
    return te.compute(a.shape, lambda *i: a(*i), name="B")


def test_programs_of_one_tensor_and_of_several() -> None:
    a = te.placeholder((4,), name="A")
    zeros = te.compute((4,), lambda i: 0.0, name="B")
    assert [p.name for p in te.create_prim_func([a, copied(a)]).params] == ["A", "B"]
    assert [p.name for p in te.create_prim_func(zeros).params] == ["B"]


def test_conditions_on_sizes_change_nothing() -> None:
    n = te.var("n")
    with pytest.warns(MeaninglessOption, match="SpecializedCondition"), te.SpecializedCondition([n > 16]) as condition:
        assert len(condition.clauses) == 1
    assert te.SpecializedCondition.current() is None


def test_functions_of_the_c_library_by_name_are_those_of_te() -> None:
    a = te.placeholder((4,), name="A")
    assert str(tvm.tir.call_pure_extern("float32", "expf", a[0])) == str(te.exp(a[0]))
    assert str(tvm.tir.call_pure_extern("float32", "__expf", a[0])) == str(te.exp(a[0]))
    assert str(tvm.tir.call_pure_extern("float64", "pow", a[0], 2.0)) == str(te.pow(te.cast("float64", a[0]), 2.0))
    assert "mine" in str(tvm.tir.call_pure_extern("float32", "mine", a[0]))


@pytest.mark.parametrize(
    ("reduce", "remedy"),
    [
        (te.sum, r"B\[i\] \+ 10.0"),
        (te.max, r"te.maximum\(B\[i\], 10.0\)"),
        (te.min, r"te.minimum\(B\[i\], 10.0\)"),
        (te.comm_reducer(lambda a, b: a + b, lambda t: te.const(0, t), "plus"), r"plus\(B\[i\], 10.0\)"),
    ],
)
def test_a_start_of_a_reduction_is_refused_with_the_way_there_is(reduce: Any, remedy: str) -> None:
    A, k = te.placeholder((8,), name="A"), te.reduce_axis((0, 8), name="k")
    with pytest.raises(ComputeError, match=remedy):
        reduce(A[k], axis=k, init=10.0)
    assert te.compute((1,), lambda i: reduce(A[k], axis=k, where=k > 2)).shape == (1,)


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
