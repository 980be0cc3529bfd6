"""Element types and constants in LLVM assembly, in registers and in memory.

16-bit floats are represented by integers with the same bits, which every processor can load, select, shuffle and store.
Arithmetic converts them to floats and back (narrow_floats).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from functools import cache

from pegbox.errors import CompileError
from pegbox.expr import dtypes

# bool is a byte in memory (as NumPy stores it) and one bit in a register.
_MEMORY = {
    "float64": "double", "float32": "float", "float16": "i16", "bfloat16": "i16", "bool": "i8",
    **{f"{sign}int{bits}": f"i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip
_REGISTER = {**_MEMORY, "bool": "i1"}
_SUFFIX = {**_REGISTER, "float64": "f64", "float32": "f32"}


def _of_lanes(elements: Mapping[str, str], shape: str) -> Callable[[str, int], str]:
    """Make a function of a dtype and a number of lanes; 0 lanes mean a scalar."""

    @cache
    def text(dtype: str, lanes: int) -> str:
        if dtype not in elements:
            raise CompileError(f"no machine type for dtype {dtype!r}; use one of {', '.join(elements)}")
        return shape.format(lanes, elements[dtype]) if lanes else elements[dtype]

    return text


register = _of_lanes(_REGISTER, "<{} x {}>")
"""Write the type of a value in registers: `<16 x float>`, `i1`."""
memory = _of_lanes(_MEMORY, "<{} x {}>")
"""Write the type of a value in memory."""
computing = _of_lanes({**_REGISTER, "float16": "half", "bfloat16": "bfloat"}, "<{} x {}>")
"""Write the type that arithmetic and LLVM's intrinsics use: `<8 x half>` for the register `<8 x i16>`."""
suffix = _of_lanes(_SUFFIX, "v{}{}")
"""Write a type as it is written in an overloaded intrinsic's name: `v16f32`, `i64`."""
memory_suffix = _of_lanes({**_SUFFIX, "bool": "i8"}, "v{}{}")
computing_suffix = _of_lanes({**_SUFFIX, "float16": "f16", "bfloat16": "bf16"}, "v{}{}")


@cache
def align(dtype: str) -> int:
    """Return the alignment that every access may assume: NumPy guarantees only the element's own."""
    return dtypes.nbytes(dtype)


def constant(value: int | float | bool, dtype: str) -> str:
    """Write a scalar literal."""
    if dtypes.is_float(dtype):
        return _float_constant(float(value), math.copysign(1.0, value), dtype)
    if dtype == "bool":
        return "true" if value else "false"
    return str(int(value))


def literal(value: int, dtype: str, lanes: int) -> str:
    """Write an integer constant for every lane."""
    return f"splat ({register(dtype, 0)} {value})" if lanes else str(value)


@cache
def _float_constant(value: float, sign: float, dtype: str) -> str:
    """Write a float in hexadecimal, so that the bits are exact: LLVM writes it as the double of the same value.

    `sign` tells 0.0 and -0.0 apart, which are equal as keys of the cache.
    """
    if dtype == "float16":
        return str(_bits(value, "e", "H"))
    bits = _bits(value, "f", "I") if dtype != "float64" else 0
    if dtype == "bfloat16":  # the upper half, rounded to nearest, ties to even
        return str((bits >> 16) | 0x40 if value != value else (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)
    if dtype == "float32":
        value = struct.unpack("<f", struct.pack("<I", bits))[0]
    # LLVM reads a float's NaN from the double's high bits, which every quiet NaN keeps.
    return f"0x{_bits(value, 'd', 'Q'):016X}"


def _bits(value: float, kind: str, integer: str) -> int:
    """Return the bit pattern of `value` rounded to a float type; too large values become infinity (IEEE 754)."""
    try:
        packed = struct.pack(f"<{kind}", value)
    except OverflowError:
        packed = struct.pack(f"<{kind}", math.copysign(math.inf, value))
    return int(struct.unpack(f"<{integer}", packed)[0])


@cache
def int_vector(values: tuple[int, ...], bits: int) -> str:
    """Write a constant vector of integers, without its type: `<i32 0, i32 1>`."""
    return "<" + ", ".join(f"i{bits} {value}" for value in values) + ">"
