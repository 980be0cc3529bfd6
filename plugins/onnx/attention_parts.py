"""The operator `Attention` in the form that passes recognize: the products around a softmax."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from pegbox.graph import Value
from pegbox.plugins.onnx.graph_builder import GraphBuilder
from pegbox.plugins.onnx.node_parts import NodeParts
from pegbox.plugins.onnx.operators.casts import DTYPES

_WIDE = ("float32", "float64")


def attention_parts(
    proto: onnx.NodeProto, given: Mapping[int, Value], attributes: Mapping[str, Any], graph: GraphBuilder
) -> Sequence[onnx.NodeProto]:
    """List the nodes that compute an `Attention`.

    Args:
        given: the inputs by their places.
        graph: the graph to which constants are added.

    Returns:
        No nodes for an operator that is computed as a whole: with earlier keys or lengths, with capped or returned
            scores, of short floats, or with a mask of fewer keys.
    """
    heads = _heads(proto, given, attributes)
    if heads is None:
        return ()
    q, k, v, (n_heads, kv_heads) = given[0], given[1], given[2], heads
    mask, dtype, n_q = given.get(3), q.dtype, q.shape[-2]
    size = math.prod(q.shape) // (q.shape[0] * n_heads * n_q)
    parts = _Parts(proto.output[0], graph)
    columns = parts.add("Transpose", parts.heads(proto.input[1], k, kv_heads, n_heads), perm=(0, 1, 3, 2))
    scores = parts.add("MatMul", parts.heads(proto.input[0], q, n_heads, n_heads), columns)
    scale = np.asarray(attributes.get("scale") or 1 / math.sqrt(size), dtype)
    scores = parts.add("Mul", scores, parts.array(scale))
    seen = _seen(n_q, k.shape[-2], attributes)
    biases = [] if seen.all() else [parts.array(np.where(seen, 0, -math.inf).astype(dtype))]
    if mask is not None:
        biases.append(parts.bias(proto.input[3], mask, dtype))
    if biases:
        scores = parts.add("Add", scores, parts.add("Add", *biases) if len(biases) > 1 else biases[0])
    weights = parts.add("Softmax", scores, axis=-1)
    if mask is not None or not seen.any(axis=1).all():  # a query without visible keys has zeros
        weights = parts.add("Where", parts.add("IsNaN", weights), parts.array(np.zeros((), dtype)), weights)
    attended = parts.add("MatMul", weights, parts.heads(proto.input[2], v, kv_heads, n_heads))
    if len(q.shape) == 3:
        rows = parts.add("Transpose", attended, perm=(0, 2, 1, 3))
        attended = parts.add("Reshape", rows, parts.array(np.array([q.shape[0], n_q, -1])))
    parts.nodes[-1].output[0] = proto.output[0]
    return parts.nodes


def _heads(proto: onnx.NodeProto, given: Mapping[int, Value], attributes: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the numbers of heads of the queries and of the keys; None if the operator is computed as a whole."""
    q, k, v, mask = (given.get(place) for place in range(4))
    if q is None or k is None or v is None or max(given) > 3 or any(proto.output[1:]) or attributes.get("softcap"):
        return None
    types = {q.dtype, k.dtype, v.dtype, DTYPES.get(attributes.get("softmax_precision", 0), q.dtype)}
    if len(types) > 1 or q.dtype not in _WIDE or (mask is not None and mask.shape[-1:] != (k.shape[-2],)):
        return None
    if len(q.shape) == 4:
        heads, kv_heads = q.shape[1], k.shape[1]
    else:
        heads, kv_heads = (attributes.get(f"{name}_num_heads", 0) for name in ("q", "kv"))
        if not heads or not kv_heads or q.shape[-1] % heads or k.shape[-1] % kv_heads or v.shape[-1] % kv_heads:
            return None
    return (heads, kv_heads) if heads % kv_heads == 0 else None


def _seen(n_q: int, n_k: int, attributes: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Compute, for each query and each key, whether the query sees it, ignoring the mask."""
    ahead = np.arange(n_k) - np.arange(n_q)[:, None]
    left, right = (attributes.get(f"{side}_window_size", -1) for side in ("left", "right"))
    tests = [ahead <= 0] if attributes.get("is_causal") else []
    tests += [ahead >= -left] if left >= 0 else []
    tests += [ahead <= right] if right >= 0 else []
    return np.asarray(np.logical_and.reduce([np.ones((n_q, n_k), bool), *tests]))


class _Parts(NodeParts):
    """The nodes of an attention."""

    def heads(self, name: str, x: Value, own: int, wanted: int) -> str:
        """Bring an array into the order [batch, heads, rows, elements], each head repeated for its queries."""
        batch, rows = x.shape[0], x.shape[-2]
        lead = [batch, own] if len(x.shape) == 4 else [batch, rows, own]
        rest = [rows, x.shape[-1]] if len(x.shape) == 4 else [x.shape[-1] // own]
        if own < wanted:
            apart = self.add("Reshape", name, self.array(np.array([*lead, 1, *rest])))
            name = self.add("Expand", apart, self.array(np.array([*lead, wanted // own, *rest])))
        if len(x.shape) == 3 or own < wanted:
            name = self.add("Reshape", name, self.array(np.array([*lead[:-1], wanted, *rest])))
        return self.add("Transpose", name, perm=(0, 2, 1, 3)) if len(x.shape) == 3 else name

    def bias(self, name: str, mask: Value, dtype: str) -> str:
        """Convert a mask to a summand of the scores."""
        if mask.dtype != "bool":
            return name
        seen, hidden = (self.array(np.asarray(number, dtype)) for number in (0.0, -math.inf))
        return self.add("Where", name, seen, hidden)
