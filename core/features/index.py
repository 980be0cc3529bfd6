"""Index expressions of accesses as sums over loops: extents and strides, `//` and `%` included.

Coefficients may be symbols (`pegbox.features.symbol`): configurations differ only in the results of arithmetic. So
these are not the sums of `pegbox.expr.affine`, which depend on zeros, multiples of a divisor and bounds, since these
differ between configurations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from pegbox.expr.nodes import Binary, Cast, Const, Expr, Select, Var
from pegbox.features.symbol import Quantity, largest, least
from pegbox.features.traced import quantity
from pegbox.loops.nodes import ForKind


@dataclass(frozen=True, eq=False)
class Loop:
    """A loop of a nest; statements that share a loop share the object."""

    name: str
    extent: Quantity
    kind: ForKind = ForKind.SERIAL
    unroll_steps: Quantity = 0
    """The limit of the pragma "auto_unroll_max_step"."""

    @cached_property
    def last(self) -> Quantity:
        """The index of the last iteration."""
        return self.extent - 1


@dataclass(frozen=True, eq=False)
class IndexDivision:
    """A digit of an index: `value // divisor` or `value % divisor`."""

    op: str
    value: Sum
    divisor: Quantity


@dataclass(frozen=True, eq=False)
class IndexChoice:
    """A choice of several values: min, max, select."""

    values: tuple[Sum, ...]


@dataclass(frozen=True, eq=False)
class Anywhere:
    """An unknown index: the value of memory or of an intrinsic."""


Atom: TypeAlias = "Loop | IndexDivision | IndexChoice | Anywhere"


@dataclass(frozen=True, eq=False)
class Sum:
    """A sum of coefficient × atom, plus a constant."""

    terms: tuple[tuple[Atom, Quantity], ...]
    const: Quantity = 0

    def plus(self, other: Sum, scale: Quantity = 1) -> Sum:
        merged: dict[Atom, Quantity] = dict(self.terms)
        for atom, coefficient in other.terms:
            merged[atom] = merged[atom] + coefficient * scale if atom in merged else coefficient * scale
        return Sum(tuple(merged.items()), self.const + other.const * scale)

    def times(self, factor: Quantity) -> Sum:
        return Sum(tuple((atom, coefficient * factor) for atom, coefficient in self.terms), self.const * factor)


def index_of(expr: Expr, values: Mapping[Var, Sum]) -> Sum:
    """Convert an index expression over variables whose values are sums."""
    match expr:
        case Const(value) if isinstance(value, int):
            return Sum((), quantity(value))
        case Var() if expr in values:
            return values[expr]
        case Binary("add", a, b):
            return index_of(a, values).plus(index_of(b, values))
        case Binary("sub", a, b):
            return index_of(a, values).plus(index_of(b, values), -1)
        case Binary("mul", a, b):
            return _product(index_of(a, values), index_of(b, values))
        case Binary("floordiv" | "floormod" as op, a, Const(divisor)) if isinstance(divisor, int):
            return digit(op, index_of(a, values), quantity(divisor))
        case Binary("min" | "max", a, b) | Select(_, a, b):
            return Sum(((IndexChoice((index_of(a, values), index_of(b, values))), 1),))
        case Cast(_, a):
            return index_of(a, values)
        case _:
            return Sum(((Anywhere(), 1),))


def digit(op: str, value: Sum, divisor: Quantity) -> Sum:
    """Make `value // divisor` or `value % divisor`, a sum with one atom; a constant remains constant."""
    if not value.terms:
        return Sum((), value.const // divisor if op == "floordiv" else value.const % divisor)
    if isinstance(divisor, int) and divisor == 1:
        return value if op == "floordiv" else Sum(())
    return Sum(((IndexDivision(op, value, divisor), 1),))


def _product(a: Sum, b: Sum) -> Sum:
    if not b.terms:
        return a.times(b.const)
    return b.times(a.const) if not a.terms else Sum(((Anywhere(), 1),))


def reach(value: Sum, running: Set[Loop], limit: Quantity) -> Quantity:
    """Bound the difference of the values while the loops in `running` run; `limit` bounds unknown values.

    For `//` and `%`, the least value is assumed to be a multiple of the divisor, which is true for tiles.
    """
    return sum(
        [
            abs(coefficient) * _reach_of(atom, running, limit)
            for atom, coefficient in value.terms
            if not isinstance(atom, Loop) or atom in running
        ]
    )


def _reach_of(atom: Atom, running: Set[Loop], limit: Quantity) -> Quantity:
    match atom:
        case Loop():
            return atom.last if atom in running else 0
        case IndexDivision("floordiv", value, divisor):
            return reach(value, running, limit) // divisor
        case IndexDivision(_, value, divisor):
            # Terms that move by multiples of the divisor don't count.
            inner = sum(
                [
                    least(factor % divisor, 1) * abs(factor) * _reach_of(each, running, limit)
                    for each, factor in value.terms
                    if not isinstance(each, Loop) or each in running
                ]
            )
            return least(inner, divisor - 1)
        case IndexChoice(values):
            return largest([reach(each, running, limit) for each in values])
        case _:
            return limit


def loops_in(value: Sum) -> list[Loop | None]:
    """List the loops that the value depends on, each once; None for unknown dependences."""
    found: dict[Loop | None, None] = {}
    for atom, _ in value.terms:
        match atom:
            case Loop():
                found[atom] = None
            case IndexDivision(_, inner, _):
                found.update(dict.fromkeys(loops_in(inner)))
            case IndexChoice(values):
                found.update(dict.fromkeys(loop for each in values for loop in loops_in(each)))
            case _:
                found[None] = None
    return list(found)


def step(value: Sum, loop: Loop) -> Quantity:
    """Compute the general difference between the values of two neighbouring iterations of a loop."""
    return sum(
        [
            coefficient * _step_of(atom, loop)
            for atom, coefficient in value.terms
            if atom is loop or not isinstance(atom, Loop)
        ]
    )


def _step_of(atom: Atom, loop: Loop) -> Quantity:
    match atom:
        case Loop():
            return 1 if atom is loop else 0
        case IndexDivision("floordiv", value, divisor):
            return step(value, loop) // divisor
        case IndexDivision(_, value, divisor):
            return step(value, loop) % divisor
        case IndexChoice(values):
            return step(values[0], loop)
        case _:
            return 0


def fixed(value: Sum, outer: Set[Loop]) -> Sum:
    """Fix all loops but those in `outer` at their first iteration."""
    return _with_loops(value, lambda loop: loop if loop in outer else None)


def joined(value: Sum, others: Mapping[Loop, Loop]) -> Sum:
    """Replace loops by those into which they are merged."""
    return _with_loops(value, lambda loop: others.get(loop, loop))


def _with_loops(value: Sum, of: Callable[[Loop], Loop | None]) -> Sum:
    """Replace each loop by the one that a function returns; fix it at its first iteration if that is None."""
    result = Sum((), value.const)
    for atom, coefficient in value.terms:
        result = result.plus(_atom_with_loops(atom, of), coefficient)
    return result


def _atom_with_loops(atom: Atom, of: Callable[[Loop], Loop | None]) -> Sum:
    match atom:
        case Loop():
            found = of(atom)
            return Sum(()) if found is None else Sum(((found, 1),))
        case IndexDivision(op, value, divisor):
            return digit(op, _with_loops(value, of), divisor)
        case IndexChoice(values):
            return Sum(((IndexChoice(tuple(_with_loops(each, of) for each in values)), 1),))
        case _:
            return Sum(((atom, 1),))
