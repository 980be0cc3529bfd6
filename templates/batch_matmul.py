"""A batch of matrix products: C[b] = A[b] · B[b]."""

from __future__ import annotations

import pegbox as pb
from pegbox import te
from pegbox.templates.gemm import multiply
from pegbox.templates.weights import packed


@pb.template("batch_matmul")
def batch_matmul(
    cfg: pb.TemplateConfig, batch: int, M: int, K: int, N: int, dtype: str = "float32", weights: str = "plain"
) -> tuple[te.TESchedule, list[te.Tensor]]:
    """C[b, M, N] = A[b, M, K] · B[b, K, N] for each b of the batch, row-major.

    With weights="packed" the kernel takes B as `pegbox.templates.pack_weights` lays it out for the task.
    """
    a = te.placeholder((batch, M, K), name="A", dtype=dtype)
    b = te.placeholder((batch, K, N), name="B", dtype=dtype)
    return multiply(cfg, a, b, weights)


batch_matmul.packs("B", weights="packed")(packed)
