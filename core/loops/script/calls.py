"""Reader of calls of T's names in expressions: `T.max(a, b)`, `T.float32(0)`, `T.if_then_else(...)`, ..."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, overload

from pegbox.expr import build, dtypes, intrinsics
from pegbox.expr.low_level import ACCESS, Address, Broadcast, Reinterpret, call_extern, call_llvm
from pegbox.expr.nodes import Call, Expr
from pegbox.expr.operators import COMPARE
from pegbox.loops.script.vectors import Lane, check_count, reading

if TYPE_CHECKING:
    from pegbox.loops.script.expressions import Expressions

Handler = Callable[["Expressions", ast.Call], Any]


@overload
def arguments(e: Expressions, node: ast.Call, *names: str) -> list[ast.expr]: ...
@overload
def arguments(e: Expressions, node: ast.Call, *names: str, optional: int) -> list[ast.expr | None]: ...
def arguments(e: Expressions, node: ast.Call, *names: str, optional: int = 0) -> Any:
    """List the syntax of a call's arguments by name; the last `optional` ones may be missing."""
    found: dict[str, ast.expr | None] = dict(zip(names, node.args, strict=False))
    word = ast.unparse(node.func)
    for keyword in node.keywords:
        if keyword.arg not in names or keyword.arg in found:
            e.fail(keyword, f"{word} has no further argument {keyword.arg!r}", f"its arguments are {', '.join(names)}")
        found[keyword.arg] = keyword.value
    needed = names[: len(names) - optional]
    if len(node.args) > len(names) or any(name not in found for name in needed):
        e.fail(node, f"{word} takes {', '.join(names) or 'nothing'}, and was given {len(node.args)} argument(s)")
    return [found.get(name) for name in names]


def dtype_of(e: Expressions, node: ast.expr, *, vectors: bool = False) -> str:
    """Read the name of a type, as text or as `T.float32`."""
    value = e.value(node)
    name = getattr(value, "name", value) if not isinstance(value, str) else value
    if not isinstance(name, str):
        e.fail(node, f"{ast.unparse(node)} is not a dtype", 'write its name, such as "float32"')
    checked = str(e.guarded(node, dtypes.check_value if vectors else dtypes.check, name))
    if e.lane is not None and (count := dtypes.lanes(checked)):
        check_count(e, node, count)
        return dtypes.element(checked)
    return checked


def _convert(name: str) -> Handler:
    """Read `T.float32(0)`, a constant of that type or a conversion to it."""

    def handler(e: Expressions, node: ast.Call) -> Expr:
        (a,) = arguments(e, node, "value")
        value = e.value(a)
        if isinstance(value, str) and dtypes.is_float(name):
            value = e.guarded(node, float, value)
        value = e.checked(a, value)
        if isinstance(value, Expr):
            result: Expr = e.guarded(node, build.cast, name, value)
            return result
        constant: Expr = e.guarded(node, build.const, value, name)
        return constant

    return handler


def _cast(first: str, second: str) -> Handler:
    """Read `T.Cast(dtype, value)` or `T.cast(value, dtype)`: TVM has both orders."""

    def handler(e: Expressions, node: ast.Call) -> Expr:
        found = dict(zip((first, second), arguments(e, node, first, second), strict=True))
        dtype, value = found["dtype"], found["value"]
        result: Expr = e.guarded(node, build.cast, dtype_of(e, dtype, vectors=True), e.scalar(value))
        return result

    return handler


def _plain(function: Callable[..., Any], *names: str) -> Handler:
    def handler(e: Expressions, node: ast.Call) -> Any:
        return e.guarded(node, function, *map(e.scalar, arguments(e, node, *names)))

    return handler


