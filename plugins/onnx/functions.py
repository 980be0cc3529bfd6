"""Inlining of functions: a model's own, and operators that ONNX defines by others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import onnx
from onnx import FunctionProto, ModelProto, NodeProto, TypeProto, inliner

from pegbox.errors import GraphError
from pegbox.plugins.onnx.inference import first_line, infer
from pegbox.plugins.onnx.model_file import is_own, opset_of

_DOMAIN = "pegbox.functions"


def inline_functions(model: ModelProto, own: Collection[str], name: str) -> ModelProto:
    """Replace calls of functions by their nodes.

    Args:
        model: a model with the types of its values.
        own: the operators that stay.
        name: the model's name, for errors.

    Raises:
        GraphError: the package onnx cannot replace one.
    """
    kinds: list[str] = []
    try:
        if model.functions:
            model = inliner.inline_local_functions(model)
            fill_defaults(model)
            model = infer(model)
        # One level at a time: the nodes of a function may depend on the types of its arguments.
        while calls := [node for node in model.graph.node if node.op_type not in own and _is_function(node, model)]:
            kinds = sorted({node.op_type for node in calls})
            types = _types(model)
            for number, node in enumerate(calls):
                _make_call(node, f"{node.op_type}_{number}", types, model)
            model.opset_import.append(onnx.helper.make_opsetid(_DOMAIN, 1))
            model = inliner.inline_local_functions(model)
            fill_defaults(model)
            model = infer(model)
    except Exception as error:  # onnx raises its own classes, RuntimeError and others
        raise GraphError(
            f"{name}: the package onnx cannot write functions as operators ({', '.join(kinds) or 'its own'}): "
            f"{first_line(error)}; export the model with operators in their place"
        ) from error
    return model


def fill_defaults(model: ModelProto) -> None:
    """Write out the default attributes of operators that are functions of others.

    Within functions, neither the shape inference nor the inliner of the package onnx knows these defaults, nor those of
    STFT.
    """
    for node in model.graph.node:
        if _is_function(node, model) or node.op_type == "STFT":
            given = {each.name for each in node.attribute}
            attributes = _schema(node, model).attributes
            defaults = [each.default_value for key, each in attributes.items() if key not in given]
            node.attribute.extend(each for each in defaults if each.type != onnx.AttributeProto.UNDEFINED)


def _schema(node: NodeProto, model: ModelProto) -> Any:  # the stubs of OpSchema lack its functions
    return onnx.defs.get_schema(node.op_type, opset_of(model))


def _is_function(node: NodeProto, model: ModelProto) -> bool:
    if not is_own(node.domain):
        return False
    schema = _schema(node, model)
    return bool(schema.has_function or schema.has_context_dependent_function)


def _make_call(node: NodeProto, name: str, types: Mapping[str, TypeProto], model: ModelProto) -> None:
    """Add an operator's function to the model's own, and let the node call it."""
    schema = _schema(node, model)
    function = FunctionProto()
    function.ParseFromString(_body(schema, node, types, opset_of(model)))
    function.domain, function.name = _DOMAIN, name
    del function.opset_import[:]  # the body's version; ONNX has a later function wherever a newer version matters
    function.opset_import.extend(model.opset_import)
    node.domain, node.op_type = _DOMAIN, name
    model.functions.append(function)


def _body(schema: Any, node: NodeProto, types: Mapping[str, TypeProto], opset: int) -> bytes:
    """Return the function of the latest version that is not later than the model's."""
    if schema.has_function:
        version = max(each for each in schema.function_opset_versions if each <= opset)
        return bytes(schema.get_function_with_opset_version(version))
    version = max(each for each in schema.context_dependent_function_opset_versions if each <= opset)
    arguments = [types.get(each, TypeProto()).SerializeToString() for each in node.input]
    return bytes(schema.get_context_dependent_function_with_opset_version(version, node.SerializeToString(), arguments))


def _types(model: ModelProto) -> dict[str, TypeProto]:
    graph = model.graph
    found = {each.name: each.type for each in (*graph.input, *graph.value_info, *graph.output)}
    for each in graph.initializer:
        found[each.name] = onnx.helper.make_tensor_type_proto(each.data_type, each.dims)
    return found
