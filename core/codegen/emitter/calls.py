"""Emission of calls: math functions, C functions, LLVM intrinsics, prefetches."""

from __future__ import annotations

from pegbox.codegen.emitter import arithmetic, gates, narrow_floats
from pegbox.codegen.emitter.frame import Frame, Value
from pegbox.codegen.emitter.lltypes import computing, computing_suffix, register, suffix
from pegbox.codegen.emitter.memory import broadcast
from pegbox.codegen.targets import features
from pegbox.codegen.targets.target import Target
from pegbox.codegen.vector_math import OF_FLOAT32, MathFunction, definition
from pegbox.errors import CompileError
from pegbox.expr import dtypes
from pegbox.expr.low_level import EXTERN, PREFETCH, Address
from pegbox.expr.nodes import Call
from pegbox.expr.visit import walk

_LLVM = {name: name for name in ("sqrt", "floor", "ceil", "trunc", "copysign")} | {"round": "roundeven"}
_BITS = {"popcount": "ctpop", "clz": "ctlz"}
_BITWISE = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}
_SHIFTS = ("shift_left", "shift_right")
_LIBRARY = (
    "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "asinh", "acosh", "atanh", "exp10",
    "log2", "log10", "log1p", "fmod", "hypot",
)  # fmt: skip
LIBRARY_SYMBOLS = frozenset(name + ending for name in _LIBRARY for ending in ("", "f"))
"""The functions of C's mathematical library that kernels may call."""
_MATH = ("exp", "exp2", "log", "tanh", "sigmoid", "erf", "pow", "rsqrt")


def math_call(frame: Frame, name: str, args: list[Value]) -> Value:
    """Call an intrinsic of `pegbox.expr.intrinsics` in as many lanes as its widest argument has.

    The call becomes a function of vector_math if there is one for the type, an instruction, or a call of the C library
    for each lane.
    """
    dtype = args[0].dtype
    lanes = max(arg.lanes for arg in args)
    emulated = narrow_floats.is_emulated(frame, dtype) or (dtype == "float16" and name in (*_MATH, *_LIBRARY))
    if emulated and name != "abs":
        wide = math_call(frame, name, [arithmetic.cast(frame, arg, "float32") for arg in args])
        return arithmetic.cast(frame, wide, dtype)
    texts = [broadcast(frame, arg, lanes) for arg in args]
    if name == "abs":
        result = _absolute(frame, dtype, lanes, texts[0])
    elif name == "nonpositive":
        result = texts[0]
    elif name in _BITS:
        ty, flags = register(dtype, lanes), [("i1", "false")] if name == "clz" else []
        result = frame.op(frame.module.call(f"@llvm.{_BITS[name]}.{suffix(dtype, lanes)}", ty, (ty, texts[0]), *flags))
    elif name in _BITWISE:
        result = frame.op(f"{_BITWISE[name]} {register(dtype, lanes)} {texts[0]}, {texts[1]}")
    elif name in _SHIFTS:
        result = _shifted(frame, name, dtype, lanes, *texts)
    elif name in _LLVM:
        result = _llvm_of_floats(frame, _LLVM[name], dtype, lanes, *texts)
    elif name in _MATH or name in gates.NAMES or (name in OF_FLOAT32 and dtype == "float32"):
        result = frame.inlined(_function(frame, name, dtype, lanes), texts, lanes)
    elif name in _LIBRARY:
        result = _library(frame, name, dtype, lanes, texts)
    else:
        known = ", ".join((*_LLVM, "abs", "nonpositive", *_MATH, *_LIBRARY, *_BITS, *_BITWISE, *_SHIFTS))
        raise CompileError(f"no machine code for the intrinsic {name!r}; known: {known}")
    return Value(result, dtype, lanes)


def math_calls(frame: Frame, name: str, calls: list[list[Value]]) -> None:
    """Interleave several calls of a function, if it is in vector_math and the arguments are vectors.

    `math_call` finds the results.
    """
    dtype, lanes = calls[0][0].dtype, max(arg.lanes for arg in calls[0])
    if (name in _MATH or name in gates.NAMES) and dtype in ("float32", "float64") and lanes > 1:
        texts = [[broadcast(frame, arg, lanes) for arg in args] for args in calls]
        frame.inline_in_turns(_function(frame, name, dtype, lanes), texts, lanes)


def _function(frame: Frame, name: str, dtype: str, lanes: int) -> MathFunction:
    return definition(name, dtype, lanes or 1, register_lanes=_register_lanes(frame.module.target))


def _register_lanes(target: Target) -> int:
    """Return the number of float32s that a permutation picks from, or 0 for a target without fused multiply-add."""
    if not features.has(target, "fma"):
        return 0
    if all(features.has(target, name) for name in ("avx512f", "avx512dq")):
        return 16
    return 8 if features.has(target, "avx2") else 0


