"""Matrix products."""

from __future__ import annotations

from typing import Any

from pegbox import te
from pegbox.compute import elementwise
from pegbox.plugins.onnx.operator import OperatorNode, operator
from pegbox.plugins.onnx.operators.casts import in_float32
from pegbox.plugins.onnx.operators.computed import computed


def product(a: te.Tensor, b: te.Tensor, *, name: str = "MatMul") -> te.Tensor:
    """Multiply stacks of matrices as NumPy's matmul does."""
    shape_a = a.shape if a.ndim > 1 else (1, *a.shape)
    shape_b = b.shape if b.ndim > 1 else (*b.shape, 1)
    rank = max(len(shape_a), len(shape_b)) - 2
    batch_a, batch_b = ((1,) * (rank + 2 - len(s)) + tuple(s[:-2]) for s in (shape_a, shape_b))
    batch = tuple(max(p, q) for p, q in zip(batch_a, batch_b, strict=True))
    k = te.reduce_axis((0, shape_a[-1]), name="k")
    rows, columns = (shape_a[-2],) * (a.ndim > 1), (shape_b[-1],) * (b.ndim > 1)

    def element(*at: Any) -> Any:
        outer, inner = at[:rank], list(at[rank:])
        i = [inner.pop(0)] if rows else []
        j = [inner.pop(0)] if columns else []

        def of(x: te.Tensor, own: Any) -> list[Any]:
            used = len(own) and x.ndim - 2
            return [0 if own[d] == 1 else outer[d] for d in range(rank - max(x.ndim - 2, 0), rank)] if used else []

        x, y = a(*of(a, batch_a), *i, k), b(*of(b, batch_b), k, *j)
        return te.sum(x * y, axis=k)

    return computed((*batch, *rows, *columns), element, name=name)


@operator("MatMul")
@in_float32
def matmul(node: OperatorNode, a: te.Tensor, b: te.Tensor) -> te.Tensor:
    return product(a, b)


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
