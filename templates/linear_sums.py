"""Products of a small constant matrix and a vector of expressions, as straight-line sums."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from pegbox import te
from pegbox.templates.cook_toom import Matrix


def matrix_rows(matrix: Matrix, values: Sequence[te.Expr], dtype: str) -> list[te.Expr]:
    """Return the elements of matrix · values, without multiplications by 0 and 1.

    Two rows that differ only in signs share the sum of their common terms, and that of the others, as rows of points a
    and -a do: LLVM computes equal expressions of one block once.
    """
    rows: list[te.Expr | None] = [None] * len(matrix)
    for number, row in enumerate(matrix):
        if rows[number] is not None:
            continue
        twin = next((k for k in range(number + 1, len(matrix)) if _is_twin(row, matrix[k])), None)
        if twin is None:
            rows[number] = _sum(row, values, dtype)
            continue
        alike = [a if a == b else Fraction(0) for a, b in zip(row, matrix[twin], strict=True)]
        apart = [a if a != b else Fraction(0) for a, b in zip(row, matrix[twin], strict=True)]
        # The scale of the second sum is multiplied where the two are added, which then is one instruction.
        scale = next(abs(entry) for entry in reversed(apart) if entry)
        even = _sum(alike, values, dtype)
        odd = _sum([entry / scale for entry in apart], values, dtype)
        scaled = odd if scale == 1 else odd * te.const(float(scale), dtype)
        rows[number], rows[twin] = even + scaled, even - scaled
    return [row for row in rows if row is not None]


def chosen(index: te.Expr, choices: Sequence[te.Expr]) -> te.Expr:
    """Return the choice with the number `index`. In an unrolled loop over `index`, the tests disappear."""
    found = choices[-1]
    for number in range(len(choices) - 2, -1, -1):
        found = te.if_then_else(index == number, choices[number], found)
    return found


def _is_twin(one: Sequence[Fraction], other: Sequence[Fraction]) -> bool:
    """Decide if two rows differ in the signs of some entries, but not of all."""
    sums = [a + b for a, b in zip(one, other, strict=True)]
    return all(abs(a) == abs(b) for a, b in zip(one, other, strict=True)) and any(sums) and one != other


def _sum(row: Sequence[Fraction], values: Sequence[te.Expr], dtype: str) -> te.Expr:
    """Return the sum of entry × value: beginning with an entry of 1, if there is one, to save a multiplication."""
    terms = sorted(((entry, value) for entry, value in zip(row, values, strict=True) if entry), key=lambda t: t[0] != 1)
    (entry, total), *others = terms
    if entry != 1:
        total = total * te.const(float(entry), dtype)
    for entry, value in others:
        term = value if abs(entry) == 1 else value * te.const(float(abs(entry)), dtype)
        total = total + term if entry > 0 else total - term
    return total
