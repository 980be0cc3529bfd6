"""Index expressions as the emitter takes them: the linear form of `pegbox.expr.affine`, with its terms told apart.

int64 arithmetic wraps around, so all numbers are those of int64, modulo 2^64. Where that is not enough (division,
comparison), the ranges of the loops have to show that the sum is the number itself: see
`pegbox.codegen.emitter.index.value_range`.

The form of an expression does not depend on the loops around it, so it is made once; what the variables stand for
(a number inside an unrolled loop, a register inside a serial one, one number per lane inside a vectorized one) is
put in by `pegbox.codegen.emitter.expressions` each time the expression is emitted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from pegbox.expr.affine import Linear, constant, linear
from pegbox.expr.nodes import Binary, Buffer, Const, Expr, Load, Var
from pegbox.expr.simplify import rejoined, simplified_linear
from pegbox.loops.nodes import Store

Depth: TypeAlias = Callable[[Var], int]


@dataclass(frozen=True, slots=True, eq=False)
class Atom:
    """What is not linear: `inner` divided by `divisor` (op "floordiv", "floormod"), or a value to compute."""

    expr: Expr
    op: str = ""
    inner: Form | None = None
    divisor: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """const + sum of coefficient * variable + sum of coefficient * atom.

    Variables of outer loops come first: pointers share them. is_index: it is made of variables and constants only.
    """

    const: int
    terms: tuple[tuple[Var, int], ...]
    atoms: tuple[tuple[Atom, int], ...]
    is_index: bool


def expression_form(expr: Expr, depth: Depth) -> Form:
    """The form of an int64 expression; `depth` of a variable is how many loops stand around that give it its value."""
    return _form(simplified_linear(expr, {}), depth)


def address_form(access: Load | Store, depth: Depth) -> Form:
    """Where an access goes, in elements from the start of its buffer."""
    total = constant(0)
    for index, stride in zip(access.indices, strides(access.buffer), strict=True):
        total = total.add(simplified_linear(index, {}), stride)
    return _form(total, depth)


def _form(sum_: Linear, depth: Depth) -> Form:
    # d * (e // d) + e % d is e: no division is left in the address of a line's element that was cut into rows.
    sum_ = rejoined(sum_.literal(), {})
    terms = [(term, coef) for term, coef in sum_.terms.items() if isinstance(term, Var)]
    terms.sort(key=lambda term: depth(term[0]))
    atoms = tuple([(_atom(term, depth), coef) for term, coef in sum_.terms.items() if not isinstance(term, Var)])
    is_index = all(atom.inner is not None and atom.inner.is_index for atom, _ in atoms)
    return Form(sum_.const, tuple(terms), atoms, is_index)


def _atom(expr: Expr, depth: Depth) -> Atom:
    match expr:
        case Binary("floordiv" | "floormod" as op, a, Const(value)) if value > 0:
            return Atom(expr, op, _form(linear(a), depth), int(value))
        case _:
            return Atom(expr)


def strides(buffer: Buffer) -> list[int]:
    """Elements between neighbours along each dimension (row-major)."""
    result = [1] * len(buffer.shape)
    for axis in range(len(buffer.shape) - 2, -1, -1):
        result[axis] = result[axis + 1] * buffer.shape[axis + 1]
    return result
