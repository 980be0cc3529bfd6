"""Operators and intrinsics on NumPy arrays, with the same rounding and types as kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pegbox.expr import dtypes, numpy_operators, operators

Array = NDArray[Any]

BINARY: dict[str, Callable[[Array, Array], Array]] = {
    **numpy_operators.BINARY, "and": np.logical_and, "or": np.logical_or,
}  # fmt: skip
COMPARE: dict[str, Callable[[Array, Array], Array]] = operators.COMPARE


def cast(dtype: str, value: Array) -> Array:
    """Convert as C does. What becomes of floats that are no value of an integer type is left open, as in C."""
    return np.not_equal(value, 0) if dtype == "bool" else np.asarray(value).astype(dtype, copy=False)


def call(name: str, dtype: str, args: Sequence[Array]) -> Array:
    """An intrinsic. Narrow floats are computed in float64 and rounded, so the reference is the better of two."""
    if not dtypes.is_float(dtype):
        return np.asarray(_FUNCTIONS[name](*args)).astype(dtype, copy=False)
    return np.asarray(_FUNCTIONS[name](*(np.asarray(a, dtype="float64") for a in args))).astype(dtype, copy=False)


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, small, 1.0) / (1.0 + small))


def _rsqrt(x: Array) -> Array:
    return np.asarray(1.0 / np.sqrt(x))


def _erf(x: Array) -> Array:
    import scipy.special  # slow to import, and few programs need it

    return np.asarray(scipy.special.erf(x))


_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "rsqrt": _rsqrt, "tanh": np.tanh, "sigmoid": _sigmoid,
    "erf": _erf, "pow": np.power, "abs": np.abs, "floor": np.floor, "ceil": np.ceil, "round": np.rint,
}  # fmt: skip
