"""Element types of random programs: how often each is drawn, which integers it holds, defined conversions."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np

from pegbox import te
from pegbox.expr import dtypes

NUMBERS = tuple(name for name in dtypes.BITS if name != "bool")
FLOATS = tuple(filter(dtypes.is_float, NUMBERS))
INTEGERS = tuple(filter(dtypes.is_int, NUMBERS))
_FREQUENT = {"float32": 4, "float64": 2, "int32": 2}
UNBOUNDED = 2**1100
"""The magnitude of a tensor that may hold any number of its type."""


def draw(rng: random.Random) -> str:
    return rng.choices(NUMBERS, [_FREQUENT.get(name, 1) for name in NUMBERS])[0]


def lowest(dtype: str, magnitude: int) -> int:
    """The lowest number of a range up to `magnitude`: unsigned types have no negative ones."""
    return 0 if dtypes.is_unsigned(dtype) else -magnitude


def exact_to(dtype: str) -> int:
    """The magnitude up to which sums of integers are exact in any order. Integer types wrap around: always."""
    return int(2 / dtypes.EPSILON[dtype]) if dtypes.is_float(dtype) else UNBOUNDED


def wide(dtype: str, bound: int) -> str:
    """The type itself, or the narrowest common one in which sums up to `bound` are exact."""
    return next((name for name in (dtype, "float32") if exact_to(name) >= bound), "float64")


def cast(dtype: str, value: Any) -> Any:
    """A conversion of a small number. No float is negative that becomes an unsigned integer."""
    if dtypes.is_float(value.dtype) and dtypes.is_int(dtype) and dtypes.is_unsigned(dtype):
        value = te.maximum(value, te.const(0, value.dtype))
    return te.cast(dtype, value)


def converted(value: Any, dtype: str) -> Any:
    """A conversion that is defined for every value: NaN becomes the integer 0, other numbers the nearest in range."""
    if not (dtypes.is_float(value.dtype) and dtypes.is_int(dtype)):
        return te.cast(dtype, value)
    low, high = (te.const(limit, value.dtype) for limit in _common_limits(value.dtype, dtype))
    number = te.select(te.isnan(value), te.const(0, value.dtype), value)
    return te.cast(dtype, te.maximum(te.minimum(number, high), low))


@cache
def _common_limits(source: str, target: str) -> tuple[float, float]:
    """The smallest and the largest number of a float type that are in the range of an integer type too."""
    found = []
    for limit in dtypes.value_range(target):
        with np.errstate(over="ignore"):
            nearest = np.asarray(limit).astype(dtypes.numpy_dtype(source))
        if abs(float(nearest)) > abs(limit):
            nearest = np.nextafter(nearest, np.zeros_like(nearest))
        found.append(float(nearest))
    return found[0], found[1]
