"""Operators of expressions on NumPy scalars and arrays, in the types of the operands."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

# Operators do what NumPy's functions do, for scalars in a third of the time. Division of integers rounds down and its
# remainder takes the divisor's sign, which is what // and % mean; by 0 both are 0. NaN wins in min and max.
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
    "floordiv": operator.floordiv, "floormod": operator.mod, "min": np.minimum, "max": np.maximum,
}  # fmt: skip
