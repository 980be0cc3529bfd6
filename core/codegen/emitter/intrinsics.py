"""Math calls: LLVM intrinsics for sqrt, floor, ceil, round and abs, functions of vector_math for the others."""

from __future__ import annotations

from pegbox.codegen.emitter import inline_call, narrow_floats
from pegbox.codegen.emitter.frame import Frame, Value
from pegbox.codegen.emitter.lltypes import computing, computing_suffix, register, suffix
from pegbox.codegen.emitter.memory import broadcast
from pegbox.codegen.emitter.numeric import cast
from pegbox.codegen.vector_math import definition
from pegbox.errors import CompileError
from pegbox.expr import dtypes

_LLVM = {"sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "round": "roundeven"}
_MATH = ("exp", "log", "tanh", "sigmoid", "erf", "pow", "rsqrt")


def call(frame: Frame, name: str, args: list[Value]) -> Value:
    """An intrinsic of `pegbox.expr.intrinsics` in as many lanes as its widest argument."""
    dtype = args[0].dtype
    lanes = max(arg.lanes for arg in args)
    if name == "abs":
        return Value(_absolute(frame, dtype, lanes, broadcast(frame, args[0], lanes)), dtype, lanes)
    if narrow_floats.is_emulated(frame, dtype) or (dtype == "float16" and name in _MATH):
        return cast(frame, call(frame, name, [cast(frame, arg, "float32") for arg in args]), dtype)
    texts = [broadcast(frame, arg, lanes) for arg in args]
    if name in _LLVM:
        return Value(_llvm(frame, _LLVM[name], dtype, lanes, texts[0]), dtype, lanes)
    if name in _MATH:
        return Value(inline_call.call(frame, definition(name, dtype, lanes or 1), texts, lanes), dtype, lanes)
    known = ", ".join((*_LLVM, "abs", *_MATH))
    raise CompileError(f"no machine code for the intrinsic {name!r}; known: {known}")


def _llvm(frame: Frame, name: str, dtype: str, lanes: int, operand: str) -> str:
    """An intrinsic of floats."""
    ty, intrinsic = computing(dtype, lanes), f"@llvm.{name}.{computing_suffix(dtype, lanes)}"
    number = narrow_floats.as_float(frame, operand, dtype, lanes)
    result = frame.op(frame.module.call(intrinsic, ty, (ty, number)))
    return narrow_floats.as_register(frame, result, dtype, lanes)


def _absolute(frame: Frame, dtype: str, lanes: int, operand: str) -> str:
    if dtype == "uint8":
        return operand
    if dtype in narrow_floats.NARROW:
        return narrow_floats.absolute(frame, operand, dtype, lanes)
    if dtypes.is_float(dtype):
        return _llvm(frame, "fabs", dtype, lanes, operand)
    ty, name = register(dtype, lanes), f"@llvm.abs.{suffix(dtype, lanes)}"
    return frame.op(frame.module.call(name, ty, (ty, operand), ("i1", "false")))
