"""`tir.call_packed`: calls of functions that scripts register (`tvm.register_func`), for `te.extern`."""

from __future__ import annotations

from typing import Any

import numpy as np

from pegbox import te
from pegbox.errors import ComputeError
from pegbox.expr.nodes import Const
from pegbox.plugins.tvm.registry import get_global_func
from pegbox.plugins.tvm.runtime.ndarray import NDArray
from pegbox.schedule.te.intrinsic import IntrinBuffer


def call_packed(func_name: str, *args: Any, span: object = None) -> te.Expr:
    """A call of a registered function on buffers and numbers. Such kernels run in this process only.

    Raises:
        ComputeError: an argument is neither.
    """
    buffers = [arg for arg in args if isinstance(arg, IntrinBuffer)]
    numbers = [None if isinstance(arg, IntrinBuffer) else _number(func_name, arg) for arg in args]

    def called(*arrays: np.ndarray[Any, Any]) -> None:
        given = iter(arrays)
        known = [
            next(given).view(NDArray) if isinstance(arg, IntrinBuffer) else number
            for arg, number in zip(args, numbers, strict=True)
        ]
        get_global_func(func_name)(*known)

    return te.call_python(called, *buffers)


call_cpacked = call_packed


def _number(name: str, value: Any) -> Any:
    plain = value.value if isinstance(value, Const) else value
    if not isinstance(plain, bool | int | float | str):
        raise ComputeError(f"call_packed({name!r}): {value!r}: give buffers and numbers")
    return plain
