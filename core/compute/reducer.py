"""Reducers: the combiner and the identity of a reduction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pegbox.checks import check_callable, check_flag, check_list, check_text
from pegbox.compute.axis import IterVar
from pegbox.errors import ComputeError
from pegbox.expr import dtypes
from pegbox.expr.build import TRUE, add, as_expr, as_value, const, maximum, minimum, mul
from pegbox.expr.nodes import Expr, Var
from pegbox.expr.visit import free_vars, loads
from pegbox.shown import value_text

Values = tuple[Expr, ...]


@dataclass(frozen=True)
class Reducer:
    """An associative combination of tuples of values, with its identity; a commutative one if it is not `ordered`.

    `combine(accumulated, new)` and `identity(dtypes)` both have as many values as the reduction has outputs.
    """

    name: str
    combine: Callable[[Values, Values], Values]
    identity: Callable[[tuple[str, ...]], Values]
    ordered: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle built-in reducers by name, and a user's by its functions, which must be in a module."""
        own = {reducer.name: reducer for reducer in (SUM, PROD, MAX, MIN)}
        if own.get(self.name) is self:
            return _own, (self.name,)
        return Reducer, (self.name, self.combine, self.identity, self.ordered)


class Reduce(Expr):
    """The reduction of `sources` over `axes` where `condition` holds; this node gives output `value_index`."""

    __slots__ = ("axes", "condition", "reducer", "sources", "value_index")

    def __init__(
        self, reducer: Reducer, sources: Values, axes: tuple[IterVar, ...], condition: Expr, value_index: int
    ) -> None:
        self.reducer = reducer
        self.sources = sources
        self.axes = axes
        self.condition = condition
        self.value_index = value_index
        self.dtype = sources[value_index].dtype

    __hash__ = object.__hash__

    def show(self) -> str:
        sources = ", ".join(map(repr, self.sources))
        return f"{self.reducer.name}({sources}, axis=[{', '.join(iv.name for iv in self.axes)}])"


