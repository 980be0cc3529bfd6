"""The model without its weights, for the checks, shape inference and inlining of the package onnx."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from pegbox.errors import GraphError
from pegbox.plugins.onnx.functions import fill_defaults
from pegbox.plugins.onnx.inference import first_line, infer
from pegbox.plugins.onnx.model_file import ModelFile
from pegbox.plugins.onnx.pool_counts import round_counts_down

Array = NDArray[Any]

_SMALL = 64
"""The largest size of weights that shape inference may need, such as shapes."""


def make_skeleton(
    model: ModelFile,
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, tuple[int, ...]]],
    weights: Mapping[str, Array],
) -> onnx.ModelProto:
    """Make a model of the nodes with large weights as inputs."""
    made = onnx.ModelProto(ir_version=max(model.proto.ir_version, 4), producer_name="pegbox")
    made.opset_import.extend(model.proto.opset_import)
    made.functions.extend(model.proto.functions)
    graph = made.graph
    graph.name = model.proto.graph.name or "model"
    graph.node.extend(nodes)
    for name, (elements, shape) in inputs.items():
        graph.input.append(onnx.helper.make_tensor_value_info(name, elements, shape))
    for name, array in weights.items():
        if array.size <= _SMALL:
            graph.initializer.append(numpy_helper.from_array(array, name))
        else:
            elements = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            graph.input.append(onnx.helper.make_tensor_value_info(name, elements, array.shape))
    graph.output.extend(model.proto.graph.output)
    return made


def checked(skeleton: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """Return a model with the types of its values.

    Raises:
        GraphError: it breaks a rule of ONNX, or types contradict each other.
    """
    outputs = [each.type.tensor_type for each in skeleton.graph.output]
    for each in outputs:  # the checker needs a shape, which files may omit
        each.shape.SetInParent()
    try:
        onnx.checker.check_model(skeleton)
        fill_defaults(skeleton)
        for each in outputs:  # the file may come from inputs with other shapes
            each.ClearField("shape")
        round_counts_down(skeleton)
        return infer(skeleton, strict=True)
    except Exception as error:  # onnx raises its own classes, RuntimeError and others
        raise GraphError(f"{name} breaks a rule of ONNX: {first_line(error)}; export it again") from error
