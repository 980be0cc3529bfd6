"""Element types, and the type of an operation on two of them."""

from __future__ import annotations

import operator
from typing import Any, Final

from pegbox.errors import ExprError
from pegbox.shown import value_text

BITS: Final[dict[str, int]] = {
    "float64": 64, "float32": 32, "float16": 16, "bfloat16": 16,
    "int64": 64, "int32": 32, "int16": 16, "int8": 8,
    "uint64": 64, "uint32": 32, "uint16": 16, "uint8": 8, "bool": 1,
}  # fmt: skip

INDEX: Final = "int64"  # loop variables and subscripts; wide enough that no address arithmetic overflows
HANDLE: Final = "handle"  # a pointer, only for arguments of calls


def check(dtype: str) -> str:
    """Return `dtype` if pegbox knows it.

    Raises:
        ExprError: the name is not an element type.
    """
    if not isinstance(dtype, str) or dtype not in BITS:
        raise ExprError(f"unknown dtype {value_text(dtype)}; use one of {', '.join(BITS)}")
    if dtype == "bfloat16":
        numpy_dtype(dtype)  # from here on, np.dtype("bfloat16") works everywhere in this process
    return dtype


# The distance from 1 to the next number.
EPSILON: Final[dict[str, float]] = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}

# The lowest and the highest exponent of a power of two that is a normal number.
EXPONENTS: Final[dict[str, tuple[int, int]]] = {
    "float64": (-1022, 1023), "float32": (-126, 127), "float16": (-14, 15), "bfloat16": (-126, 127),
}  # fmt: skip


def numpy_dtype(dtype: str) -> Any:
    """Return the `numpy.dtype` of an element type; that of bfloat16 is in the package ml_dtypes, loaded when needed."""
    import numpy

    if dtype == "bfloat16":
        import ml_dtypes  # noqa: F401  (gives NumPy the name)
    return numpy.dtype(dtype)


def is_float(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


def is_int(dtype: str) -> bool:
    return dtype.startswith(("int", "uint"))


def is_unsigned(dtype: str) -> bool:
    """Check if a type is unsigned, or bool."""
    return dtype.startswith(("uint", "bool"))


def element(dtype: str) -> str:
    """Return the type of one lane: "float32" of "float32x16"."""
    return dtype.partition("x")[0]


def lanes(dtype: str) -> int:
    """Return the lanes of a vector type, 16 of "float32x16"; 0 for a scalar."""
    number = dtype.partition("x")[2]
    return int(number) if number.isdecimal() else 0


def is_vector(dtype: str) -> bool:
    """Check if a name is a vector type."""
    return element(dtype) in BITS and lanes(dtype) > 0


def vector(dtype: str, count: int) -> str:
    """Return the type of `count` elements as one value."""
    return f"{dtype}x{count}"


def check_value(dtype: str) -> str:
    """Return `dtype` if it is an element type or a vector of one.

    Raises:
        ExprError: it is neither.
    """
    check(element(dtype) if isinstance(dtype, str) else dtype)
    if "x" in dtype and not lanes(dtype):
        raise ExprError(f"unknown dtype {dtype!r}; a vector is written as float32x16")
    return dtype


def total_bits(dtype: str) -> int:
    """Return the number of bits of a whole value."""
    return BITS[element(dtype)] * max(lanes(dtype), 1)


def integer(value: Any) -> int | None:
    """Convert an integer of any library to a Python int; None for bools and other values."""
    if isinstance(value, int):
        return None if isinstance(value, bool) else value
    # Trying is a hundred times as fast as isinstance(value, SupportsIndex).
    try:
        return operator.index(value)
    except TypeError:
        return None


def nbytes(dtype: str) -> int:
    """Return the number of bytes of one element in memory (bool takes one)."""
    return max(BITS[dtype] // 8, 1)


def promote(a: str, b: str) -> str:
    """Return the type in which `a op b` is computed: floats beat integers, wider beats narrower.

    A signed and an unsigned integer become a signed type that holds both; with uint64, for which there is none, the
    result is uint64, as in C.
    """
    if a == b:
        return a
    if is_float(a) != is_float(b):
        return a if is_float(a) else b
    if {a, b} == {"float16", "bfloat16"}:
        return "float32"
    if a == "bool" or b == "bool":
        return b if a == "bool" else a
    if is_float(a) or is_unsigned(a) == is_unsigned(b):
        return a if BITS[a] >= BITS[b] else b
    signed, unsigned = (b, a) if is_unsigned(a) else (a, b)
    if BITS[signed] > BITS[unsigned]:
        return signed
    return {8: "int16", 16: "int32", 32: "int64"}.get(BITS[unsigned], "uint64")


def accumulator(dtype: str) -> str:
    """Return the widest type of the same kind, whose sums and products wrap to those of the type."""
    return "float64" if is_float(dtype) else "uint64" if is_unsigned(dtype) else "int64"


def value_range(dtype: str) -> tuple[int | float, int | float]:
    """Return the smallest and the largest value of the type (infinities for floats)."""
    if is_float(dtype):
        return float("-inf"), float("inf")
    if dtype == "bool":
        return 0, 1
    bits = BITS[element(dtype)]
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def wrap(value: int, dtype: str) -> int:
    """Reduce an integer to the type's range modulo 2^bits, as the machine does."""
    lo, hi = value_range(dtype)
    if lo <= value <= hi:
        return value
    bits = BITS[dtype]
    value &= (1 << bits) - 1
    return value - (1 << bits) if value > hi else value
