"""`tvm.contrib.cblas`: products of matrices by NumPy's BLAS, as stages."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from pegbox import te
from pegbox.plugins.tvm.packed import call_packed
from pegbox.plugins.tvm.registry import register_func

Array: TypeAlias = np.ndarray[Any, Any]


@register_func("tvm.contrib.cblas.matmul", override=True)
def _matmul(
    a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], out: np.ndarray[Any, Any], turn_a: Any, turn_b: Any
) -> None:
    np.matmul(a.T if turn_a else a, b.T if turn_b else b, out=out)


def matmul(lhs: te.Tensor, rhs: te.Tensor, transa: bool = False, transb: bool = False, **kwargs: Any) -> Any:
    """A · B of two matrices, each transposed first where it is said so. Its kernels run in this process only."""
    rows, columns = lhs.shape[1 if transa else 0], rhs.shape[0 if transb else 1]
    return te.extern(
        (rows, columns),
        [lhs, rhs],
        lambda ins, outs: call_packed("tvm.contrib.cblas.matmul", ins[0], ins[1], outs[0], transa, transb),
        name=kwargs.pop("name", "C"),
        **kwargs,
    )
