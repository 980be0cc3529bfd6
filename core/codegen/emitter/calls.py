"""Emission of calls in the bodies of tensor intrinsics: C functions, LLVM intrinsics, prefetches."""

from __future__ import annotations

from pegbox.codegen.emitter import narrow_floats, numeric
from pegbox.codegen.emitter.frame import Frame, Value
from pegbox.codegen.emitter.lltypes import computing, register
from pegbox.codegen.targets import features
from pegbox.errors import CompileError
from pegbox.expr import dtypes
from pegbox.expr.low_level import EXTERN, PREFETCH, Address
from pegbox.expr.nodes import Call
from pegbox.expr.visit import walk


def call(frame: Frame, expr: Call, args: list[Value]) -> Value:
    """The value of a call; of a prefetch, nothing that could be used.

    Raises:
        TargetError: the target lacks the instruction.
        CompileError: one C function is called with different arguments.
    """
    if expr.name == PREFETCH:
        return _prefetch(frame, args)
    if expr.name.startswith(EXTERN):
        return _extern(frame, expr, args)
    return _llvm(frame, expr, args)


def _prefetch(frame: Frame, args: list[Value]) -> Value:
    """Into the closest cache, for reading."""
    closest = ("i32", "0"), ("i32", "3"), ("i32", "1")
    frame.text.effect(frame.module.call("@llvm.prefetch.p0", "void", ("ptr", args[0].text), *closest))
    return Value("0", "int32", 0)


def _extern(frame: Frame, expr: Call, args: list[Value]) -> Value:
    """A C function. Whole numbers go as 64 bits, which functions that take `int` read as well."""
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
        value = numeric.cast(frame, value, "int64")
    if value.lanes:
        raise CompileError(f"call_extern({name!r}): vectors are no arguments of C functions; pass an access_ptr")
    return _plain(name, value.dtype), value.text


def _plain(name: str, dtype: str) -> str:
    if dtype in ("float16", "bfloat16", "bool") or dtypes.lanes(dtype):
        raise CompileError(f"call_extern({name!r}): {dtype} does not go to or come from C functions; convert it")
    return register(dtype, 0)


def _llvm(frame: Frame, expr: Call, args: list[Value]) -> Value:
    features.check_intrinsic(expr.name, frame.module.target)
    dtype, lanes = dtypes.element(expr.dtype), dtypes.lanes(expr.dtype)
    typed = [_operand(frame, arg) for arg in args]
    text = frame.module.call(f"@{expr.name}", computing(dtype, lanes), *typed)
    if any(isinstance(node, Address) for node in walk(expr)):
        found = frame.text.fresh("x")
        frame.text.effect(f"{found} = {text}")
        frame.scope.memory.clear()
    else:
        found = frame.op(text)
    return Value(narrow_floats.as_register(frame, found, dtype, lanes), dtype, lanes)


def _operand(frame: Frame, arg: Value) -> tuple[str, str]:
    if arg.dtype == dtypes.HANDLE:
        return "ptr", arg.text
    return computing(arg.dtype, arg.lanes), narrow_floats.as_float(frame, arg.text, arg.dtype, arg.lanes)
