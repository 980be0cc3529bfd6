"""Index expressions as linear forms: constant + sum of coefficient * variable + sum of coefficient * atom.

int64 arithmetic wraps around, so all numbers are modulo 2^64. Where that is not enough (division, comparison), the
ranges of the loops have to show that the sum is the number itself: see `pegbox.codegen.emitter.index.value_range`.

The form of an expression does not depend on the loops around it, so it is made once; what the variables stand for
(a number inside an unrolled loop, a register inside a serial one, one number per lane inside a vectorized one) is
put in by `pegbox.codegen.emitter.index` each time the expression is emitted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from pegbox.expr.dtypes import wrap
from pegbox.expr.nodes import Binary, Buffer, Const, Expr, Load, Var
from pegbox.loops.nodes import Store

VarTerms: TypeAlias = tuple[tuple[Var, int], ...]


class Atom:
    """What is not linear: `inner // divisor` or `inner % divisor` (kind "div", "mod"), or a value to compute."""

    __slots__ = ("divisor", "expr", "inner", "kind")

    def __init__(self, kind: str, inner: Linear | None, divisor: int, expr: Expr) -> None:
        self.kind = kind
        self.inner = inner
        self.divisor = divisor
        self.expr = expr


class Linear:
    """is_index: it is made of loop variables and constants only."""

    __slots__ = ("atoms", "const", "is_index", "terms")

    def __init__(self, const: int, terms: VarTerms, atoms: tuple[tuple[Atom, int], ...]) -> None:
        self.const = const
        self.terms = terms
        self.atoms = atoms
        self.is_index = all(atom.inner is not None and atom.inner.is_index for atom, _ in atoms)


Depth: TypeAlias = Callable[[Var], int]


def linear(exprs: Sequence[Expr], scales: Sequence[int], depth: Depth) -> Linear:
    """The linear form of sum of scale * expr. Terms of outer loops (see `depth`) come first: pointers share them."""
    coefficients: dict[Var, int] = {}
    atoms: list[tuple[Atom, int]] = []
    const = 0
    for expr, scale in zip(exprs, scales, strict=True):
        const += _collect(expr, scale, coefficients, atoms, depth)
    if len(atoms) > 1:
        _rejoin_quotients(atoms)
        const += _rejoin(coefficients, atoms)
    terms = [(var, int64(coef)) for var, coef in coefficients.items() if int64(coef)]
    terms.sort(key=lambda term: depth(term[0]))
    return Linear(int64(const), tuple(terms), tuple((atom, int64(coef)) for atom, coef in atoms))


def address_form(access: Load | Store, depth: Depth) -> Linear:
    """Where an access goes, in elements from the start of its buffer."""
    return linear(access.indices, strides(access.buffer), depth)


def strides(buffer: Buffer) -> list[int]:
    """Elements between neighbours along each dimension (row-major)."""
    result = [1] * len(buffer.shape)
    for axis in range(len(buffer.shape) - 2, -1, -1):
        result[axis] = result[axis + 1] * buffer.shape[axis + 1]
    return result


def int64(value: int) -> int:
    """The int64 that a number is modulo 2^64."""
    return value if -(1 << 63) <= value < 1 << 63 else wrap(value, "int64")


def _rejoin_quotients(atoms: list[tuple[Atom, int]]) -> None:
    """Put `m * (e // (d * m)) + e // d % m` together as `e // d`: a line cut twice is first one that is cut once."""
    for rest in [entry for entry in atoms if entry[0].kind == "mod"]:
        for whole in [entry for entry in atoms if entry[0].kind == "div"]:
            part = _quotient(rest[0])
            if part is None or whole[1] != rest[1] * rest[0].divisor or whole not in atoms:
                continue
            if whole[0].divisor == part.divisor * rest[0].divisor and _is_same(whole[0].inner, part.inner):
                atoms.remove(whole)
                atoms.remove(rest)
                atoms.append((part, rest[1]))
                break


def _quotient(mod: Atom) -> Atom | None:
    """`e // d` of `e // d % m`."""
    inner = mod.inner
    if inner is None or inner.terms or inner.const or len(inner.atoms) != 1:
        return None
    atom, coefficient = inner.atoms[0]
    return atom if atom.kind == "div" and coefficient == 1 else None


def _is_same(a: Linear | None, b: Linear | None) -> bool:
    return a is not None and b is not None and not (a.atoms or b.atoms) and (a.const, a.terms) == (b.const, b.terms)


def _rejoin(coefficients: dict[Var, int], atoms: list[tuple[Atom, int]]) -> int:
    """Put `d * (e // d) + e % d` together as e, with the same factor on both; returns the constant that comes of it.

    That is the address of element e of a line that was cut into rows: no division is left of it.
    """
    const = 0
    for rest in [entry for entry in atoms if entry[0].kind == "mod"]:
        for whole in [entry for entry in atoms if entry[0].kind == "div"]:
            if rest in atoms and _belong_together(whole, rest):
                inner, scale = whole[0].inner, rest[1]
                assert inner is not None
                atoms.remove(whole)
                atoms.remove(rest)
                const += scale * inner.const
                for var, coef in inner.terms:
                    coefficients[var] = coefficients.get(var, 0) + scale * coef
    return const


def _belong_together(whole: tuple[Atom, int], rest: tuple[Atom, int]) -> bool:
    """Are these s·d·(a // d) and s·(a % d)?"""
    (div, outer), (mod, inner) = whole, rest
    d = mod.divisor
    if div.divisor != d or outer != inner * d or div.inner is None or mod.inner is None:
        return False
    if div.inner.atoms or mod.inner.atoms:
        return False
    return div.inner.const == mod.inner.const and dict(div.inner.terms) == dict(mod.inner.terms)


def _collect(expr: Expr, scale: int, into: dict[Var, int], atoms: list[tuple[Atom, int]], depth: Depth) -> int:
    """Add `scale * expr` to the form; returns its constant part."""
    match expr:
        case Const(value):
            return scale * int(value)
        case Var():
            into[expr] = into.get(expr, 0) + scale
            return 0
        case Binary("add", a, b):
            return _collect(a, scale, into, atoms, depth) + _collect(b, scale, into, atoms, depth)
        case Binary("sub", a, b):
            return _collect(a, scale, into, atoms, depth) + _collect(b, -scale, into, atoms, depth)
        case Binary("mul", a, Const(value)) | Binary("mul", Const(value), a):
            return _collect(a, scale * int(value), into, atoms, depth)
        case Binary("floordiv", a, Const(value)) if value > 0:
            atoms.append((Atom("div", linear((a,), (1,), depth), int(value), expr), scale))
            return 0
        case Binary("floormod", a, Const(value)) if value > 0:
            atoms.append((Atom("mod", linear((a,), (1,), depth), int(value), expr), scale))
            return 0
        case _:
            atoms.append((Atom("value", None, 0, expr), scale))
            return 0
