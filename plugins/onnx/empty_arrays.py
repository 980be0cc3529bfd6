"""Nodes of constants without elements, which te has no tensors for."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from pegbox.plugins.onnx.operator import Array


def evaluate_node(proto: onnx.NodeProto, opset: int, inputs: Mapping[str, Array]) -> list[Array]:
    """Compute the outputs of a node whose inputs are constants by ONNX's own evaluator."""
    given = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for name, a in inputs.items()]
    made = [helper.make_empty_tensor_value_info(name) for name in proto.output if name]
    graph = helper.make_graph([proto], "node", given, made)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return list(ReferenceEvaluator(model).run(None, dict(inputs)))
