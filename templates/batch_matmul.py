"""A batch of matrix products: C[b] = A[b] · B[b]."""

from __future__ import annotations

from typing import Any

import pegbox as pb
from pegbox import te
from pegbox.templates import gemm, narrow


@pb.template("batch_matmul")
def batch_matmul(cfg: Any, batch: int, M: int, K: int, N: int, dtype: str = "float32") -> Any:
    """C[b, M, N] = A[b, M, K] · B[b, K, N] for each b of the batch, row-major."""
    a = te.placeholder((batch, M, K), name="A", dtype=dtype)
    b = te.placeholder((batch, K, N), name="B", dtype=dtype)
    kind = narrow if narrow.fits(K, N, dtype) else gemm
    kind.declare(cfg, M, K, N, dtype)
    return kind.product(cfg, a, b)