def _shifted(frame: Frame, name: str, dtype: str, lanes: int, number: str, count: str) -> str:
    """Shift by a count that may reach or exceed the width of the type, for which LLVM defines no result."""
    ty, width = register(dtype, lanes), dtypes.BITS[dtype]
    last, none = (broadcast(frame, Value(str(n), dtype, 0), lanes) for n in (width - 1, 0))
    fits = frame.op(f"icmp ule {ty} {count}, {last}")
    test = register("bool", lanes)
    within = frame.op(f"select {test} {fits}, {ty} {count}, {ty} {last}")
    if name == "shift_right" and not dtypes.is_unsigned(dtype):
        return frame.op(f"ashr {ty} {number}, {within}")
    moved = frame.op(f"{'shl' if name == 'shift_left' else 'lshr'} {ty} {number}, {within}")
    return frame.op(f"select {test} {fits}, {ty} {moved}, {ty} {none}")


def _llvm_of_floats(frame: Frame, name: str, dtype: str, lanes: int, *operands: str) -> str:
    ty, intrinsic = computing(dtype, lanes), f"@llvm.{name}.{computing_suffix(dtype, lanes)}"
    numbers = [(ty, narrow_floats.as_float(frame, operand, dtype, lanes)) for operand in operands]
    result = frame.op(frame.module.call(intrinsic, ty, *numbers))
    return narrow_floats.as_register(frame, result, dtype, lanes)


def _library(frame: Frame, name: str, dtype: str, lanes: int, operands: list[str]) -> str:
    """Call a function of C's library on float32 or float64 for each lane."""
    ty, symbol = register(dtype, 0), f"@{name}{'f' if dtype == 'float32' else ''}"
    if not lanes:
        return frame.op(frame.module.call(symbol, ty, *((ty, operand) for operand in operands)))
    vector, result = register(dtype, lanes), "poison"
    for lane in range(lanes):
        numbers = [(ty, frame.op(f"extractelement {vector} {operand}, i64 {lane}")) for operand in operands]
        number = frame.op(frame.module.call(symbol, ty, *numbers))
        result = frame.op(f"insertelement {vector} {result}, {ty} {number}, i64 {lane}")
    return result


def _absolute(frame: Frame, dtype: str, lanes: int, operand: str) -> str:
    if dtypes.is_unsigned(dtype):
        return operand
    if dtype in narrow_floats.NARROW:
        return narrow_floats.absolute(frame, operand, dtype, lanes)
    if dtypes.is_float(dtype):
        return _llvm_of_floats(frame, "fabs", dtype, lanes, operand)
    ty, name = register(dtype, lanes), f"@llvm.abs.{suffix(dtype, lanes)}"
    return frame.op(frame.module.call(name, ty, (ty, operand), ("i1", "false")))


def machine_call(frame: Frame, expr: Call, args: list[Value]) -> Value:
    """Write a call in the body of a tensor intrinsic; a prefetch has no meaningful value.

    Raises:
        TargetError: the target lacks the instruction.
        CompileError: one C function is called with different arguments.
    """
    if expr.name == PREFETCH:
        kind = [arg.text for arg in args[1:]] or ["0", "3"]  # for reading, into the closest cache
        numbers = [("i32", text) for text in (*kind, "1")]
        frame.text.effect(frame.module.call("@llvm.prefetch.p0", "void", ("ptr", args[0].text), *numbers))
        return Value("0", "int32", 0)
    if expr.name.startswith(EXTERN):
        return _extern(frame, expr, args)
    features.check_intrinsic(expr.name, frame.module.target)
    dtype, lanes = dtypes.element(expr.dtype), dtypes.lanes(expr.dtype)
    typed = [
        ("ptr", arg.text)
        if arg.dtype == dtypes.HANDLE
        else (computing(arg.dtype, arg.lanes), narrow_floats.as_float(frame, arg.text, arg.dtype, arg.lanes))
        for arg in args
    ]
    text = frame.module.call(f"@{expr.name}", computing(dtype, lanes), *typed)
    if any(isinstance(node, Address) for node in walk(expr)):
        found = frame.text.fresh("x")
        frame.text.effect(f"{found} = {text}")
        frame.scope.memory.clear()
    else:
        found = frame.op(text)
    return Value(narrow_floats.as_register(frame, found, dtype, lanes), dtype, lanes)


def _extern(frame: Frame, expr: Call, args: list[Value]) -> Value:
    """Call a C function. Integers are passed as 64 bits, which also suits functions that take `int`."""
    name = expr.name.removeprefix(EXTERN)
    typed = [_argument(frame, name, arg) for arg in args]
    result = _plain(name, expr.dtype)
    frame.module.extern(name, f"declare {result} @{name}({', '.join(ty for ty, _ in typed)})")
    found = frame.text.fresh("x")
    frame.text.effect(f"{found} = call {result} @{name}({', '.join(f'{ty} {text}' for ty, text in typed)})")
    frame.scope.memory.clear()
    return Value(found, expr.dtype, 0)


def _argument(frame: Frame, name: str, value: Value) -> tuple[str, str]:
    if value.dtype == dtypes.HANDLE:
        return "ptr", value.text
    if dtypes.is_int(value.dtype) and not value.lanes:
        value = arithmetic.cast(frame, value, "int64")
    if value.lanes:
        raise CompileError(f"call_extern({name!r}): a C function takes no vectors; pass an access_ptr")
    return _plain(name, value.dtype), value.text


def _plain(name: str, dtype: str) -> str:
    if dtype in ("float16", "bfloat16", "bool") or dtypes.lanes(dtype):
        raise CompileError(f"call_extern({name!r}): a C function neither takes nor returns {dtype}; convert it")
    return register(dtype, 0)
