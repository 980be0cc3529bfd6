"""Calls: what the machine has becomes an LLVM intrinsic, the transcendental functions come from vector_math."""

from __future__ import annotations

from pegbox.codegen.frame import Frame, Value
from pegbox.codegen.lltypes import register, suffix
from pegbox.codegen.memory import broadcast
from pegbox.codegen.numeric import cast
from pegbox.codegen.vector_math import definition
from pegbox.errors import CompileError

_LLVM = {"sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "round": "roundeven"}
_MATH = ("exp", "log", "tanh", "sigmoid", "erf", "pow", "rsqrt")


def call(frame: Frame, name: str, args: list[Value]) -> Value:
    """An intrinsic of `pegbox.expr.intrinsics` in as many lanes as its widest argument."""
    dtype = args[0].dtype
    if dtype == "bfloat16":
        return cast(frame, call(frame, name, [cast(frame, arg, "float32") for arg in args]), dtype)
    lanes = max(arg.lanes for arg in args)
    texts = [broadcast(frame, arg, lanes) for arg in args]
    ty = register(dtype, lanes)
    if name in _LLVM:
        return Value(_llvm(frame, _LLVM[name], ty, suffix(dtype, lanes), texts[0]), dtype, lanes)
    if name == "abs":
        return Value(_absolute(frame, dtype, ty, lanes, texts[0]), dtype, lanes)
    if name in _MATH:
        return _vector_math(frame, name, dtype, lanes, texts)
    known = ", ".join((*_LLVM, "abs", *_MATH))
    raise CompileError(f"no machine code for the intrinsic {name!r}; known: {known}")


def _vector_math(frame: Frame, name: str, dtype: str, lanes: int, operands: list[str]) -> Value:
    """A function of pegbox.codegen.vector_math, whose one-lane form takes scalars."""
    function, text, declarations = definition(name, dtype, lanes or 1)
    frame.module.define(function, text, declarations)
    scalar, ty = register(dtype, 0), register(dtype, lanes)
    if lanes == 1:
        operands = [frame.op(f"extractelement {ty} {operand}, i64 0") for operand in operands]
    call_ty = scalar if lanes == 1 else ty
    listed = ", ".join(f"{call_ty} {operand}" for operand in operands)
    result = frame.op(f"call {call_ty} @{function}({listed})")
    if lanes == 1:
        result = frame.op(f"insertelement {ty} poison, {scalar} {result}, i64 0")
    return Value(result, dtype, lanes)


def _llvm(frame: Frame, name: str, ty: str, kind: str, operand: str) -> str:
    frame.module.declare(f"declare {ty} @llvm.{name}.{kind}({ty})")
    return frame.op(f"call {ty} @llvm.{name}.{kind}({ty} {operand})")


def _absolute(frame: Frame, dtype: str, ty: str, lanes: int, operand: str) -> str:
    if dtype == "uint8":
        return operand
    if dtype.startswith("float"):
        return _llvm(frame, "fabs", ty, suffix(dtype, lanes), operand)
    name = f"@llvm.abs.{suffix(dtype, lanes)}"
    frame.module.declare(f"declare {ty} {name}({ty}, i1)")
    return frame.op(f"call {ty} {name}({ty} {operand}, i1 false)")
