"""The model without its weights: what the package onnx checks, infers shapes of, and inlines functions in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from numpy.typing import NDArray
from onnx import inliner, numpy_helper

from pegbox.errors import GraphError
from pegbox.plugins.onnx.model_file import ModelFile, is_own

Array = NDArray[Any]

_SMALL = 64
"""The size of weights that shape inference may need to see, such as shapes."""


@dataclass(frozen=True)
class Inferred:
    """The type of a value as the package onnx infers it: the number of its elements' type, and the shape if known."""

    elements: int
    shape: tuple[int, ...] | None


def make_skeleton(
    model: ModelFile,
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, tuple[int, ...]]],
    weights: Mapping[str, Array],
) -> onnx.ModelProto:
    """Make a model of the nodes, in which large weights are inputs."""
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
    for output in model.proto.graph.output:  # without shapes: those in the file may be of other inputs
        elements = output.type.tensor_type.elem_type
        graph.output.append(onnx.helper.make_tensor_value_info(output.name, elements, None))
    return made


def check(skeleton: onnx.ModelProto, name: str) -> None:
    """Let the package onnx check a model.

    Raises:
        GraphError: it breaks a rule of ONNX.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(skeleton)
    for output in copy.graph.output:  # the checker wants the field, which may be empty
        output.type.tensor_type.shape.SetInParent()
    try:
        onnx.checker.check_model(copy)
    except Exception as error:  # of onnx's own classes, RuntimeError and others
        raise GraphError(f"{name} breaks a rule of ONNX: {_first_line(error)}; export it again") from error


def infer(skeleton: onnx.ModelProto, name: str) -> tuple[onnx.ModelProto, dict[str, Inferred]]:
    """Infer the types of all values; return the model with them, too.

    Raises:
        GraphError: types or shapes contradict each other.
    """
    try:
        inferred = onnx.shape_inference.infer_shapes(skeleton, check_type=True, strict_mode=True, data_prop=True)
    except Exception as error:
        raise GraphError(
            f"{name}: the types or shapes of its values contradict each other: {_first_line(error)}; export it again"
        ) from error
    found = {}
    for each in (*inferred.graph.value_info, *inferred.graph.output):
        kind = each.type.tensor_type
        dims = kind.shape.dim
        known = kind.HasField("shape") and all(dim.HasField("dim_value") for dim in dims)
        found[each.name] = Inferred(kind.elem_type, tuple(dim.dim_value for dim in dims) if known else None)
    return inferred, found


def inline_functions(skeleton: onnx.ModelProto, own: Sequence[str], name: str) -> onnx.ModelProto:
    """Replace calls of functions by their nodes: the model's own, and operators of ONNX that are functions of others.

    Args:
        own: the operators that stay.

    Raises:
        GraphError: onnx cannot replace one.
    """
    calls = [node for node in skeleton.graph.node if is_own(node.domain) and node.op_type not in own]
    if not calls and not skeleton.functions:
        return skeleton
    try:
        if skeleton.functions:
            skeleton = inliner.inline_local_functions(skeleton)
        typed, _ = infer(skeleton, name)
        kept = [("", kind) for kind in own]
        inlined = inliner.inline_selected_functions(typed, kept, exclude=True, inline_schema_functions=True)
    except GraphError:
        raise
    except Exception as error:
        kinds = ", ".join(sorted({node.op_type for node in calls})[:10])
        raise GraphError(
            f"{name}: the package onnx cannot write its functions as operators ({kinds}): {_first_line(error)}"
        ) from error
    del inlined.graph.value_info[:]
    return inlined


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
