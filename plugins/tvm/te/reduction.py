"""`te.sum` and its like: TVM's take a start of the reduction too, `init=`, which is refused with the remedy."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from pegbox import te
from pegbox.errors import ComputeError


def _with_init(reduce: Callable[..., Any], combination: str) -> Callable[..., Any]:
    @wraps(reduce)
    def reduction(expr: object, axis: Any = None, where: object = None, init: object = None) -> Any:
        if init is not None:
            raise ComputeError(
                f"{reduce.__name__}(..., init={init}): a reduction starts at the value that changes nothing, so that "
                f"schedules may split it; combine its result in a second te.compute: {combination.format(init)}"
            )
        return reduce(expr, axis, where)

    return reduction


sum = _with_init(te.sum, "B[i] + {}")
prod = _with_init(te.prod, "B[i] * {}")
max = _with_init(te.max, "te.maximum(B[i], {})")
min = _with_init(te.min, "te.minimum(B[i], {})")


def comm_reducer(
    fcombine: Callable[..., object], fidentity: Callable[..., object], name: str = "reduce"
) -> Callable[..., Any]:
    """A user's reducer; see `pegbox.te.comm_reducer`."""
    return _with_init(te.comm_reducer(fcombine, fidentity, name=name), f"{name}(B[i], {{}})")
