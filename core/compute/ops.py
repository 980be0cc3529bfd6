"""`te.placeholder`, `te.compute`, `te.reduce_axis` and the reductions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any, TypeGuard, cast, overload

from pegbox.checks import check_callable, check_float, check_list, check_mapping, check_text
from pegbox.compute import reducer
from pegbox.compute.axis import IterVar, Range, SizeVar
from pegbox.compute.reducer import Reduce
from pegbox.compute.tag import tag_of
from pegbox.compute.tensor import ComputeOp, PlaceholderOp, Tensor, TensorSlice
from pegbox.errors import ComputeError, PegboxError
from pegbox.expr import dtypes
from pegbox.expr.build import as_value, maximum, minimum
from pegbox.expr.nodes import Binary, Cast, Const, Expr
from pegbox.expr.visit import free_vars, walk
from pegbox.origin import Definition, located
from pegbox.shown import value_text

FLOP = "FLOP"
"""The attribute of an operation for the arithmetic that it counts as; the name is TVM's."""


def shape_of(shape: object, name: str) -> tuple[int, ...]:
    """Return the extents of the shape of an object called `name`.

    Raises:
        ComputeError: an extent is not a positive integer.
    """
    single = not isinstance(shape, Iterable) or getattr(shape, "ndim", None) == 0
    dims = (shape,) if single else tuple(cast(Iterable[object], shape))
    result = []
    for dim in dims:
        value = _extent(dim)
        if value is None and isinstance(dim, Expr):
            raise ComputeError(
                f"{name}: shape {dims!r} has the extent {dim}, which is known only when a kernel runs; give numbers, "
                "or size variables, n = te.var('n')"
            )
        if isinstance(value, Expr):
            result.append(value)
            continue
        if value is None or value < 1:
            raise ComputeError(
                f"{name}: shape {value_text(dims)} has the extent {value_text(dim)}; extents are integers from 1 up"
            )
        result.append(value)
    return tuple(result)


def _extent(value: object) -> int | None:
    """Return the value if it is an extent: an integer, or an expression of size variables in its place."""
    number = _integer(value)
    if number is not None or not isinstance(value, Expr) or not dtypes.is_int(value.dtype):
        return number
    known = all(isinstance(node, SizeVar | Const | Binary | Cast) for node in walk(value))
    return cast(int, value) if known else None


def placeholder(shape: Sequence[int], dtype: str = "float32", name: str = "placeholder") -> Tensor:
    """Make an input tensor.

    Raises:
        ComputeError: an extent is not a positive integer.
        ExprError: the dtype is unknown.
    """
    check_text("placeholder: name", name, error=ComputeError)
    return PlaceholderOp(name, shape_of(shape, name), dtypes.check(dtype)).outputs[0]


def reduce_axis(dom: Sequence[int], name: str = "rv") -> IterVar:
    """Make an axis to reduce over: `dom` is (first, one past the last); the last one may be a size variable.

    Raises:
        ComputeError: the domain is empty or not two integers.
    """
    check_text("reduce_axis: name", name, error=ComputeError)
    wanted = "(first, one past the last), such as (0, 64)"
    given_bounds = check_list(f"reduce_axis {name!r}: dom", dom, wanted, error=ComputeError)
    bounds = [_integer(given_bounds[0]), *map(_extent, given_bounds[1:])] if given_bounds else []
    for bound, given in zip(bounds, given_bounds, strict=True):
        if bound is None and isinstance(given, Expr):
            raise ComputeError(
                f"reduce_axis {name!r}: the bound {given} is known only when a kernel runs; give numbers (the last "
                "one may be a size variable), and leave out single points with a condition (te.sum(..., where=))"
            )
    if len(bounds) == 2:
        first, end = bounds
        if first is not None and end is not None and (isinstance(end, Expr) or first < end):
            return IterVar(name, Range(first, end - first), "reduce")
    raise ComputeError(
        f"reduce_axis {value_text(name)}: domain {value_text(tuple(given_bounds))}; give (first, one past the "
        "last), not empty"
    )


def _integer(value: object) -> int | None:
    """Return an argument as an integer. A quotient such as `64 / 16`, a float in Python, is accepted if it is whole."""
    number = _value(value)
    return int(number) if isinstance(number, float) and number.is_integer() else dtypes.integer(number)


def _value(value: object) -> object:
    return value.value if isinstance(value, Const) else value


