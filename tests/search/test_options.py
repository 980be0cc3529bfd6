"""Checks of option values: what is wrong and what would be right."""

import math
from typing import Any

import pytest

from pegbox.checks import check_choice, check_float, check_int
from pegbox.errors import ArgumentError


@pytest.mark.parametrize("value", [0, -3, 2.5, "4", True, None, math.nan])
def test_integers_have_to_be_integers_in_range(value: Any) -> None:
    with pytest.raises(ArgumentError, match=r"plan_size=.*integer >= 1"):
        check_int("plan_size", value)


@pytest.mark.parametrize("value", [-0.1, 1.5, "0.5", False, None, math.nan, math.inf])
def test_numbers_have_to_be_finite_and_in_range(value: Any) -> None:
    with pytest.raises(ArgumentError, match=r"epsilon=.*number from 0 to 1"):
        check_float("epsilon", value, maximum=1.0)


def test_choices_are_listed() -> None:
    with pytest.raises(ArgumentError, match="loss_type='rang' is not valid; choose from 'rank', 'reg'"):
        check_choice("loss_type", "rang", ("rank", "reg"))


def test_good_values_pass() -> None:
    assert check_int("n", 5, minimum=5, maximum=5) == 5
    assert check_float("x", 1) == 1.0
    assert check_choice("c", "a", ("a", "b")) == "a"
