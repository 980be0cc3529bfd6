"""Symbols: numbers of a program as expressions over the knobs, without values.

A traced integer (`pegbox.features.traced`) has the value of one configuration, because templates need one. Computations
on the loops of a program need none: there, a `Symbol` represents the number in all configurations at once. It has
arithmetic, but no comparison, so results of the same symbols are the same for every program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

if TYPE_CHECKING:
    from pegbox.features.graph import NumberGraph

Quantity: TypeAlias = "int | Symbol"


def _applied(op: str, *, swapped: bool = False) -> Callable[[Any, Any], Any]:
    """Make a method that calls `Arithmetic.apply` or `Arithmetic.after` with this operation."""
    return (lambda self, other: self.after(op, other)) if swapped else (lambda self, other: self.apply(op, other))


class Arithmetic:
    """The operators of expressions over the knobs."""

    __slots__ = ()

    def apply(self, op: str, other: Any) -> Quantity:
        """Compute `self op other`; `op` is a key of `pegbox.features.graph.OPERATIONS`."""
        raise NotImplementedError

    def after(self, op: str, other: Any) -> Quantity:
        """Compute `other op self`."""
        raise NotImplementedError

    __add__ = __radd__ = _applied("add")
    __mul__ = __rmul__ = _applied("mul")
    __sub__, __rsub__ = _applied("sub"), _applied("sub", swapped=True)
    __floordiv__, __rfloordiv__ = _applied("floordiv"), _applied("floordiv", swapped=True)
    __mod__, __rmod__ = _applied("mod"), _applied("mod", swapped=True)

    def __neg__(self) -> Quantity:
        return self.after("sub", 0)


class Symbol(Arithmetic):
    """A node of `graph` that is not a constant; `NumberGraph.symbol` makes them, one for each node."""

    __slots__ = ("_made", "_made_after", "_magnitude", "graph", "node")

    def __init__(self, graph: NumberGraph, node: int) -> None:
        self.graph, self.node = graph, node
        self._made: dict[tuple[str, Quantity], Quantity] = {}
        self._made_after: dict[tuple[str, int], Quantity] = {}
        self._magnitude: Quantity | None = None

    def apply(self, op: str, other: Quantity) -> Quantity:
        found = self._made.get((op, other))
        if found is None:
            graph = self.graph
            found = self._made[op, other] = graph.symbol(graph.apply(op, self.node, graph.node_of(other)))
        return found

    def after(self, op: str, other: int) -> Quantity:
        found = self._made_after.get((op, other))
        if found is None:
            graph = self.graph
            found = self._made_after[op, other] = graph.symbol(graph.apply(op, graph.constant(other), self.node))
        return found

    def __abs__(self) -> Quantity:
        if self._magnitude is None:
            self._magnitude = most(self, -self)
        return self._magnitude

    def __bool__(self) -> NoReturn:
        raise TypeError("a symbol has no value")


def _function(op: str, plain: Callable[[int, int], int], *, commutes: bool = True) -> Callable[..., Quantity]:
    """Make a function of two quantities: an operation of the graph if one of them is a symbol, else `plain`."""

    def function(a: Quantity, b: Quantity) -> Quantity:
        if isinstance(a, Symbol):
            return a.apply(op, b)
        if isinstance(b, Symbol):
            return b.apply(op, a) if commutes else b.after(op, a)
        return plain(a, b)

    return function


least = _function("min", min)
most = _function("max", max)
equal = _function("eq", lambda a, b: int(a == b))
"""A function that returns 1 if the quantities are equal, else 0, like the next two."""
below = _function("lt", lambda a, b: int(a < b), commutes=False)
at_most = _function("le", lambda a, b: int(a <= b), commutes=False)


ceil_div = _function("ceildiv", lambda a, b: -(-a // b), commutes=False)
"""A function that divides and rounds up."""


def product(values: Iterable[Quantity]) -> Quantity:
    result: Quantity = 1
    for value in values:
        if isinstance(value, Symbol) or value != 1:
            result = value * result
    return result


def largest(values: Iterable[Quantity]) -> Quantity:
    """Return the largest of non-negative numbers; 0 if there are none."""
    nothing: Quantity = 0
    return reduce(most, values, nothing)