@overload
def compute(
    shape: Sequence[int],
    fcompute: Callable[..., Expr | float],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> Tensor: ...
@overload
def compute(
    shape: Sequence[int],
    fcompute: Callable[..., Sequence[Expr | float]],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> tuple[Tensor, ...]: ...
def compute(
    shape: Sequence[int],
    fcompute: Callable[..., object],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """Make a tensor whose element at (i, j, ...) is `fcompute(i, j, ...)`; a tuple of them makes a tuple of tensors.

    `tag` and `attrs` are kept for searches of operations (`tensor.op.tag`, `tensor.op.attrs`). The attribute "FLOP" is
    the arithmetic that the whole operation counts as, in place of that of its expression. `varargs_names` are the names
    of the axes for a function of `*indices`.

    Raises:
        ComputeError: a reduction is not at the top of the expression, variables are unbound, outputs disagree, or an
            argument has the wrong kind.
    """
    check_text("compute: name", name, error=ComputeError)
    tag = tag_of(f"compute {name!r}", tag)
    wanted = "a function of the indices, such as lambda i, j: A[i, j]"
    check_callable(f"compute {name!r}: fcompute", fcompute, wanted, error=ComputeError)
    extents = shape_of(shape, name)
    axis = tuple(
        IterVar(n, Range(0, e), "spatial")
        for n, e in zip(_axis_names(fcompute, extents, varargs_names), extents, strict=True)
    )
    try:
        raw = fcompute(*axis)
    except PegboxError as error:
        raise located(error)  # noqa: B904  the same error, with the line of the function
    several = isinstance(raw, tuple | list)
    body = tuple(_element(v, name) for v in (raw if isinstance(raw, tuple | list) else (raw,)))
    if not body:
        raise ComputeError(f"{name}: the function gave {raw!r}; give an expression, or a tuple of at least one")
    _check(name, axis, body)
    op = ComputeOp(name, axis, body, attributes(name, attrs), tag, Definition.of(fcompute))
    return op.outputs if several else op.outputs[0]


def attributes(name: str, attrs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Check and return the attributes of an operation."""
    what = f"compute {name!r}: attrs"
    given = check_mapping(what, {} if attrs is None else attrs, "attributes by name", error=ComputeError)
    if FLOP in given:
        given[FLOP] = check_float(f"{what}[{FLOP!r}]", _value(given[FLOP]), error=ComputeError)
    return given


def _element(value: object, name: str) -> Expr:
    if isinstance(value, Tensor):
        raise ComputeError(f"{name}: the function gave the tensor {value.name} instead of an element; index it")
    if isinstance(value, TensorSlice):
        raise ComputeError(f"{name}: {value.reading}")
    return as_value(value)


def _axis_names(fcompute: Callable[..., object], extents: tuple[int, ...], varargs: Sequence[str] | None) -> list[str]:
    if type(fcompute) is FunctionType and not fcompute.__dict__ and not fcompute.__defaults__ and varargs is None:
        # Most functions are such lambdas, for which `inspect` would take a quarter of the time of `compute`.
        code = fcompute.__code__
        own = list(code.co_varnames[: code.co_argcount])
        rest = len(extents) if code.co_flags & inspect.CO_VARARGS else 0
        return _counted([*own, *(f"i{k}" for k in range(len(own), rest))], extents)
    names: list[str] = []
    try:
        parameters = list(inspect.signature(fcompute).parameters.values())
    except (TypeError, ValueError):
        return [f"i{k}" for k in range(len(extents))]
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"i{k}" for k in range(len(names), len(extents))] if varargs is None else varargs
        elif parameter.default is parameter.empty and parameter.kind is not parameter.KEYWORD_ONLY:
            names.append(parameter.name)
    return _counted(names, extents)


def _counted(names: list[str], extents: Sequence[int]) -> list[str]:
    if len(names) != len(extents):
        raise ComputeError(f"the shape has {len(extents)} dimension(s), but the function takes {len(names)} index(es)")
    return names


def _check(name: str, axis: tuple[IterVar, ...], body: tuple[Expr, ...]) -> None:
    first = body[0]
    if any(isinstance(expr, Reduce) for expr in body):
        for i, expr in enumerate(body):
            if not (isinstance(first, Reduce) and isinstance(expr, Reduce)) or (
                expr.sources != first.sources or expr.value_index != i
            ):
                raise ComputeError(f"{name}: all outputs of one compute must come from one reduction, in its order")
        assert isinstance(first, Reduce)
        if len(body) != len(first.sources):
            raise ComputeError(
                f"{name}: the reduction gives {len(first.sources)} values, of which {len(body)} are used"
            )
    parts: list[Expr] = []
    for expr in body:
        parts += [*expr.sources, expr.condition] if isinstance(expr, Reduce) else [expr]
    bound = set(axis) | set(first.axes if isinstance(first, Reduce) else ())
    for part in parts:
        _check_part(name, part, bound)


def _check_part(name: str, part: Expr, bound: set[IterVar]) -> None:
    try:
        free = free_vars(part)
        for node in walk(part):
            if node.dtype not in dtypes.BITS:
                raise ComputeError(f"{name}: {node} has no known dtype")
    except TypeError as error:
        raise ComputeError(
            f"{name}: a reduction must be the whole expression; compute it first, then use it in a second te.compute"
        ) from error
    if unbound := {var for var in free - bound if not isinstance(var, SizeVar)}:
        names = ", ".join(sorted(v.name for v in unbound))
        raise ComputeError(f"{name}: variable(s) {names} are bound by no axis of this compute")


def sum(
    expr: object, axis: IterVar | Sequence[IterVar] | None = None, where: object = None
) -> Reduce:  # the names are common in the field, though they hide built-ins
    """Sum over reduce axes, where `where` holds."""
    return cast(Reduce, reducer.apply(reducer.SUM, expr, axis, where))


def prod(expr: object, axis: IterVar | Sequence[IterVar] | None = None, where: object = None) -> Reduce:
    """Multiply over reduce axes."""
    return cast(Reduce, reducer.apply(reducer.PROD, expr, axis, where))


def max(expr: object, axis: object = None, where: object = None) -> Expr:
    """Find the largest value over reduce axes (the lowest value of the type if none qualifies).

    `max(a, b)` of two numbers is the larger one, as in TVM.
    """
    return cast(Reduce, reducer.apply(reducer.MAX, expr, axis, where)) if _is_axis(axis) else maximum(expr, axis)


def min(expr: object, axis: object = None, where: object = None) -> Expr:
    """Find the smallest value over reduce axes (the highest value of the type if none qualifies).

    `min(a, b)` of two numbers is the smaller one, as in TVM.
    """
    return cast(Reduce, reducer.apply(reducer.MIN, expr, axis, where)) if _is_axis(axis) else minimum(expr, axis)


def _is_axis(value: object) -> TypeGuard[IterVar | Sequence[IterVar] | None]:
    return value is None or isinstance(value, IterVar | list | tuple)
