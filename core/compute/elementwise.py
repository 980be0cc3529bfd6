"""Elementwise functions of whole tensors, with NumPy's broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from pegbox.compute.ops import compute
from pegbox.compute.tensor import OPERATORS, Tensor
from pegbox.errors import ComputeError
from pegbox.expr import build
from pegbox.expr.nodes import Expr

ELEMENTWISE, BROADCAST = "elemwise", "broadcast"
"""The tags of such operations, as in TVM."""


def broadcast_shape(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Return the common shape for broadcasting: aligned at the end, with extents of one repeated.

    Raises:
        ComputeError: two extents differ and neither is one.
    """
    return reduce(_joined, map(tuple, shapes), ())


def _joined(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    rank = max(len(a), len(b))
    longer = [(1,) * (rank - len(shape)) + shape for shape in (a, b)]
    for one, other in zip(*longer, strict=True):
        if one != other and 1 not in (one, other):
            raise ComputeError(f"the shapes {a} and {b} do not broadcast: extents are equal, or one of them is 1")
    return tuple(other if one == 1 else one for one, other in zip(*longer, strict=True))


def element(value: object, indices: Sequence[Expr]) -> object:
    """Read a tensor (or a number) at an index of a shape to which it is broadcast."""
    if not isinstance(value, Tensor):
        return value
    own = indices[len(indices) - value.ndim :]
    return value(*(0 if extent == 1 else index for index, extent in zip(own, value.shape, strict=True)))


def elementwise(function: Callable[..., object], *values: object, name: str, tag: str = "") -> Tensor:
    """Apply `function` to the elements of broadcast tensors and to numbers; return the tensor.

    Raises:
        ComputeError: no value is a tensor, or the shapes do not broadcast.
    """
    tensors = [value for value in values if isinstance(value, Tensor)]
    if not tensors:
        raise ComputeError(f"{name}: none of {values!r} is a tensor")
    shape = broadcast_shape(*(tensor.shape for tensor in tensors))
    made = compute(
        shape,
        lambda *indices: build.as_expr(function(*(element(value, indices) for value in values))),
        name,
        tag or (ELEMENTWISE if len(values) == 1 else BROADCAST),
    )
    return made


def _operator(name: str, function: Callable[..., Expr]) -> Callable[[object, object], Tensor]:
    return lambda a, b: elementwise(function, a, b, name=f"T_{name}")


OPERATORS.update(
    add=_operator("add", build.add),
    sub=_operator("subtract", build.sub),
    mul=_operator("multiply", build.mul),
    div=_operator("divide", build.div),
    cast=lambda value, dtype: elementwise(lambda x: build.cast(dtype, x), value, name="T_cast"),
)
