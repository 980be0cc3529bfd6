"""Math calls: functions of vector_math where there is one, instructions, and the C library's functions lane by lane."""

from __future__ import annotations

from pegbox.codegen.emitter import inline_call, narrow_floats
from pegbox.codegen.emitter.frame import Frame, Value
from pegbox.codegen.emitter.lltypes import computing, computing_suffix, register, suffix
from pegbox.codegen.emitter.memory import broadcast
from pegbox.codegen.emitter.numeric import cast
from pegbox.codegen.vector_math import definition
from pegbox.errors import CompileError
from pegbox.expr import dtypes

_LLVM = {
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "round": "roundeven",
    "trunc": "trunc",
    "copysign": "copysign",
}
_BITS = {"popcount": "ctpop", "clz": "ctlz"}
_LIBRARY = (
    "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "asinh", "acosh", "atanh", "exp2", "exp10",
    "log2", "log10", "log1p", "fmod", "hypot",
)  # fmt: skip
LIBRARY_SYMBOLS = frozenset(name + ending for name in _LIBRARY for ending in ("", "f"))
"""Functions of C's mathematical library that kernels may call."""
_MATH = ("exp", "log", "tanh", "sigmoid", "erf", "pow", "rsqrt")


def call(frame: Frame, name: str, args: list[Value]) -> Value:
    """An intrinsic of `pegbox.expr.intrinsics` in as many lanes as its widest argument."""
    dtype = args[0].dtype
    lanes = max(arg.lanes for arg in args)
    if name == "abs":
        return Value(_absolute(frame, dtype, lanes, broadcast(frame, args[0], lanes)), dtype, lanes)
    if name in _BITS:
        return Value(_bits(frame, _BITS[name], dtype, lanes, broadcast(frame, args[0], lanes)), dtype, lanes)
    if narrow_floats.is_emulated(frame, dtype) or (dtype == "float16" and name in (*_MATH, *_LIBRARY)):
        return cast(frame, call(frame, name, [cast(frame, arg, "float32") for arg in args]), dtype)
    texts = [broadcast(frame, arg, lanes) for arg in args]
    if name in _LLVM:
        return Value(_llvm(frame, _LLVM[name], dtype, lanes, *texts), dtype, lanes)
    if name in _MATH:
        return Value(inline_call.call(frame, definition(name, dtype, lanes or 1), texts, lanes), dtype, lanes)
    if name in _LIBRARY:
        return Value(_library(frame, name, dtype, lanes, texts), dtype, lanes)
    known = ", ".join((*_LLVM, "abs", *_MATH, *_LIBRARY, *_BITS))
    raise CompileError(f"no machine code for the intrinsic {name!r}; known: {known}")


def _llvm(frame: Frame, name: str, dtype: str, lanes: int, *operands: str) -> str:
    """An intrinsic of floats."""
    ty, intrinsic = computing(dtype, lanes), f"@llvm.{name}.{computing_suffix(dtype, lanes)}"
    numbers = [(ty, narrow_floats.as_float(frame, operand, dtype, lanes)) for operand in operands]
    result = frame.op(frame.module.call(intrinsic, ty, *numbers))
    return narrow_floats.as_register(frame, result, dtype, lanes)


def _library(frame: Frame, name: str, dtype: str, lanes: int, operands: list[str]) -> str:
    """A function of C's library on float32 or float64, called for each lane."""
    ty, symbol = register(dtype, 0), f"@{name}{'f' if dtype == 'float32' else ''}"
    if not lanes:
        return frame.op(frame.module.call(symbol, ty, *((ty, operand) for operand in operands)))
    vector, result = register(dtype, lanes), "poison"
    for lane in range(lanes):
        numbers = [(ty, frame.op(f"extractelement {vector} {operand}, i64 {lane}")) for operand in operands]
        number = frame.op(frame.module.call(symbol, ty, *numbers))
        result = frame.op(f"insertelement {vector} {result}, {ty} {number}, i64 {lane}")
    return result


def _bits(frame: Frame, name: str, dtype: str, lanes: int, operand: str) -> str:
    ty = register(dtype, lanes)
    flags = [("i1", "false")] if name == "ctlz" else []
    return frame.op(frame.module.call(f"@llvm.{name}.{suffix(dtype, lanes)}", ty, (ty, operand), *flags))


def _absolute(frame: Frame, dtype: str, lanes: int, operand: str) -> str:
    if dtypes.is_unsigned(dtype):
        return operand
    if dtype in narrow_floats.NARROW:
        return narrow_floats.absolute(frame, operand, dtype, lanes)
    if dtypes.is_float(dtype):
        return _llvm(frame, "fabs", dtype, lanes, operand)
    ty, name = register(dtype, lanes), f"@llvm.abs.{suffix(dtype, lanes)}"
    return frame.op(frame.module.call(name, ty, (ty, operand), ("i1", "false")))