def map_body(body: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Change the element expression of a computation, below the reduction if there is one."""
    if not isinstance(body, Reduce):
        return change(body)
    sources = tuple(map(change, body.sources))
    return Reduce(body.reducer, sources, body.axes, change(body.condition), body.value_index)


def map_bodies(body: tuple[Expr, ...], change: Callable[[Expr], Expr]) -> tuple[Expr, ...]:
    """Change the element expressions of a computation; the outputs of one reduction still share its operands."""
    first = body[0]
    if not isinstance(first, Reduce):
        return tuple(map(change, body))
    sources, condition = tuple(map(change, first.sources)), change(first.condition)
    return tuple(Reduce(first.reducer, sources, first.axes, condition, place) for place in range(len(body)))


SUM = Reducer("sum", lambda a, b: (add(a[0], b[0]),), lambda t: (const(0, t[0]),))
PROD = Reducer("prod", lambda a, b: (mul(a[0], b[0]),), lambda t: (const(1, t[0]),))
MAX = Reducer("max", lambda a, b: (maximum(a[0], b[0]),), lambda t: (const(dtypes.value_range(t[0])[0], t[0]),))
MIN = Reducer("min", lambda a, b: (minimum(a[0], b[0]),), lambda t: (const(dtypes.value_range(t[0])[1], t[0]),))


def _own(name: str) -> Reducer:
    """Return the built-in reducer of that name."""
    return next(reducer for reducer in (SUM, PROD, MAX, MIN) if reducer.name == name)


def apply(
    reducer: Reducer, sources: object, axis: IterVar | Sequence[IterVar] | None, where: object = None
) -> Reduce | tuple[Reduce, ...]:
    """Reduce one value (or a tuple of values) over one or several reduce axes.

    Raises:
        ComputeError: an axis does not come from `reduce_axis`, none is given, or the reducer returns another number of
            values than it takes.
    """
    if axis is None:
        raise ComputeError(
            f"{reducer.name}: axis=None; name the axis to reduce over, as in k = te.reduce_axis((0, n)) and "
            f"{reducer.name}(A[i, k], axis=k)"
        )
    wanted = "an axis from te.reduce_axis((0, n)), or several of them"
    given_axes = [axis] if isinstance(axis, IterVar) else axis
    axes = tuple(check_list(f"{reducer.name}: axis", given_axes, wanted, error=ComputeError))
    if not axes:
        raise ComputeError(f"{reducer.name}: no axis given; make one with te.reduce_axis((0, n))")
    for iv in axes:
        if not isinstance(iv, IterVar) or iv.kind != "reduce":
            raise ComputeError(
                f"{reducer.name}: axis {value_text(iv)} is not a reduce axis; make one with te.reduce_axis((0, n))"
            )
    if len({id(iv) for iv in axes}) != len(axes):
        raise ComputeError(f"{reducer.name}: an axis is given twice in {[iv.name for iv in axes]}")
    values = tuple(map(as_value, sources)) if isinstance(sources, tuple) else (as_value(sources),)
    for value in values:
        if isinstance(value, Reduce):
            raise ComputeError(
                f"{reducer.name}: reductions do not nest; reduce over several axes at once, or in two stages"
            )
        if value.dtype == "bool":
            raise ComputeError(f"{reducer.name}: cannot reduce bool values; te.cast them to an integer type first")
    condition = TRUE if where is None else as_expr(where)
    if condition.dtype != "bool":
        raise ComputeError(f"{reducer.name}: where={condition} is of dtype {condition.dtype}; give a comparison")
    types = tuple(v.dtype for v in values)
    operands = [tuple(Var(f"{side}{number}", dtype) for number, dtype in enumerate(types)) for side in "ab"]
    try:
        made = {"combine": reducer.combine(*operands), "identity": reducer.identity(types)}
    except (TypeError, IndexError, ValueError) as error:
        raise ComputeError(
            f"{reducer.name}: does not take {len(values)} value(s) of {', '.join(types)}: {error}"
        ) from error
    for what, given in made.items():
        if len(given) != len(values):
            raise ComputeError(f"{reducer.name}: takes {len(values)} value(s), but {what} gives {len(given)}")
        if (dtypes_given := tuple(v.dtype for v in given)) != types:
            raise ComputeError(
                f"{reducer.name}: {what} gives {', '.join(dtypes_given)} where {', '.join(types)} is reduced; "
                "use te.const(value, dtype) and te.cast"
            )
        for value in given:
            outside = [*map(str, free_vars(value).difference(*operands)), *(load.buffer.name for load in loads(value))]
            if outside:
                raise ComputeError(
                    f"{reducer.name}: {what} depends on {', '.join(sorted(outside))}, so that partial results could "
                    "not be combined in another order; reduce first, and add the rest in a second te.compute"
                )
    nodes = tuple(Reduce(reducer, values, axes, condition, i) for i in range(len(values)))
    return nodes if isinstance(sources, tuple) else nodes[0]


def comm_reducer(
    fcombine: Callable[..., object],
    fidentity: Callable[..., object],
    *,
    name: str = "reduce",
    ordered: bool = False,
) -> Callable[..., Reduce | tuple[Reduce, ...]]:
    """Make a user's reducer, in TVM's form: `fcombine(a, b)` and `fidentity(dtype)`, over tuples for several outputs.

    >>> argmax = comm_reducer(
    ...     lambda a, b: (te.select(a[1] >= b[1], a[0], b[0]), te.maximum(a[1], b[1])),
    ...     lambda i, v: (te.const(-1, i), te.min_value(v)), name="argmax")

    The result is called as `argmax((index, value), axis=k)`, or `add(x, y)` for the combination of two values. The
    combination must be commutative and associative, as schedules reorder and split it.

    Args:
        ordered: the combination is associative, but not commutative: values are combined in the order of the axes, the
            last of which runs fastest, and schedules that would change it are refused.
    """

    ordered = check_flag("comm_reducer: ordered", ordered, error=ComputeError)
    check_text("comm_reducer: name", name, error=ComputeError)
    check_callable("comm_reducer: fcombine", fcombine, "a function of two values, lambda a, b: ...", error=ComputeError)
    check_callable("comm_reducer: fidentity", fidentity, "a function of the dtype, lambda t: ...", error=ComputeError)

    def tuples(value: object) -> Values:
        return tuple(as_expr(v) for v in value) if isinstance(value, tuple) else (as_expr(value),)

    def combine(a: Values, b: Values) -> Values:
        return tuples(fcombine(a[0], b[0]) if len(a) == 1 else fcombine(a, b))

    reducer = Reducer(name, combine, lambda types: tuples(fidentity(*types)), ordered)

    def reduce(expr: object, axis: Any = None, where: object = None) -> Any:
        if where is None and isinstance(axis, Expr) and not isinstance(axis, IterVar):
            return combine((as_expr(expr),), (axis,))[0]
        return apply(reducer, expr, axis, where)

    reduce.__name__ = name
    return reduce
