"""Operators and intrinsics on NumPy arrays, with the same rounding and types as kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pegbox.expr import dtypes, numpy_operators, operators
from pegbox.expr.nodes import CompareOp
from pegbox.expr.numpy_operators import FUNCTIONS

Array = NDArray[Any]

BINARY: dict[str, Callable[[Array, Array], Array]] = {
    **numpy_operators.BINARY, "and": np.logical_and, "or": np.logical_or,
}  # fmt: skip
COMPARE: dict[CompareOp, Callable[[Array, Array], Array]] = operators.COMPARE


def cast(dtype: str, value: Array) -> Array:
    """Convert as C does. What becomes of floats that are no value of an integer type is left open, as in C."""
    return np.not_equal(value, 0) if dtype == "bool" else np.asarray(value).astype(dtype, copy=False)


def call(name: str, dtype: str, args: Sequence[Array]) -> Array:
    """An intrinsic. Narrow floats are computed in float64 and rounded, so the reference is the better of two."""
    if not dtypes.is_float(dtype):
        return np.asarray(FUNCTIONS[name](*args)).astype(dtype, copy=False)
    return np.asarray(FUNCTIONS[name](*(np.asarray(a, dtype="float64") for a in args))).astype(dtype, copy=False)
