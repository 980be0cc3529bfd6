"""The attributes of ONNX nodes as Python values, and the arrays of `Constant` nodes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from pegbox.errors import GraphError
from pegbox.plugins.onnx.weights import Weights

Array = NDArray[Any]

_DTYPES = {"value_int": "int64", "value_ints": "int64", "value_float": "float32", "value_floats": "float32"}


def attributes_of(proto: onnx.NodeProto, weights: Weights) -> dict[str, Any]:
    """Return the attributes of a node by name, without graphs."""
    return {each.name: _value(each, weights) for each in proto.attribute if not (each.HasField("g") or each.graphs)}


def _value(proto: onnx.AttributeProto, weights: Weights) -> Any:
    if proto.ref_attr_name:
        raise GraphError(f"the attribute {proto.name} is one of a function that was not called")
    value = onnx.helper.get_attribute_value(proto)
    if isinstance(value, onnx.TensorProto):
        return weights.array(value)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if proto.type == proto.STRINGS:
        return [each.decode(errors="replace") for each in value]
    return list(value) if proto.type in (proto.INTS, proto.FLOATS) else value


def constant_array(attributes: Mapping[str, Any]) -> Array:
    """Return the array of a node `Constant`.

    Raises:
        GraphError: it is not an array of numbers.
    """
    for name, value in attributes.items():
        if isinstance(value, np.ndarray):
            return value
        if name in _DTYPES:
            return np.asarray(value, _DTYPES[name])
    raise GraphError(
        f"a constant of {', '.join(attributes) or 'nothing'} is not supported; export it as a dense tensor"
    )


@cache
def input_names(kind: str, opset: int) -> tuple[str, ...]:
    """Return ONNX's names for the inputs of an operator."""
    return tuple(each.name for each in onnx.defs.get_schema(kind, opset).inputs)


@cache
def since(kind: str, opset: int) -> int:
    """Return the version that introduced an operator's meaning in a given version."""
    return int(onnx.defs.get_schema(kind, opset).since_version)
