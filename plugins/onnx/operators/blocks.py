"""Operators between blocks of pixels and channels."""

from __future__ import annotations

from typing import Any

from pegbox import te
from pegbox.plugins.onnx.operator import OperatorNode, operator
from pegbox.plugins.onnx.operators.computed import computed
from pegbox.plugins.onnx.operators.shapes import Index


@operator("DepthToSpace")
def depth_to_space(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    b, (n, c, h, w) = node.get("blocksize"), x.shape
    out = c // (b * b)
    first = node.get("mode", "DCR") == "DCR"

    def element(i: Index, o: Index, y: Index, z: Index) -> Any:
        block = te.floormod(y, b) * b + te.floormod(z, b)
        channel = block * out + o if first else o * (b * b) + block
        return x(i, channel, te.floordiv(y, b), te.floordiv(z, b))

    return computed((n, out, h * b, w * b), element, name="DepthToSpace")


@operator("SpaceToDepth")
def space_to_depth(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    b, (n, c, h, w) = node.get("blocksize"), x.shape
    first = node.get("mode", "DCR") == "DCR"

    def element(i: Index, o: Index, y: Index, z: Index) -> Any:
        block = te.floordiv(o, c) if first else te.floormod(o, b * b)
        return x(
            i,
            te.floormod(o, c) if first else te.floordiv(o, b * b),
            y * b + te.floordiv(block, b),
            z * b + te.floormod(block, b),
        )

    return computed((n, c * b * b, h // b, w // b), element, name="SpaceToDepth")
