"""Matrix product: C[M, N] = A[M, K] · B[K, N]."""

from __future__ import annotations

from typing import Any

import pegbox as pb
from pegbox import te
from pegbox.templates import gemm, narrow


@pb.template("matmul")
def matmul(cfg: Any, M: int, K: int, N: int, dtype: str = "float32") -> Any:
    """C[M, N] = A[M, K] · B[K, N], row-major, any shape; float32 or float64 (other types run, untuned for them)."""
    a = te.placeholder((M, K), name="A", dtype=dtype)
    b = te.placeholder((K, N), name="B", dtype=dtype)
    kind = narrow if narrow.fits(K, N, dtype) else gemm
    kind.declare(cfg, M, K, N, dtype)
    return kind.product(cfg, a, b)
