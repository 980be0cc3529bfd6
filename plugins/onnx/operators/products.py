"""Matrix products."""

from __future__ import annotations

from pegbox import te
from pegbox.compute import elementwise
from pegbox.compute import matmul as product
from pegbox.plugins.onnx.operator import OperatorNode, operator
from pegbox.plugins.onnx.operators.casts import in_float32
from pegbox.plugins.onnx.operators.computed import computed


@operator("MatMul")
@in_float32
def matmul(node: OperatorNode, a: te.Tensor, b: te.Tensor) -> te.Tensor:
    return product(a, b, name="MatMul")


@operator("Gemm")
@in_float32
def gemm(node: OperatorNode, a: te.Tensor, b: te.Tensor, c: te.Tensor | None = None) -> te.Tensor:
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    across, down = node.get("transA", 0), node.get("transB", 0)
    rows, depth = a.shape[::-1] if across else a.shape
    columns = b.shape[0] if down else b.shape[1]
    k = te.reduce_axis((0, depth), name="k")
    made = computed(
        (rows, columns),
        lambda i, j: te.sum((a[k, i] if across else a[i, k]) * (b[j, k] if down else b[k, j]), axis=k),
        name="Gemm",
    )
    if alpha != 1.0:
        made = elementwise(lambda e: e * te.const(alpha, e.dtype), made, name="scaled")
    if c is None:
        return made
    return elementwise(lambda e, x: e + (x if beta == 1.0 else x * te.const(beta, e.dtype)), made, c, name="biased")
