"""Element types and constants in LLVM assembly, in registers and in memory.

Floats of 16 bits are written as integers of their bits, which every processor can load, choose, shuffle and store.
Those that compute with them see them as floats for just that (narrow_floats).
"""

from __future__ import annotations

import math
import struct
from functools import cache

from pegbox.errors import CompileError
from pegbox.expr import dtypes

# bool is a byte in memory (as NumPy stores it) and one bit in a register.
_MEMORY = {
    "float64": "double", "float32": "float", "float16": "i16", "bfloat16": "i16",
    "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8",
    "uint64": "i64", "uint32": "i32", "uint16": "i16", "uint8": "i8", "bool": "i8",
}  # fmt: skip
_REGISTER = {**_MEMORY, "bool": "i1"}
_SUFFIX = {**_REGISTER, "float64": "f64", "float32": "f32"}
_COMPUTING = {**_REGISTER, "float16": "half", "bfloat16": "bfloat"}
_COMPUTING_SUFFIX = {**_SUFFIX, "float16": "f16", "bfloat16": "bf16"}


@cache
def register(dtype: str, lanes: int) -> str:
    """The type of a value in registers; `lanes` = 0 is a scalar: `<16 x float>`, `i1`."""
    try:
        element = _REGISTER[dtype]
    except KeyError:
        raise CompileError(f"no machine type for dtype {dtype!r}; use one of {', '.join(_REGISTER)}") from None
    return f"<{lanes} x {element}>" if lanes else element


@cache
def memory(dtype: str, lanes: int) -> str:
    """The type of a value in memory."""
    element = _MEMORY[dtype]
    return f"<{lanes} x {element}>" if lanes else element


@cache
def suffix(dtype: str, lanes: int) -> str:
    """The part of an overloaded intrinsic's name that tells its type: `v16f32`, `i64`."""
    element = _SUFFIX[dtype]
    return f"v{lanes}{element}" if lanes else element


@cache
def computing(dtype: str, lanes: int) -> str:
    """The type that arithmetic and LLVM's intrinsics take: `<8 x half>` where `register` says `<8 x i16>`."""
    element = _COMPUTING[dtype]
    return f"<{lanes} x {element}>" if lanes else element


@cache
def computing_suffix(dtype: str, lanes: int) -> str:
    """`suffix` for the type of `computing`: `v8f16`."""
    element = _COMPUTING_SUFFIX[dtype]
    return f"v{lanes}{element}" if lanes else element


@cache
def memory_suffix(dtype: str, lanes: int) -> str:
    return suffix("uint8" if dtype == "bool" else dtype, lanes)


@cache
def align(dtype: str) -> int:
    """The alignment that every access may assume: NumPy promises no more than the element's own."""
    return dtypes.nbytes(dtype)


def constant(value: int | float | bool, dtype: str) -> str:
    """A scalar literal."""
    if dtypes.is_float(dtype):
        return _float_constant(float(value), math.copysign(1.0, value), dtype)
    if dtype == "bool":
        return "true" if value else "false"
    return str(int(value))


def literal(value: int, dtype: str, lanes: int) -> str:
    """A whole number in every lane."""
    return f"splat ({register(dtype, 0)} {value})" if lanes else str(value)


@cache
def _float_constant(value: float, sign: float, dtype: str) -> str:
    """Hexadecimal, so that the bits are exact: LLVM writes a float as the double of the same value.

    `sign` tells 0.0 from -0.0, which the cache would take for the same.
    """
    if dtype == "float16":
        return str(_bits(value, "e", "H"))
    if dtype == "bfloat16":
        return str(_bfloat_bits(value))
    if dtype == "float32":
        value = struct.unpack("<f", struct.pack("<I", _bits(value, "f", "I")))[0]
    # LLVM reads a float's NaN from the double's high bits, which every quiet NaN keeps.
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _bits(value: float, kind: str, integer: str) -> int:
    """The bit pattern of `value` rounded to a narrower float; too large becomes infinity as in IEEE 754."""
    try:
        packed = struct.pack(f"<{kind}", value)
    except OverflowError:
        packed = struct.pack(f"<{kind}", float("inf") if value > 0 else float("-inf"))
    return int(struct.unpack(f"<{integer}", packed)[0])


def _bfloat_bits(value: float) -> int:
    """The upper half of the float32, rounded to the nearest, ties to even."""
    bits = _bits(value, "f", "I")
    return (bits >> 16) | 0x40 if value != value else (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16


@cache
def int_vector(values: tuple[int, ...], bits: int) -> str:
    """A constant vector of integers, without its type: `<i32 0, i32 1>`."""
    return "<" + ", ".join(f"i{bits} {value}" for value in values) + ">"
