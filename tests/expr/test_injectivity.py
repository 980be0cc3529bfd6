"""Which loops can be read back from the values of block variables."""

from __future__ import annotations

import itertools

import pytest

from pegbox.expr import Var
from pegbox.expr.evaluate import evaluate
from pegbox.expr.injectivity import determined
from pegbox.expr.simplify import simplify

A, B = Var("a"), Var("b")


@pytest.mark.parametrize("block", [2, 3, 4, 6, 7, 9, 12])
def test_blocks_of_a_fused_loop_are_read_back_from_three_digits(block: int) -> None:
    """(n, y, x) of block a and its iteration b, where x has 3 values and y 3."""
    ranges = {A: (0, 35 // block), B: (0, block - 1)}
    fused = A * block + B
    values = [simplify(value, ranges) for value in (fused // 9, fused // 3 % 3, fused % 3)]
    assert determined(values, set(), ranges) == {A, B}


def test_loops_that_meet_are_not_read_back() -> None:
    ranges = {A: (0, 5), B: (0, 5)}
    values = [simplify(value, ranges) for value in ((A * 2 + B // 3) % 3, (A * 5 + B) // 9, B % 3)]
    points = [
        tuple(evaluate(value, {A: a, B: b}) for value in values) for a, b in itertools.product(range(6), repeat=2)
    ]
    assert len(set(points)) < len(points)
    assert determined(values, set(), ranges) != {A, B}
