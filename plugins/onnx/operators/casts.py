"""Conversions between element types."""

from __future__ import annotations

from typing import Any

import numpy as np

from pegbox import te
from pegbox.compute import elementwise
from pegbox.plugins.onnx.operator import Array, Meaning, OperatorNode, operator

DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16",
}  # fmt: skip
"""The element types of ONNX for tensors, by number."""


def dtype_of(node: OperatorNode, name: str, default: str | None = None) -> str:
    """Return the element type named by an attribute."""
    number = node.get(name)
    found = DTYPES.get(number) if number else default
    if found is None:
        raise node.refuse(f"{name}={number}: no tensor has this element type")
    return found


def converted(x: te.Tensor, dtype: str, *, name: str = "Cast") -> te.Tensor:
    """Convert a tensor; return X itself if it has the type."""
    return x if x.dtype == dtype else elementwise(lambda e: te.cast(dtype, e), x, name=name)


def sum_type(dtype: str) -> str:
    """Return the type in which products are summed up: float32 for floats of 16 bits."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def in_float32(meaning: Meaning) -> Meaning:
    """Compute an operator of floats of 16 bits in float32, and round its first output once."""

    def wide(node: OperatorNode, *tensors: te.Tensor | None) -> Any:
        narrow = [x.dtype for x in tensors if x is not None and x.dtype in ("float16", "bfloat16")]
        if not narrow:
            return meaning(node, *tensors)
        given = (x if x is None or x.dtype not in narrow else converted(x, "float32", name="wide") for x in tensors)
        made = meaning(node, *given)
        first, *rest = [made] if isinstance(made, te.Tensor) else made
        if first.dtype == "float32":
            first = converted(first, narrow[0], name=node.kind)
        return [first, *rest]

    return wide


@operator("Cast")
def cast(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    dtype = dtype_of(node, "to")
    return elementwise(lambda e: te.cast(dtype, e), x, name="Cast")


@operator("CastLike", empty=True)
def cast_like(node: OperatorNode, x: te.Tensor | None, like: te.Tensor | None = None) -> te.Tensor | Array:
    dtype = like.dtype if like is not None else str(node.constants[1].dtype)
    if x is None:
        return np.asarray(node.constants[0], dtype)
    return elementwise(lambda e: te.cast(dtype, e), x, name="CastLike")


@operator("BitCast")
def bit_cast(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    dtype = dtype_of(node, "to")
    if "bool" in (dtype, x.dtype):  # a byte of 0 or 1
        return elementwise(lambda e: te.cast(dtype, e), x, name="BitCast")
    return elementwise(lambda e: te.reinterpret(dtype, e), x, name="BitCast")
