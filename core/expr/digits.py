"""Digits of a variable, such as `v // 16` and `v % 16` in packed layouts: reading, splitting and joining them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pegbox.expr.affine import Linear
from pegbox.expr.nodes import Binary, Const, Expr, Var
from pegbox.expr.visit import walk


@dataclass(frozen=True, slots=True)
class Digit:
    """A digit `(var // step) % base`; the highest one has no base."""

    var: Var
    step: int
    base: int | None


def digit_of(expr: Expr) -> Digit | None:
    """Return the expression as a digit of a variable, if it is one."""
    match expr:
        case Binary("floormod", Binary("floordiv", Var() as var, Const() as step), Const() as base):
            return Digit(var, step.integer, base.integer)
        case Binary("floormod", Var() as var, Const() as base):
            return Digit(var, 1, base.integer)
        case Binary("floordiv", Var() as var, Const() as step):
            return Digit(var, step.integer, None)
        case _:
            return None


def digits_of(indices: Sequence[Expr]) -> dict[Var, list[tuple[int, Digit]]]:
    """Collect the digits of each variable among the indices: (position, digit), the highest first."""
    found: dict[Var, list[tuple[int, Digit]]] = {}
    for position, expr in enumerate(indices):
        digit = digit_of(expr)
        if digit is not None:
            found.setdefault(digit.var, []).append((position, digit))
    for entries in found.values():
        entries.sort(key=lambda e: -e[1].step)
    return {var: entries for var, entries in found.items() if _complete([d for _, d in entries])}


def _complete(digits: Sequence[Digit]) -> bool:
    """Decide if the digits make up the whole variable."""
    if digits[0].base is not None or digits[-1].step != 1:
        return False
    return all(low.base is not None and low.base * low.step == high.step for high, low in pairwise(digits))


def split(var: Var, extent: int, exprs: Iterable[Expr]) -> list[tuple[Var, int]]:
    """Make a variable for each digit, the highest first, with its number of values; [] if they do not divide."""
    steps = sorted({1, extent, *(s for expr in exprs for s in _steps(var, expr) if s < extent)})
    if len(steps) < 3 or any(high % low for low, high in pairwise(steps)):
        return []
    return [(Var(f"{var.name}_{low}"), high // low) for low, high in reversed(list(pairwise(steps)))]


def _steps(var: Var, expr: Expr) -> Iterator[int]:
    """Yield the places where the digits of a variable begin and end in an expression."""
    for found in filter(None, map(digit_of, walk(expr))):
        if found.var is var:
            yield found.step
            if found.base is not None:
                yield found.step * found.base


def join(digits: Sequence[tuple[Var, int]]) -> Expr:
    """Return the number made up of digits, the highest first, each with its number of values."""
    terms: dict[Expr, int] = {}
    step = 1
    for digit, count in reversed(digits):
        terms[digit] = step
        step *= count
    return Linear(terms, 0).to_expr()
