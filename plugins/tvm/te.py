"""`tvm.te`: pegbox's compute language, and the reductions that start with a value, `init=`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from pegbox import te
from pegbox.compute import ComputeOp as ComputeOp
from pegbox.compute import ExternOp as ExternOp
from pegbox.compute import PlaceholderOp as PlaceholderOp
from pegbox.compute import ScanOp as ScanOp
from pegbox.te import *  # noqa: F403
from pegbox.te import TESchedule as Schedule  # noqa: F401

Values = tuple[Any, ...]


def __dir__() -> list[str]:
    return [*te.__all__, "ComputeOp", "ExternOp", "PlaceholderOp", "ScanOp", "Schedule"]


def _with_init(reduce: Callable[..., Any], combine: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Make a reduction take `init`, a number or an expression of the outer axes.

    The first step combines it with the first value: so it counts once, however a schedule splits the reduction.
    """

    @wraps(reduce)
    def reduction(expr: Any, axis: Any = None, where: Any = None, init: Any = None) -> Any:
        if init is None:
            return reduce(expr, axis, where)
        axes = [axis] if isinstance(axis, te.IterVar) else axis
        first = te.all(*(k.equal(k.dom.min) for k in axes))
        starts, values = _tuple(init), _tuple(expr)
        combined = _tuple(combine(init, expr))
        if where is not None:
            combined = tuple(te.if_then_else(where, c, start) for c, start in zip(combined, starts, strict=True))
            where = te.any(first, where)
        made = tuple(te.if_then_else(first, c, value) for c, value in zip(combined, values, strict=True))
        return reduce(made if isinstance(expr, tuple) else made[0], axis, where)

    return reduction


def _tuple(value: Any) -> Values:
    return value if isinstance(value, tuple) else (value,)


sum = _with_init(te.sum, lambda a, b: a + b)
prod = _with_init(te.prod, lambda a, b: a * b)
max = _with_init(te.max, te.maximum)
min = _with_init(te.min, te.minimum)


def comm_reducer(  # type: ignore[no-redef]
    fcombine: Callable[..., object], fidentity: Callable[..., object], name: str = "reduce"
) -> Callable[..., Any]:
    """Make a reducer; see `pegbox.te.comm_reducer`."""
    return _with_init(te.comm_reducer(fcombine, fidentity, name=name), fcombine)
