"""The reader of ONNX models."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from pegbox.checks import check_array, check_mapping
from pegbox.errors import GraphError
from pegbox.graph import Graph
from pegbox.hooks import users_level
from pegbox.plugins.onnx.functions import inline_functions
from pegbox.plugins.onnx.graph_builder import GraphBuilder
from pegbox.plugins.onnx.inference import inferred_types
from pegbox.plugins.onnx.input_shapes import Shapes, fix_shapes
from pegbox.plugins.onnx.model_file import ModelFile, open_model, opset_of
from pegbox.plugins.onnx.node_reader import NodeReader
from pegbox.plugins.onnx.operator import OPERATORS
from pegbox.plugins.onnx.operators.casts import DTYPES
from pegbox.plugins.onnx.opsets import unknown_operators, version_faults
from pegbox.plugins.onnx.refusal import DataDependent as DataDependent
from pegbox.plugins.onnx.refusal import Refusal, refused
from pegbox.plugins.onnx.skeleton import checked, make_skeleton
from pegbox.plugins.onnx.structure import needed_nodes
from pegbox.plugins.onnx.weights import Weights, is_suspicious, type_name

Array = NDArray[Any]

MOST_ELEMENTS = 1 << 32
"""The largest number of elements of an input.

The package onnx visits each extent that an input of one axis might hold, for hours if a damaged file has 10^12 of them.
"""


def read_model(
    source: str | os.PathLike[str] | onnx.ModelProto,
    *,
    shapes: Shapes | None = None,
    values: Mapping[str, Array] | None = None,
) -> Graph:
    """Read a model.

    Nothing is compiled, and constants are folded only where their values decide shapes. Weights in other files are
    mapped into memory. A `RuntimeWarning` names weights with NaN.

    Args:
        source: a file, or a model read by the package onnx.
        shapes: the shapes of inputs, `{"x": (1, 3, 224, 224)}`, or the extents of dimensions, `{"batch": 1}`, that
            the file leaves open.
        values: the known values of inputs, which the graph then lacks.

    Raises:
        GraphError: the file is damaged, or a shape is unknown.
        RefusedModel: nodes or weights are not supported; the error lists all of them.
        DataDependent: the values of inputs decide shapes, and nothing else is refused.
    """
    model = open_model(source)
    _raise(model, version_faults(model.proto))
    weights = Weights(model.folder)
    arrays = _initializers(model, weights)
    known = {name: np.asarray(array) for name, array in (values or {}).items()}
    given = check_mapping("shapes", shapes or {}, "shapes and extents by their names", error=GraphError)
    inputs = _inputs(model, arrays, given | {name: array.shape for name, array in known.items()})
    for name, array in known.items():
        elements, shape = inputs.pop(name)
        check_array(f"values[{name!r}]: the input is", array, shape, DTYPES[elements])
    arrays |= known
    nodes, faults = needed_nodes(
        model.proto.graph.node, {*inputs, *arrays}, [each.name for each in model.proto.graph.output]
    )
    _raise(model, faults)
    skeleton = make_skeleton(model, nodes, inputs, arrays)
    _raise(model, unknown_operators(skeleton))
    inlined = inline_functions(checked(skeleton, model.name), OPERATORS, model.name)
    graph = GraphBuilder()
    for name, (elements, shape) in inputs.items():
        graph.add_input(name, shape, DTYPES[elements])
    for name, array in arrays.items():
        graph.add_constant(name, array)
    reader = NodeReader(graph, opset_of(model.proto), inferred_types(inlined), weights)
    reader.read(inlined.graph.node)
    _raise(model, reader.refusals)
    outputs = [graph.values[each.name] for each in model.proto.graph.output]
    return graph.graph(model.title, outputs)


def _raise(model: ModelFile, refusals: list[Refusal]) -> None:
    if refusals:
        raise refused(model.name, refusals)


def _initializers(model: ModelFile, weights: Weights) -> dict[str, Array]:
    """Return the arrays in a model's file, and warn of those with NaN."""
    found, refusals, suspicious = {}, [], []
    for tensor in model.proto.graph.initializer:
        try:
            array = found[tensor.name] = weights.array(tensor)
        except GraphError as error:
            refusals.append(Refusal(f"initializer {tensor.name!r}", str(error)))
            continue
        if str(array.dtype) not in DTYPES.values():
            refusals.append(Refusal(f"initializer {tensor.name!r}", f"elements of {array.dtype} are not supported"))
        elif is_suspicious(array):
            suspicious.append(tensor.name)
    for sparse in model.proto.graph.sparse_initializer:
        refusals.append(Refusal(f"initializer {sparse.values.name!r}", "it is sparse", "save it as a dense tensor"))
    _raise(model, refusals)
    if suspicious:
        names = ", ".join(suspicious[:10]) + (f" and {len(suspicious) - 10} more" if len(suspicious) > 10 else "")
        warnings.warn(
            f"{model.name}: weights are NaN or infinite, and so may be results: {names}; export the model again if "
            "that is not meant",
            RuntimeWarning,
            stacklevel=users_level(),
        )
    return found


def _inputs(model: ModelFile, arrays: Mapping[str, Array], shapes: Shapes) -> dict[str, tuple[int, tuple[int, ...]]]:
    """Return the type and the shape of each input."""
    refusals = []
    given = [each for each in model.proto.graph.input if each.name not in arrays]
    for each in given:
        kind = each.type.tensor_type
        if not each.type.HasField("tensor_type"):
            wanted = str(each.type.WhichOneof("value")).removesuffix("_type")
            refusals.append(Refusal(f"input {each.name!r}", f"inputs of the kind {wanted} are not supported"))
        elif kind.elem_type not in DTYPES:
            name = type_name(kind.elem_type)
            refusals.append(Refusal(f"input {each.name!r}", f"elements of {name} are not supported", "cast it ahead"))
    _raise(model, refusals)
    found = fix_shapes(given, shapes)
    for each, shape in zip(given, found, strict=True):
        if math.prod(shape) > MOST_ELEMENTS:
            reason = (
                f"its shape {list(shape)} has {math.prod(shape):,} elements, and at most {MOST_ELEMENTS:,} are read"
            )
            refusals.append(Refusal(f"input {each.name!r}", reason, "correct the shape of the input"))
    _raise(model, refusals)
    return {each.name: (each.type.tensor_type.elem_type, shape) for each, shape in zip(given, found, strict=True)}
