"""The types of a model's values, inferred by the package onnx."""

from __future__ import annotations

from dataclasses import dataclass

import onnx


@dataclass(frozen=True)
class Inferred:
    """The type of a value: the number of its elements' type, and the shape if it is known."""

    elements: int = 0
    shape: tuple[int, ...] | None = None


def infer(model: onnx.ModelProto, *, strict: bool = False) -> onnx.ModelProto:
    """Add the types of all values to a model.

    Args:
        strict: raise an error of the package onnx if types contradict each other.
    """
    return onnx.shape_inference.infer_shapes(model, check_type=strict, strict_mode=strict, data_prop=True)


def inferred_types(model: onnx.ModelProto) -> dict[str, Inferred]:
    """Return the types that `infer` added."""
    found = {}
    for each in (*model.graph.value_info, *model.graph.output):
        kind = each.type.tensor_type
        dims = kind.shape.dim
        known = kind.HasField("shape") and all(dim.HasField("dim_value") for dim in dims)
        found[each.name] = Inferred(kind.elem_type, tuple(dim.dim_value for dim in dims) if known else None)
    return found


def first_line(error: Exception) -> str:
    """Return the first line of an error's text."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
