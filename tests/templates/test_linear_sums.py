"""Products with constant matrices as straight-line sums."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pegbox import te
from pegbox.templates.cook_toom import Matrix
from pegbox.templates.linear_sums import chosen, matrix_rows


def matrix(*rows: list[float]) -> Matrix:
    return tuple(tuple(Fraction(entry) for entry in row) for row in rows)


def shown(given: Matrix) -> list[str]:
    values = te.placeholder((len(given[0]),), name="x")
    return [str(row) for row in matrix_rows(given, [values[i] for i in range(len(given[0]))], "float32")]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ([1, 0, 0], "x[0]"),
        ([0, -1, 1], "x[2] - x[1]"),
        ([2, 0, 1], "x[2] + x[0] * 2.0"),
        ([-0.5, 0, 2], "x[0] * -0.5 + x[2] * 2.0"),
        ([1, -2, 4], "x[0] - x[1] * 2.0 + x[2] * 4.0"),
    ],
)
def test_zeros_and_ones_are_not_multiplied(row: list[float], text: str) -> None:
    assert shown(matrix(row)) == [text]


def test_rows_of_opposite_points_share_their_sums() -> None:
    plus, minus = shown(matrix([0, -2, -4, 2, 1], [0, 2, -4, -2, 1]))
    assert plus == "x[4] - x[2] * 4.0 + (x[3] - x[1]) * 2.0"
    assert minus == "x[4] - x[2] * 4.0 - (x[3] - x[1]) * 2.0"


def test_a_row_that_is_the_other_one_is_no_twin() -> None:
    assert shown(matrix([1, 1], [1, 1], [-1, -1])) == ["x[0] + x[1]", "x[0] + x[1]", "x[0] * -1.0 - x[1]"]


def test_a_choice_is_made_by_its_number() -> None:
    i = te.var("i")
    values = te.placeholder((3,), name="x")
    assert str(chosen(i, [values[2], values[1]])) == str(te.if_then_else(i == 0, values[2], values[1]))
    assert str(chosen(i, [values[0]])) == "x[0]"
