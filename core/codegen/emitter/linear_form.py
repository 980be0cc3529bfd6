"""Linear forms of index expressions for the emitter, with constant, loop and lane terms separated.

int64 arithmetic wraps around, so all numbers are taken modulo 2^64. For division and comparison, the ranges of the
loops must prove that the sum does not wrap: see `pegbox.codegen.emitter.index.value_range`.

The form of an expression does not depend on the enclosing loops, so it is made once. Each time the expression is
emitted, `pegbox.codegen.emitter.expressions` inserts the values of its variables (a number inside an unrolled loop, a
register inside a serial one, one number per lane inside a vectorized one).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pegbox.expr.affine import weighted_sum
from pegbox.expr.nodes import Binary, Buffer, Const, Expr, Load, Var
from pegbox.expr.simplify import rejoined, simplify
from pegbox.loops.nodes import Store

Depth: TypeAlias = Callable[[Var], int]


@dataclass(slots=True, eq=False)
class Atom:
    """A term that is not linear: `inner` divided by `divisor` (op "floordiv", "floormod"), or a value to compute."""

    expr: Expr
    op: str = ""
    inner: Form | None = None
    divisor: int = 0


@dataclass(slots=True, eq=False)
class Form:
    """A sum: const + coefficient * variable + ... + coefficient * atom + ...

    Variables of outer loops come first: pointers share them. is_index: the form consists of variables and constants
    only.
    """

    const: int
    terms: tuple[tuple[Var, int], ...]
    atoms: tuple[tuple[Atom, int], ...]
    is_index: bool


def expression_form(expr: Expr, depth: Depth) -> Form:
    """Make the form of an int64 expression; `depth` gives the number of loops around a variable's loop."""
    return _form((expr,), (1,), depth)


def address_form(access: Load | Store, depth: Depth) -> Form:
    """Derive the place of an access, in elements from the start of its buffer."""
    return _form(access.indices, strides(access.buffer), depth)


def _form(exprs: Sequence[Expr], weights: Sequence[int], depth: Depth) -> Form:
    total = weighted_sum(exprs, weights).literal()
    if len(total.terms) > 1 and any(isinstance(term, Binary) and term.op == "floormod" for term in total.terms):
        # d * (e // d) + e % d is e: an array that was cut into rows is addressed without a division.
        total = rejoined(weighted_sum([simplify(expr, {}) for expr in exprs], weights).literal(), {})
    terms: list[tuple[Var, int]] = []
    atoms: list[tuple[Atom, int]] = []
    for term, coef in total.terms.items():
        if isinstance(term, Var):
            terms.append((term, coef))
        else:
            atoms.append((_atom(term, depth), coef))
    if len(terms) > 1:
        terms.sort(key=lambda term: depth(term[0]))
    is_index = all(atom.inner is not None and atom.inner.is_index for atom, _ in atoms)
    return Form(total.const, tuple(terms), tuple(atoms), is_index)


def _atom(expr: Expr, depth: Depth) -> Atom:
    match expr:
        case Binary("floordiv" | "floormod" as op, a, Const(value)) if value > 0:
            return Atom(expr, op, _form((a,), (1,), depth), int(value))
        case _:
            return Atom(expr)


def strides(buffer: Buffer) -> list[int]:
    """Count the elements between neighbours along each dimension, in row-major order."""
    result = [1] * len(buffer.shape)
    for axis in range(len(buffer.shape) - 2, -1, -1):
        result[axis] = result[axis + 1] * buffer.shape[axis + 1]
    return result
