"""`tvm.contrib.cblas`: products of matrices by NumPy's BLAS, as stages."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from pegbox import te
from pegbox.plugins.tvm.registry import register_func

Array: TypeAlias = np.ndarray[Any, Any]


def _matmul(a: Array, b: Array, out: Array, turn_a: bool, turn_b: bool) -> None:
    np.matmul(a.T if turn_a else a, b.T if turn_b else b, out=out)


register_func("tvm.contrib.cblas.matmul", _matmul, override=True)


def matmul(lhs: te.Tensor, rhs: te.Tensor, transa: bool = False, transb: bool = False, **kwargs: Any) -> Any:
    """Multiply two matrices, each transposed first on request. Its kernels run in this process only."""
    rows, columns = lhs.shape[1 if transa else 0], rhs.shape[0 if transb else 1]
    return te.extern(
        (rows, columns),
        [lhs, rhs],
        lambda ins, outs: te.call_python(lambda a, b, out: _matmul(a, b, out, transa, transb), ins[0], ins[1], outs[0]),
        name=kwargs.pop("name", "C"),
        **kwargs,
    )
