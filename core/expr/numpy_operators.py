"""Operators and intrinsics of expressions on NumPy scalars and arrays, in the types of the operands."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from pegbox.expr.intrinsics import NUMPY

# Operators do the same as NumPy's functions, in a third of the time for scalars. Division of integers rounds down and
# its remainder takes the divisor's sign, as in // and %; by 0 both are 0. NaN wins in min and max.
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
    "floordiv": operator.floordiv, "floormod": operator.mod, "min": np.minimum, "max": np.maximum,
}  # fmt: skip


def _erf(x: Any) -> Any:
    import scipy.special  # slow to import, and rarely needed

    return scipy.special.erf(x)


def _sigmoid(x: Any) -> Any:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1.0) / (1.0 + small)


def _bits(x: Any) -> Any:
    """Return the bits of each integer, of the highest value first, along a new last dimension."""
    whole = np.asarray(x)
    big_endian = whole.astype(whole.dtype.newbyteorder(">")).reshape(*whole.shape, 1)
    return np.unpackbits(big_endian.view(np.uint8), axis=-1)


def _clz(x: Any) -> Any:
    bits = _bits(x)
    return np.where(bits.any(axis=-1), bits.argmax(axis=-1), bits.shape[-1]).astype(np.asarray(x).dtype)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, known) for name, known in NUMPY.items()},
    "rsqrt": lambda x: 1.0 / np.sqrt(x), "sigmoid": _sigmoid, "erf": _erf, "exp10": lambda x: np.power(10.0, x),
    "popcount": lambda x: _bits(x).sum(axis=-1, dtype=np.asarray(x).dtype), "clz": _clz,
}  # fmt: skip
"""The intrinsics; for floats, as exact as the type of the operands allows."""
