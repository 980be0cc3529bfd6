"""Symbols: numbers of a program as expressions over the knobs, without values.

A traced integer (`pegbox.features.traced`) is the value of one configuration, because templates need one. What is
computed from the loops of a program needs none: there a `Symbol` stands for the number in all configurations at once.
It has arithmetic, and no comparison: nothing that is made of symbols can depend on the configuration in another way. So
what was made of the same symbols for one program holds for the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

if TYPE_CHECKING:
    from pegbox.features.graph import NumberGraph

Quantity: TypeAlias = "int | Symbol"


def _applied(op: str, *, swapped: bool = False) -> Callable[[Any, Any], Any]:
    """A method that is `Arithmetic.apply` or `Arithmetic.after` with this operation."""
    return (lambda self, other: self.after(op, other)) if swapped else (lambda self, other: self.apply(op, other))


class Arithmetic:
    """The operators of what is an expression over the knobs."""

    __slots__ = ()

    def apply(self, op: str, other: Any) -> Quantity:
        """`self op other`; `op` is a key of `pegbox.features.graph.OPERATIONS`."""
        raise NotImplementedError

    def after(self, op: str, other: Any) -> Quantity:
        """`other op self`."""
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

    __slots__ = ("_made", "graph", "node")

    def __init__(self, graph: NumberGraph, node: int) -> None:
        self.graph, self.node = graph, node
        self._made: dict[tuple[str, Quantity], Quantity] = {}

    def apply(self, op: str, other: Quantity) -> Quantity:
        """`self op other`; `op` is a key of `pegbox.features.graph.OPERATIONS`."""
        found = self._made.get((op, other))
        if found is None:
            graph = self.graph
            found = self._made[op, other] = graph.symbol(graph.apply(op, self.node, graph.node_of(other)))
        return found

    def after(self, op: str, other: int) -> Quantity:
        """`other op self`."""
        return self.graph.symbol(self.graph.apply(op, self.graph.constant(other), self.node))

    def __bool__(self) -> NoReturn:
        raise TypeError("a symbol has no value that could be asked for")


def least(a: Quantity, b: Quantity) -> Quantity:
    """The smaller one."""
    return _either("min", a, b) if isinstance(a, Symbol) or isinstance(b, Symbol) else min(a, b)


def most(a: Quantity, b: Quantity) -> Quantity:
    """The larger one."""
    return _either("max", a, b) if isinstance(a, Symbol) or isinstance(b, Symbol) else max(a, b)


def equal(a: Quantity, b: Quantity) -> Quantity:
    """1 where they are equal, else 0."""
    return _either("eq", a, b) if isinstance(a, Symbol) or isinstance(b, Symbol) else int(a == b)


def below(a: Quantity, b: Quantity) -> Quantity:
    """1 where `a` is less than `b`, else 0."""
    return a.apply("lt", b) if isinstance(a, Symbol) else b.after("lt", a) if isinstance(b, Symbol) else int(a < b)


def at_most(a: Quantity, b: Quantity) -> Quantity:
    """1 where `a` is not greater than `b`, else 0."""
    return a.apply("le", b) if isinstance(a, Symbol) else b.after("le", a) if isinstance(b, Symbol) else int(a <= b)


def ceil_div(a: Quantity, b: Quantity) -> Quantity:
    return -(-a // b)


def product(values: Iterable[Quantity]) -> Quantity:
    result: Quantity = 1
    for value in values:
        if isinstance(value, Symbol) or value != 1:
            result = value * result
    return result


def largest(values: Iterable[Quantity]) -> Quantity:
    """The largest of some numbers that are not negative; 0 of none."""
    nothing: Quantity = 0
    return reduce(most, values, nothing)


def _either(op: str, a: Quantity, b: Quantity) -> Quantity:
    """An operation whose operands may change places."""
    return a.apply(op, b) if isinstance(a, Symbol) else b.apply(op, a) if isinstance(b, Symbol) else NotImplemented