def _typed(plain: Handler) -> Handler:
    """Check the type of a value, which TVM's calls may also give: `T.sqrt(x, dtype="float32")`."""

    def handler(e: Expressions, node: ast.Call) -> Any:
        said = [keyword.value for keyword in node.keywords if keyword.arg == "dtype"]
        rest = [keyword for keyword in node.keywords if keyword.arg != "dtype"]
        value = plain(e, ast.copy_location(ast.Call(node.func, node.args, rest), node) if said else node)
        for dtype in said:
            name, found = dtype_of(e, dtype, vectors=True), build.as_expr(value).dtype
            if name != found and not (dtypes.is_int(name) and found == dtypes.INDEX):
                e.fail(dtype, f"{ast.unparse(node.func)} of these arguments is {found}, not {name}")
        return value

    return handler


def _many(function: Callable[[Any, Any], Any]) -> Handler:
    def handler(e: Expressions, node: ast.Call) -> Any:
        if not node.args or node.keywords:
            e.fail(node, f"{ast.unparse(node.func)} takes values, one after the other")
        values = [e.scalar(a) for a in node.args]
        result = values[0]
        for value in values[1:]:
            result = e.guarded(node, function, result, value)
        return result

    return handler


def _limit(which: int) -> Handler:
    def handler(e: Expressions, node: ast.Call) -> Expr:
        (dtype,) = arguments(e, node, "dtype")
        name = dtype_of(e, dtype)
        return build.const(dtypes.value_range(name)[which], name)

    return handler


def _infinity(e: Expressions, node: ast.Call) -> Expr:
    (dtype,) = arguments(e, node, "dtype")
    name = dtype_of(e, dtype)
    if not dtypes.is_float(name):
        e.fail(dtype, f"{name} has no infinity", "use T.max_value")
    return build.const(float("inf"), name)


def _address(e: Expressions, node: ast.Call) -> Expr:
    """Read `T.address(A[i, j:j + 16], "r")`."""
    place, access = arguments(e, node, "place", "access")
    region, how = e.region(place), e.value(access)
    if how not in ACCESS:
        e.fail(access, f"unknown access {how!r}", f"use one of {', '.join(map(repr, ACCESS))}")
    return Address(region.buffer, tuple(lo for lo, _ in region.box), tuple(count for _, count in region.box), how)


def _broadcast(e: Expressions, node: ast.Call) -> Expr:
    value, lanes = arguments(e, node, "value", "lanes")
    if e.lane is not None:
        check_count(e, node, e.integer(lanes, "number of lanes"))
        return build.as_expr(e.scalar(value))
    return Broadcast(build.as_expr(e.scalar(value)), e.integer(lanes, "number of lanes"))


def _ramp(e: Expressions, node: ast.Call) -> Expr:
    base_node, stride_node, lanes = arguments(e, node, "base", "stride", "lanes")
    base, stride = e.scalar(base_node), e.scalar(stride_node)
    number = check_count(e, node, e.integer(lanes, "number of lanes")).number

    def place() -> Expr:
        return build.add(base, build.mul(build.cast(build.as_expr(base).dtype, number), stride))

    result: Expr = e.guarded(node, place)
    return result


def _half(high: bool) -> Handler:
    """Read `T.vectorlow(dtype, vector)` or `T.vectorhigh(dtype, vector)`, the first or the last half of the lanes."""

    def handler(e: Expressions, node: ast.Call) -> Any:
        dtype, vector = arguments(e, node, "dtype", "vector")
        lane = check_count(e, node, dtypes.lanes(_vector(e, dtype)))
        with reading(e, Lane(lane.at(build.index(lane.count)) if high else lane.number, 2 * lane.count)):
            return e.scalar(vector)

    return handler


def _combined(e: Expressions, node: ast.Call) -> Expr:
    """Read `T.vectorcombine(dtype, low, high)`, the lanes of one vector followed by those of another."""
    dtype, low, high = arguments(e, node, "dtype", "low", "high")
    lane = check_count(e, node, dtypes.lanes(_vector(e, dtype)))
    count = lane.count // 2
    with reading(e, Lane(lane.number, count)):
        first = e.scalar(low)
    with reading(e, Lane(build.sub(lane.number, count), count)):
        second = e.scalar(high)
    return build.select(build.compare("lt", lane.number, count), first, second)


