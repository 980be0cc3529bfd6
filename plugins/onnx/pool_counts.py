"""The numbers of pooling windows, which the package onnx overestimates in versions of operators before 22."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import onnx

from pegbox.plugins.onnx.inference import infer, inferred_types
from pegbox.plugins.onnx.model_file import is_own, opset_of

_POOLS = "AveragePool", "LpPool", "MaxPool"
_CORRECT = 22
"""The version from which a last window that would begin after the input is no longer inferred."""


def round_counts_down(model: onnx.ModelProto) -> None:
    """Replace `ceil_mode` by equivalent borders if the last window of an axis would begin after the input.

    AveragePool keeps the borders that it counts in `counted_pads`, an attribute that files cannot have.
    """
    if opset_of(model) >= _CORRECT:
        return
    own = [node for node in model.graph.node if node.op_type in _POOLS and is_own(node.domain)]
    pools = [(node, given) for node in own if (given := _attributes(node)).get("ceil_mode")]
    shapes = _shapes(model) if pools else {}
    for node, given in pools:
        pads = _equivalent_pads(given, (shapes.get(node.input[0]) or ())[2:])
        if pads is None:
            continue
        kept = [each for each in node.attribute if each.name not in ("ceil_mode", "pads")]
        del node.attribute[:]
        named = {"pads": pads, "counted_pads": given.get("pads") or [0] * len(pads)}
        node.attribute.extend([*kept, *itertools.starmap(onnx.helper.make_attribute, named.items())])
        shapes = _shapes(model)  # the shapes of values that depend on it


def _equivalent_pads(given: dict[str, Any], extents: Sequence[int]) -> list[int] | None:
    """Return the borders that give the same windows rounded down; None if none begins after the input."""
    rank = len(extents)
    pads = list(given.get("pads") or [0] * (2 * rank))
    strides, dilations = (given.get(name) or [1] * rank for name in ("strides", "dilations"))
    found = False
    for d, (e, k, s, step) in enumerate(zip(extents, given["kernel_shape"][:rank], strides, dilations, strict=True)):
        room = e + pads[d] + pads[d + rank] - step * (k - 1) - 1
        if room % s and (room // s + 1) * s >= e + pads[d]:
            found = True
        elif room % s:
            pads[d + rank] += s - room % s
    return pads if found else None


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}


def _shapes(model: onnx.ModelProto) -> dict[str, tuple[int, ...] | None]:
    made = infer(model)
    made.graph.value_info.extend(made.graph.input)
    return {name: each.shape for name, each in inferred_types(made).items()}
