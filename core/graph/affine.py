"""Nodes that multiply a value by a constant or add a constant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pegbox.expr.dtypes import EPSILON, EXPONENTS, is_float, numpy_dtype
from pegbox.expr.nodes import Binary, Const, Expr, Var
from pegbox.graph.graph import Array, Node, Value
from pegbox.graph.kind import is_pointwise, pointwise_values


@dataclass(frozen=True, eq=False)
class Affine:
    """The function `x * scale + shift` of a value of the same shape; the arrays, or None, are broadcast."""

    x: Value
    scale: Array | None
    shift: Array | None

    def then(self, after: Affine) -> Affine:
        """Return the composition of this function with a following one."""
        shift = _either(np.multiply, self.shift, after.scale) if self.shift is not None else None
        return Affine(self.x, _either(np.multiply, self.scale, after.scale), _either(np.add, shift, after.shift))

    @property
    def is_identity(self) -> bool:
        """True if all values stay unchanged, except for the sign of zeros."""
        return (self.scale is None or bool((self.scale == 1).all())) and (self.shift is None or not self.shift.any())

    @property
    def is_moderate(self) -> bool:
        """True if it may be joined with others, so that results differ only by rounding.

        Products of huge and tiny scales overflow or vanish. A huge shift may be there to round its summand.
        """
        if not is_float(self.x.dtype):
            return False
        low, high = (2.0 ** (exponent / 2) for exponent in EXPONENTS[self.x.dtype])
        scales = np.abs(self.scale[self.scale != 0]) if self.scale is not None else np.ones(1)
        shifts = np.abs(self.shift) if self.shift is not None else np.zeros(1)
        limit = EPSILON[self.x.dtype] ** -0.5
        return bool(((scales >= low) & (scales <= high)).all() and (shifts <= limit).all())


def _either(function: np.ufunc, a: Array | None, b: Array | None) -> Array | None:
    if a is None or b is None:
        return a if b is None else b
    with np.errstate(all="ignore"):
        return np.asarray(function(a, b))


def affine_of(node: Node, constants: Mapping[Value, Array]) -> Affine | None:
    """Return the affine function of a node: a sum, difference or product with a constant; None for other nodes."""
    if len(node.inputs) > 2 or len(node.outputs) != 1:
        return None
    data = [value for value in node.inputs if value not in constants]
    if len(data) != 1:
        return None
    (x,), (y,) = data, node.outputs
    if (x.shape, x.dtype) != (y.shape, y.dtype) or not all(_fits(value, y) for value in node.inputs):
        return None
    if not is_pointwise(node):
        return None
    elements = [Var(f"p{place}", value.dtype) for place, value in enumerate(node.inputs)]
    (expr,) = pointwise_values(node, elements)
    if not isinstance(expr, Binary) or expr.op not in ("add", "sub", "mul"):
        return None
    known = {element: constants[value] for element, value in zip(elements, node.inputs, strict=True) if value is not x}
    left, right = _array(expr.a, known), _array(expr.b, known)
    return _function(expr.op, x, left, right) if (left is None) != (right is None) and _is_plain(expr) else None


def _fits(value: Value, y: Value) -> bool:
    """Decide if a value can be broadcast to the shape of another: a quick test that rules out most nodes."""
    longer = y.shape[len(y.shape) - len(value.shape) :]
    return len(value.shape) <= len(y.shape) and all(
        extent in (1, whole) for extent, whole in zip(value.shape, longer, strict=True)
    )


def _is_plain(expr: Binary) -> bool:
    return all(isinstance(part, Var | Const) for part in (expr.a, expr.b))


def _array(expr: Expr, known: Mapping[Var, Array]) -> Array | None:
    if isinstance(expr, Const):
        return np.asarray(expr.value, numpy_dtype(expr.dtype))
    return known.get(expr) if isinstance(expr, Var) else None


def _function(op: str, x: Value, left: Array | None, right: Array | None) -> Affine:
    constant = left if right is None else right
    assert constant is not None
    if op == "mul":
        return Affine(x, constant, None)
    if op == "add":
        return Affine(x, None, constant)
    if left is None:
        return Affine(x, None, np.negative(constant))
    return Affine(x, np.negative(np.ones((), left.dtype)), left if left.any() else None)
