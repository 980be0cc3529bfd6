"""Matrix product: C[M, N] = A[M, K] · B[K, N].

`gemm` has the computation and the schedule, and `gemm_space` the knobs; `narrow_matmul` has all three for products of
few columns.
"""

from __future__ import annotations

import pegbox as pb
from pegbox import te
from pegbox.templates.gemm import multiply
from pegbox.templates.weights import packed


@pb.template("matmul")
def matmul(
    cfg: pb.TemplateConfig, M: int, K: int, N: int, dtype: str = "float32", weights: str = "plain"
) -> tuple[te.TESchedule, list[te.Tensor]]:
    """Compute C[M, N] = A[M, K] · B[K, N], row-major, of any shape, in float32 or float64 (other types run, untuned).

    With weights="packed" the kernel takes B as `pegbox.templates.pack_weights` lays it out for the task.
    """
    a = te.placeholder((M, K), name="A", dtype=dtype)
    b = te.placeholder((K, N), name="B", dtype=dtype)
    return multiply(cfg, a, b, weights)


matmul.packs("B", weights="packed")(packed)
