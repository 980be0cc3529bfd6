"""The reader of ONNX models."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import inliner, numpy_helper

from pegbox import te
from pegbox.compute import placeholders
from pegbox.errors import GraphError, PegboxError
from pegbox.graph import Graph, Node, Value
from pegbox.graph.reference import run_node
from pegbox.plugins.onnx import operators as operators  # registers the operators
from pegbox.plugins.onnx.empty_arrays import evaluate_node
from pegbox.plugins.onnx.operator import OPERATORS, Meaning, OperatorNode
from pegbox.plugins.onnx.operators.casts import DTYPES

Array = NDArray[Any]


def read_model(
    source: str | Path | onnx.ModelProto,
    *,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    values: Mapping[str, Array] | None = None,
) -> Graph:
    """Read a model.

    Args:
        source: a file, or what the package onnx has read.
        shapes: the shapes of inputs with symbolic dimensions.
        values: inputs whose values are known now; the graph does not have them as inputs.

    Raises:
        GraphError: an operator is not supported, or a shape is not known.
    """
    model = source if isinstance(source, onnx.ModelProto) else onnx.load(source)
    return _Reading(_inlined(model), shapes or {}, values or {}).graph()


def _inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """Replace operators that are functions of others, except for those that have a meaning of their own."""
    known = {each.domain: each.version for each in model.opset_import}
    needed = any(node.domain not in ("", "ai.onnx") or node.op_type not in OPERATORS for node in model.graph.node)
    if not needed or known.get("", 0) < 1:
        return model
    own = [("", kind) for kind in OPERATORS]
    inferred = onnx.shape_inference.infer_shapes(model)
    return inliner.inline_selected_functions(inferred, own, exclude=True, inline_schema_functions=True)


class _Reading:
    def __init__(
        self, model: onnx.ModelProto, shapes: Mapping[str, tuple[int, ...]], values: Mapping[str, Array]
    ) -> None:
        self._proto = model.graph
        self._opset = {each.domain or "ai.onnx": each.version for each in model.opset_import}
        self._constants: dict[Value, Array] = {}
        self._nodes: list[Node] = []
        self._values: dict[str, Value] = {}
        self._origins: dict[Value, tuple[str, ...]] = {}  # the inputs that a value depends on
        for tensor in self._proto.initializer:
            self._constant(tensor.name, numpy_helper.to_array(tensor))
        for name, array in values.items():
            self._constant(name, array)
        given = [each for each in self._proto.input if each.name not in self._values]
        self._inputs = tuple(self._input(each, shapes) for each in given)
        for value in self._inputs:
            self._origins[value] = (value.name,)
            if 0 in value.shape:  # no elements: all of them are known
                self._constants[value] = np.empty(value.shape, value.dtype)

    def graph(self) -> Graph:
        for node in self._proto.node:
            self._read(node)
        outputs = tuple(self._value(each.name, "the model's outputs") for each in self._proto.output)
        used = {value for node in self._nodes for value in node.inputs} | set(outputs)
        constants = {value: array for value, array in self._constants.items() if value in used}
        return Graph(self._proto.name or "model", self._inputs, outputs, tuple(self._nodes), constants)

    def _constant(self, name: str, array: Array) -> None:
        dtype = str(array.dtype)
        if dtype not in DTYPES.values():
            raise GraphError(f"{name!r} has elements of {dtype}, which is not supported")
        value = self._values[name] = Value(name, array.shape, dtype)
        self._constants[value] = np.require(array, requirements="C")

    def _input(self, proto: onnx.ValueInfoProto, shapes: Mapping[str, tuple[int, ...]]) -> Value:
        if not proto.type.HasField("tensor_type"):
            raise GraphError(f"input {proto.name!r} is no tensor")
        kind = proto.type.tensor_type
        dtype = DTYPES.get(kind.elem_type)
        if dtype is None:
            raise GraphError(f"input {proto.name!r} has elements of {onnx.TensorProto.DataType.Name(kind.elem_type)}")
        shape = shapes.get(proto.name)
        if shape is None and all(each.HasField("dim_value") for each in kind.shape.dim):
            shape = tuple(each.dim_value for each in kind.shape.dim)
        if shape is None:
            names = [each.dim_param or each.dim_value for each in kind.shape.dim]
            raise GraphError(f"input {proto.name!r} has the shape {names}: give shapes={{{proto.name!r}: (...)}}")
        value = self._values[proto.name] = Value(proto.name, tuple(shape), dtype)
        return value

    def _value(self, name: str, reader: str) -> Value:
        if name not in self._values:
            raise GraphError(f"{reader}: nothing makes {name!r}")
        return self._values[name]

    def _read(self, proto: onnx.NodeProto) -> None:
        name = proto.name or (proto.output[0] if proto.output else proto.op_type)
        where = f"{proto.op_type} {name!r}"
        if proto.op_type == "Constant":
            self._constant(proto.output[0], _constant_of(proto))
            return
        found = OPERATORS.get(proto.op_type) if proto.domain in ("", "ai.onnx") else None
        if found is None:
            raise GraphError(f"{where}: the operator {proto.domain}{proto.op_type} is not supported")
        attributes = {each.name: _attribute(each) for each in proto.attribute}
        constants: dict[int, Array] = {}
        inputs: dict[int, Value] = {}
        for place, each in enumerate(proto.input):
            if not each:
                continue
            value = self._value(each, where)
            wanted = place in found.constants or 0 in value.shape
            if value in self._constants and (wanted or place in found.known):
                constants[place] = self._constants[value]
            if not wanted:
                inputs[place] = value
            elif value not in self._constants:
                raise DataDependent(
                    f"{where}: the values of {each!r} decide shapes; they must be constants", self._origins[value]
                )
        if not found.empty and any(0 in array.shape and k not in found.constants for k, array in constants.items()):
            self._without_elements(proto, where)
            return
        count = max((k + 1 for k, each in enumerate(proto.output) if each), default=0)
        node = OperatorNode(name, proto.op_type, self._opset["ai.onnx"], attributes, constants, count)
        # `like` and others only lend their types: a place without an input gets None.
        places = sorted(inputs)
        given = tuple(inputs[place] for place in places)
        try:
            tensors = [value.placeholder() for value in given]
            made = _meaning(found.meaning, node, tuple(places), *tensors)
            read = {tensor.op for tensor in placeholders([each for each in made if isinstance(each, te.Tensor)])}
            unread = {p for p, tensor in zip(places, tensors, strict=True) if p in constants and tensor.op not in read}
        except GraphError:
            raise
        except PegboxError as error:
            raise GraphError(f"{where}: {error}") from error
        given, places = tuple(inputs[p] for p in places if p not in unread), [p for p in places if p not in unread]
        compute = partial(_tensors, found.meaning, node, tuple(places))
        named = [each or f"{name}.{k}" for k, each in enumerate([*proto.output, *[""] * 9])]
        for each, array in zip(named, made, strict=False):
            if isinstance(array, np.ndarray):
                self._constant(each, array)
        outputs = tuple(
            Value(each, tensor.shape, tensor.dtype)
            for each, tensor in zip(named, made, strict=False)
            if isinstance(tensor, te.Tensor)
        )
        if not outputs:
            return
        origins = tuple(dict.fromkeys(each for value in given for each in self._origins.get(value, ())))
        self._origins.update(dict.fromkeys(outputs, origins))
        operation = Node(name, proto.op_type, given, outputs, compute, attributes)
        for value in outputs:
            self._values[value.name] = value
        if all(value in self._constants for value in given):
            arrays = run_node(operation, [self._constants[v] for v in given])
            self._constants.update(zip(outputs, arrays, strict=True))
        else:
            self._nodes.append(operation)

    def _without_elements(self, proto: onnx.NodeProto, where: str) -> None:
        given = {each: self._value(each, where) for each in proto.input if each}
        if not all(value in self._constants for value in given.values()):
            raise GraphError(f"{where}: an input has no elements, which is not supported")
        arrays = {each: self._constants[value] for each, value in given.items()}
        made = evaluate_node(proto, self._opset["ai.onnx"], arrays)
        for each, array in zip(filter(None, proto.output), made, strict=True):
            self._constant(each, np.asarray(array))


class DataDependent(GraphError):
    """The values of inputs decide shapes.

    Attributes:
        values: the names of the inputs.
    """

    def __init__(self, message: str, values: tuple[str, ...]) -> None:
        super().__init__(message)
        self.values = values


def _tensors(meaning: Meaning, node: OperatorNode, places: tuple[int, ...], *tensors: te.Tensor) -> list[te.Tensor]:
    return [each for each in _meaning(meaning, node, places, *tensors) if isinstance(each, te.Tensor)]


def _meaning(
    meaning: Meaning, node: OperatorNode, places: tuple[int, ...], *tensors: te.Tensor
) -> list[te.Tensor | Array]:
    """Apply an operator; outputs whose values are known are arrays."""
    given: list[te.Tensor | None] = [None] * (1 + max(places, default=-1))
    for place, tensor in zip(places, tensors, strict=True):
        given[place] = tensor
    made = meaning(node, *given)
    return [made] if isinstance(made, te.Tensor | np.ndarray) else list(made)


def _attribute(proto: onnx.AttributeProto) -> Any:
    value = onnx.helper.get_attribute_value(proto)
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, bytes):
        return value.decode()
    return value


def _constant_of(proto: onnx.NodeProto) -> Array:
    (attribute,) = [each for each in proto.attribute if each.name.startswith("value")]
    value = _attribute(attribute)
    if attribute.name in ("value_int", "value_ints"):
        return np.asarray(value, "int64")
    if attribute.name in ("value_float", "value_floats"):
        return np.asarray(value, "float32")
    if isinstance(value, np.ndarray):
        return value
    raise GraphError(f"Constant {proto.name or proto.output[0]!r}: {attribute.name} is not supported")
