"""`tvm.lower`, `tvm.build`, modules and `PassContext`."""

from __future__ import annotations

import numpy as np
import pytest

import pegbox
from pegbox.errors import ArgumentError, TargetError
from pegbox.plugins import tvm
from pegbox.plugins.tvm import te, tir
from pegbox.plugins.tvm.script import tir as T
from pegbox.tir import PrimFunc


@tvm.script.ir_module
class AddOne:
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] + T.float32(1)


def doubling() -> tuple[te.TESchedule, list[te.Tensor]]:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] * 2.0, name="B")
    return te.create_schedule(B.op), [A, B]


def test_a_schedule_is_lowered_to_a_module() -> None:
    schedule, args = doubling()
    mod = tvm.lower(schedule, args, simple_mode=True)
    assert isinstance(mod, tvm.IRModule)
    assert isinstance(mod["main"], tir.PrimFunc)
    assert "for i in range(8):" in mod.script()
    assert list(tvm.lower(schedule, args, name="twice")) == ["twice"]
    assert mod["main"] == pegbox.lower(schedule, args)


def test_functions_and_modules_are_lowered_too() -> None:
    schedule, args = doubling()
    func = te.create_prim_func(args)
    assert tvm.lower(func)["main"] == tvm.lower(tvm.IRModule.from_expr(func))["main"] == pegbox.lower(func)
    assert str(tvm.lower(func)["main"]) == str(tvm.lower(schedule, args)["main"])
    assert tvm.lower(AddOne)["main"] == pegbox.lower(AddOne["main"])


@pytest.mark.parametrize("target", ["llvm", "llvm -num-cores 1", tvm.target.Target("llvm"), None])
def test_what_is_built_computes(target: str | tvm.target.Target | None) -> None:
    schedule, args = doubling()
    a, b = tvm.nd.array(np.arange(8, dtype="float32")), tvm.nd.empty((8,))
    module = tvm.build(schedule, args, target)
    assert module.entry_name == "default_function"
    module(a, b)
    tvm.testing.assert_allclose(b.numpy(), 2 * a.numpy())
    tvm.build(AddOne, target=target)(a, b)
    tvm.testing.assert_allclose(b.numpy(), a.numpy() + 1)
    twice = tvm.build(tvm.lower(schedule, args, name="twice"), target=target)
    twice["twice"](a, b)
    tvm.testing.assert_allclose(b.numpy(), 2 * a.numpy())


def test_a_function_keeps_its_name() -> None:
    func = te.create_prim_func(doubling()[1]).with_attr("global_symbol", "twice")
    assert tvm.build(func, target="llvm").entry_name == "twice"
    assert tvm.build(tvm.IRModule({"other": func})).entry_name == "other"


def test_what_cannot_be_built_is_refused() -> None:
    schedule, args = doubling()
    with pytest.raises(TargetError, match="for CPUs only"):
        tvm.build(schedule, args, "cuda")
    with pytest.raises(ArgumentError, match="a tensor has the buffer"):
        tvm.lower(schedule, args, binds={args[0]: None})
    with pytest.raises(tvm.TVMError, match="the output B is missing"):
        tvm.build(schedule, args[:1])


def test_attributes_are_put_on_functions() -> None:
    func = AddOne["main"]
    named = func.with_attr("global_symbol", "add_one").with_attr({"tir.noalias": True, "x": 1})
    assert isinstance(named, PrimFunc)
    assert (named.name, named.attrs["x"]) == ("add_one", 1)
    assert "x" not in named.without_attr("x").attrs
    assert func.name == "main"
    assert list(tvm.IRModule.from_expr(named)) == ["add_one"]
    assert tvm.IRModule.from_expr(named).functions_items() == [("add_one", named)]


def test_a_context_of_lowering_has_no_options() -> None:
    with tvm.transform.PassContext(opt_level=3):
        assert "for i in range(8):" in tvm.lower(*doubling()).script()
    with pytest.raises(ArgumentError, match=r"PassContext\(config=.*lowering is always the same; leave it out"):
        tvm.transform.PassContext(config={"tir.add_lower_pass": [(1, lambda func: func)]})
