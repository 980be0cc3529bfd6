"""Floats of 16 bits: conversions that every processor can do, without calls of a runtime library.

bfloat16 is computed in float32 and rounded after each operation, as on processors that have no arithmetic for it. The
rounding is done with integers: to the nearest, ties to even, NaN stays NaN (made quiet).

A float64 becomes a float16 through a float32 that is rounded to odd, which makes the second rounding the only one that
counts (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", IEEE Transactions on Computers 57, 2008).
"""

from __future__ import annotations

from pegbox.codegen.frame import Frame
from pegbox.codegen.lltypes import register


def _literal(value: int, element: str, lanes: int) -> str:
    return f"splat ({element} {value})" if lanes else str(value)


def _integer(bits: int, lanes: int) -> str:
    return f"<{lanes} x i{bits}>" if lanes else f"i{bits}"


def bfloat16_to_float32(frame: Frame, text: str, lanes: int) -> str:
    """The same bits with sixteen zeros behind them."""
    narrow, wide = _integer(16, lanes), _integer(32, lanes)
    bits = frame.op(f"bitcast {register('bfloat16', lanes)} {text} to {narrow}")
    shifted = frame.op(f"shl {wide} {frame.op(f'zext {narrow} {bits} to {wide}')}, {_literal(16, 'i32', lanes)}")
    return frame.op(f"bitcast {wide} {shifted} to {register('float32', lanes)}")


def float32_to_bfloat16(frame: Frame, text: str, lanes: int) -> str:
    """Rounded to the nearest, ties to even."""
    narrow, wide, floats = _integer(16, lanes), _integer(32, lanes), register("float32", lanes)
    bits = frame.op(f"bitcast {floats} {text} to {wide}")
    high = frame.op(f"lshr {wide} {bits}, {_literal(16, 'i32', lanes)}")
    odd = frame.op(f"and {wide} {high}, {_literal(1, 'i32', lanes)}")
    bias = frame.op(f"add {wide} {odd}, {_literal(0x7FFF, 'i32', lanes)}")
    rounded = frame.op(f"lshr {wide} {frame.op(f'add {wide} {bits}, {bias}')}, {_literal(16, 'i32', lanes)}")
    quiet = frame.op(f"or {wide} {high}, {_literal(0x40, 'i32', lanes)}")
    is_nan = frame.op(f"fcmp uno {floats} {text}, {text}")
    chosen = frame.op(f"select {register('bool', lanes)} {is_nan}, {wide} {quiet}, {wide} {rounded}")
    half = frame.op(f"trunc {wide} {chosen} to {narrow}")
    return frame.op(f"bitcast {narrow} {half} to {register('bfloat16', lanes)}")


def float64_to_float16(frame: Frame, text: str, lanes: int) -> str:
    """Rounded once; LLVM would call a function that not every system has."""
    doubles, floats = register("float64", lanes), register("float32", lanes)
    wide, i1 = _integer(32, lanes), register("bool", lanes)
    near = frame.op(f"fptrunc {doubles} {text} to {floats}")
    back = frame.op(f"fpext {floats} {near} to {doubles}")
    inexact = frame.op(f"fcmp one {doubles} {back}, {text}")
    further = frame.op(f"fcmp ogt {doubles} {_magnitude(frame, back, lanes)}, {_magnitude(frame, text, lanes)}")
    bits = frame.op(f"bitcast {floats} {near} to {wide}")
    towards_zero = frame.op(f"sub {wide} {bits}, {frame.op(f'zext {i1} {further} to {wide}')}")
    odd = frame.op(f"or {wide} {towards_zero}, {_literal(1, 'i32', lanes)}")
    chosen = frame.op(f"select {i1} {inexact}, {wide} {odd}, {wide} {bits}")
    exact = frame.op(f"bitcast {wide} {chosen} to {floats}")
    return frame.op(f"fptrunc {floats} {exact} to {register('float16', lanes)}")


def _magnitude(frame: Frame, text: str, lanes: int) -> str:
    ty, kind = register("float64", lanes), f"v{lanes}f64" if lanes else "f64"
    frame.module.declare(f"declare {ty} @llvm.fabs.{kind}({ty})")
    return frame.op(f"call {ty} @llvm.fabs.{kind}({ty} {text})")
