"""Walking and rewriting expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from pegbox.expr import build
from pegbox.expr.low_level import Broadcast, Reinterpret, Stride
from pegbox.expr.nodes import Binary, Buffer, Call, Cast, Compare, Const, Expr, Load, Logic, Not, Select, Var

Box: TypeAlias = tuple[tuple[Expr, int], ...]
"""The lowest index and the number of elements along each dimension."""

Targets: TypeAlias = Mapping[Buffer, tuple[Buffer, Callable[[Box], Box]]]
"""A function that maps a box of a buffer to the buffer to use in its place, and the box there."""


def in_front(*indices: Expr) -> Callable[[Box], Box]:
    """Prepend indices to those of a box."""
    return lambda box: (*((index, 1) for index in indices), *box)


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the direct operands of a node."""
    kind = type(expr)
    # Most nodes have one of these classes, for which a table is enough.
    if kind is Var or kind is Const:
        return ()
    if kind is Binary:
        return (expr.a, expr.b)  # type: ignore[attr-defined]
    match expr:
        case Const() | Var():
            return ()
        case Binary() | Compare() | Logic():
            return (expr.a, expr.b)
        case Select(cond, a, b):
            return (cond, a, b)
        case Not() | Cast():
            return (expr.a,)
        case Call():
            return expr.args
        case Load():
            return expr.indices
        case Stride():
            return ()
        case Broadcast() | Reinterpret():
            return (expr.a,)
        case _:
            raise TypeError(f"unknown expression node {type(expr).__name__}")


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield the node itself and everything below, parents first."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        if below := children(node):
            stack.extend(below[::-1])


def free_vars(expr: Expr) -> set[Var]:
    found, stack = set[Var](), [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, Var):
            found.add(node)
        else:
            stack.extend(children(node))
    return found


def loads(expr: Expr) -> Iterator[Load]:
    return (node for node in walk(expr) if isinstance(node, Load))


def rewrite(expr: Expr, leaf: Callable[[Expr], Expr | None]) -> Expr:
    """Rebuild `expr`; if `leaf` returns an expression for a node, use that instead, unvisited.

    Nodes are rebuilt through `build`, so constants fold again; untouched subtrees are shared.
    """
    replaced = leaf(expr)
    if replaced is not None:
        return replaced
    match expr:
        case Var() | Const():
            return expr
        case Binary(op, a, b):
            na, nb = rewrite(a, leaf), rewrite(b, leaf)
            return expr if na is a and nb is b else _BINARY[op](na, nb)
        case Compare(op, a, b):
            na, nb = rewrite(a, leaf), rewrite(b, leaf)
            return expr if na is a and nb is b else build.compare(op, na, nb)
        case Logic(op, a, b):
            na, nb = rewrite(a, leaf), rewrite(b, leaf)
            if na is a and nb is b:
                return expr
            return build.logical_and(na, nb) if op == "and" else build.logical_or(na, nb)
        case Not(a):
            na = rewrite(a, leaf)
            return expr if na is a else build.logical_not(na)
        case Select(cond, a, b):
            nc, na, nb = rewrite(cond, leaf), rewrite(a, leaf), rewrite(b, leaf)
            return expr if nc is cond and na is a and nb is b else build.select(nc, na, nb)
        case Cast(dtype, a):
            na = rewrite(a, leaf)
            return expr if na is a else build.cast(dtype, na)
        case Call(name, args, dtype):
            nargs = tuple(rewrite(a, leaf) for a in args)
            return expr if all(map(_is, nargs, args)) else Call(name, nargs, dtype)
        case Load(buffer, indices):
            nidx = tuple(rewrite(i, leaf) for i in indices)
            return expr if all(map(_is, nidx, indices)) else expr.at(buffer, nidx)
        case Stride():
            return expr
        case Broadcast(a, lanes):
            na = rewrite(a, leaf)
            return expr if na is a else Broadcast(na, lanes)
        case Reinterpret(dtype, a):
            na = rewrite(a, leaf)
            return expr if na is a else Reinterpret(dtype, na)
        case _:
            raise TypeError(f"unknown expression node {type(expr).__name__}")


def _is(a: object, b: object) -> bool:
    return a is b


_BINARY: dict[str, Callable[[Expr, Expr], Expr]] = {
    "add": build.add, "sub": build.sub, "mul": build.mul, "div": build.div, "floordiv": build.quotient,
    "floormod": build.remainder, "min": build.minimum, "max": build.maximum,
}  # fmt: skip


def substitute(expr: Expr, mapping: Mapping[Var, Expr]) -> Expr:
    """Replace variables, without visiting the replacements again."""
    return rewrite(expr, lambda e: mapping.get(e) if isinstance(e, Var) else None)


def redirect_loads(expr: Expr, targets: Targets) -> Expr:
    """Redirect loads to other buffers."""

    def leaf(e: Expr) -> Expr | None:
        if not isinstance(e, Load | Stride) or e.buffer not in targets:
            return None
        buffer, place = targets[e.buffer]
        if isinstance(e, Stride):
            return Stride(buffer, e.dim + len(buffer.shape) - len(e.buffer.shape))
        return e.at(buffer, tuple([lo for lo, _ in place(tuple([(rewrite(i, leaf), 1) for i in e.indices]))]))

    return rewrite(expr, leaf)