def _vector(e: Expressions, node: ast.expr) -> str:
    """Return the name of a vector type."""
    name = str(e.value(node))
    if not dtypes.lanes(e.guarded(node, dtypes.check_value, name)):
        e.fail(node, f"{name} is not a vector type", 'write its lanes, such as "float32x4"')
    return name


def _reinterpret(e: Expressions, node: ast.Call) -> Expr:
    dtype, value = arguments(e, node, "dtype", "value")
    name, bits = dtype_of(e, dtype, vectors=True), build.as_expr(e.scalar(value))
    if dtypes.total_bits(name) != dtypes.total_bits(bits.dtype):
        e.fail(node, f"{bits} is {bits.dtype}, which has another size than {name}")
    return Reinterpret(name, bits)


def _machine(make: Callable[..., Expr]) -> Handler:
    """Make the reader of a call like `T.call_extern("int32", "name", ...)`."""

    def handler(e: Expressions, node: ast.Call) -> Expr:
        said = [keyword.value for keyword in node.keywords if keyword.arg == "dtype"]  # as TVM printed it before 0.9
        given = [*said, *node.args]
        if len(given) < 2 or len(said) != len(node.keywords):
            e.fail(node, f"{ast.unparse(node.func)} takes a dtype, a name, and the arguments of the call")
        name = e.value(given[1])
        if not isinstance(name, str):
            e.fail(given[1], f"{name!r} is not a name", "write it as text")
        parts = [build.as_expr(e.scalar(a)) for a in given[2:]]
        result: Expr = e.guarded(node, make, dtype_of(e, given[0], vectors=True), name, *parts)
        return result

    return handler


def _intrinsic(name: str) -> Handler:
    names = ("x", "y")[: intrinsics.ARITY[name]]
    return _typed(_plain(lambda *args: intrinsics.call(name, *args), *names))


# Functions of two operands, with all of their names.
_BINARY: dict[str, Callable[[Any, Any], Expr]] = {
    "Add": build.add, "Sub": build.sub, "Mul": build.mul, "Div": build.div, "Min": build.minimum, "Max": build.maximum,
    "floordiv indexdiv FloorDiv": build.floordiv, "floormod indexmod FloorMod": build.floormod,
}  # fmt: skip

CALLS: dict[str, Handler] = {
    **{name: _convert(name) for name in dtypes.BITS},
    **{name: _intrinsic(name) for name in intrinsics.ARITY},
    "power": _intrinsic("pow"),
    "bitwise_not": _typed(_plain(intrinsics.inverted, "x")),
    "Cast": _cast("dtype", "value"),
    "cast": _cast("value", "dtype"),
    **{name: _plain(function, "a", "b") for names, function in _BINARY.items() for name in names.split()},
    "if_then_else": _typed(_plain(build.select, "cond", "true_value", "false_value")),
    "Select": _plain(build.select, "condition", "true_value", "false_value"),
    "min": _many(build.minimum),
    "max": _many(build.maximum),
    **dict.fromkeys(("And", "all"), _many(build.logical_and)),
    **dict.fromkeys(("Or", "any"), _many(build.logical_or)),
    "Not": _plain(build.logical_not, "a"),
    "likely": _typed(_plain(lambda condition: condition, "condition")),
    "min_value": _limit(0),
    "max_value": _limit(1),
    "infinity": _infinity,
    **{name.upper(): _plain(partial(build.compare, name), "a", "b") for name in COMPARE},
    "address": _address,
    **dict.fromkeys(("Broadcast", "broadcast"), _broadcast),
    **dict.fromkeys(("Ramp", "ramp"), _ramp),
    "vectorlow": _half(False),
    "vectorhigh": _half(True),
    "vectorcombine": _combined,
    "reinterpret": _reinterpret,
    "call_extern": _machine(call_extern),
    "call_llvm_intrin": _machine(call_llvm),
    "call_intrin": _machine(lambda dtype, name, *args: Call(name, args, dtype)),
}
