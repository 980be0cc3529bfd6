"""`tvm.te.operation`: tensors. What TVM has beyond pegbox is refused, with the way that there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from pegbox import te
from pegbox.compute.scan_op import ScanOp as ScanOp
from pegbox.errors import ComputeError
from pegbox.expr import dtypes
from pegbox.loops.nodes import Function
from pegbox.plugins.tvm.absence import names
from pegbox.plugins.tvm.notice import means_nothing
from pegbox.te import Tensor
from pegbox.te import compute as compute
from pegbox.te import const as const
from pegbox.te import extern as extern
from pegbox.te import placeholder as placeholder
from pegbox.te import reduce_axis as reduce_axis
from pegbox.te import scan as scan
from pegbox.te import size_var as size_var
from pegbox.te import thread_axis as thread_axis
from pegbox.te import var as var

__getattr__ = names(__name__)


def create_prim_func(ops: Tensor | Sequence[Tensor], index_dtype_override: str | None = None) -> Function:
    """The program that computes the tensors, one plain nest for each operation; see `pegbox.te.create_prim_func`."""
    if index_dtype_override not in (None, dtypes.INDEX):
        means_nothing("create_prim_func(index_dtype_override=...)", "indices are int64")
    return te.create_prim_func(ops)


def extern_primfunc(input_tensors: Sequence[Tensor], primfunc: Function, **_options: object) -> NoReturn:
    """Refused: a program as a stage.

    Raises:
        ComputeError: always.
    """
    raise ComputeError(
        "te.extern_primfunc: a program is not a stage here; write its computation with te.compute, or schedule the "
        "program itself with tir.Schedule"
    )


def trace(*_arguments: object, **_options: object) -> NoReturn:
    """Refused: printing while a kernel runs.

    Raises:
        ComputeError: always.
    """
    raise ComputeError("te.trace: kernels print nothing; make the stage an output, and look at its array")
