"""tvm.te: names beyond pegbox's, and what is refused with the way that there is."""

from __future__ import annotations

from typing import Any

import pytest

from pegbox.errors import ComputeError
from pegbox.plugins import tvm
from pegbox.plugins.tvm import te
from pegbox.plugins.tvm.notice import MeaninglessOption


@pytest.mark.parametrize(
    ("use", "way"),
    [
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
