"""Recurrent layers as one product of all inputs, followed by the steps, with weights in the order of their use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from pegbox.graph import Value
from pegbox.plugins.onnx.graph_builder import GraphBuilder
from pegbox.plugins.onnx.node_parts import NodeParts
from pegbox.plugins.onnx.operators.recurrent import GATES, PANEL, PREPARED

Array = NDArray[Any]


def recurrent_parts(
    proto: onnx.NodeProto, given: Mapping[int, Value], attributes: Mapping[str, Any], graph: GraphBuilder
) -> Sequence[onnx.NodeProto]:
    """List the nodes that compute a recurrent layer: the product of all its inputs, the biases, and the steps.

    Args:
        given: the inputs by their places.
        graph: the graph to which constants are added.

    Returns:
        No nodes for a layer that is computed as a whole: with weights that are not constant or do not fit, of short
            floats, or the steps of a layer themselves.
    """
    arrays = _weights(given, graph)
    if PREPARED in attributes or arrays is None or not _fit(proto.op_type, given[0], arrays, attributes):
        return ()
    w, r, b = arrays
    parts = NodeParts(next(filter(None, proto.output)), graph)
    columns = np.ascontiguousarray(w.reshape(-1, w.shape[-1]).T)
    products = parts.add("MatMul", proto.input[0], parts.array(columns))
    names = [products, "", parts.array(panels(r, GATES[proto.op_type])), *proto.input[3:]]
    if b is not None:
        own, recurrent = np.split(b, 2, axis=1)
        apart = own.shape[1] // 3 if proto.op_type == "GRU" and attributes.get("linear_before_reset", 0) else 0
        added = recurrent.copy()
        added[:, added.shape[1] - apart :] = 0
        names[0] = parts.add("Add", products, parts.array((own + added).reshape(-1)))
        names[3] = parts.array(recurrent) if apart else ""
    steps = onnx.NodeProto()
    steps.CopyFrom(proto)
    steps.attribute.append(onnx.helper.make_attribute(PREPARED, 1))
    steps.input[:] = names
    return [*parts.nodes, steps]


def panels(r: Array, gates: int) -> Array:
    """Rearrange recurrent weights [directions, gates * hidden, hidden] as [directions, panels, hidden, PANEL].

    The columns of each gate begin a panel, whose unused columns are zeros.
    """
    directions, _, hidden = r.shape
    apart = np.pad(r.reshape(directions, gates, hidden, hidden), ((0, 0), (0, 0), (0, -hidden % PANEL), (0, 0)))
    return np.ascontiguousarray(apart.reshape(directions, -1, PANEL, hidden).swapaxes(2, 3))


def _weights(given: Mapping[int, Value], graph: GraphBuilder) -> tuple[Array, Array, Array | None] | None:
    """Return W, R and the biases; None if one is not constant."""
    found = [graph.array_of(given[place]) if place in given else None for place in (1, 2, 3)]
    w, r, b = found
    return None if w is None or r is None or (b is None and 3 in given) else (w, r, b)


def _fit(kind: str, x: Value, arrays: Sequence[Array | None], attributes: Mapping[str, Any]) -> bool:
    """Decide if the types and shapes fit the operator; others are refused where it is computed as a whole."""
    w, r, b = arrays
    if w is None or r is None or w.ndim != 3 or r.ndim != 3 or len(x.shape) != 3:
        return False
    if x.dtype not in ("float32", "float64") or {str(each.dtype) for each in arrays if each is not None} != {x.dtype}:
        return False
    count, rows, hidden = (2 if attributes.get("direction") == "bidirectional" else 1), w.shape[1], r.shape[2]
    wanted = (count, GATES[kind] * hidden, x.shape[2]), (count, rows, attributes.get("hidden_size", hidden))
    return (w.shape, r.shape) == wanted and (b is None or b.shape == (count, 2 * rows))
