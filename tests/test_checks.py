"""Checks of arguments that many entry points share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pegbox.checks import check_callable, check_cost, check_flag, check_list, check_path
from pegbox.errors import ArgumentError, ScheduleError
from pegbox.schedule.state.step import frozen
from pegbox.shown import value_text

DEEP: list[Any] = []
for _ in range(2000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: 5, "5"),
        (lambda: "x", "'x'"),
        (lambda: DEEP, "<list>"),
        (lambda: 10**5000, "<int>"),
        (lambda: "x" * 2000, f"'{'x' * 899}...{'x' * 99}'"),
    ],
)
def test_any_value_can_be_written_in_a_message(make: Callable[[], object], text: str) -> None:
    assert value_text(make()) == text


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: check_list("args", np.array(5), "a list"), r"args=array\(5\) is not a list; give a list"),
        (lambda: check_flag("resume", np.zeros(2)), "resume=array.* is neither true nor false; give True or False"),
        (
            lambda: check_callable("f", lambda: 0, "a function of two", arguments=2),
            "f=<function .*: too many pos.*of two",
        ),
        (lambda: check_path("file", "x" * 256), "file='x.* is not a path"),
        (lambda: check_path("file", "a/\ud800"), "file=.* is not a path"),
        (lambda: check_cost("best", -1.0), "best=-1.0 is out of range"),
        (lambda: check_cost("best", "x"), "best='x' is not a number"),
    ],
)
def test_what_is_wrong_is_shown_with_the_remedy(check: Callable[[], object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        check()


def test_what_is_right_stays() -> None:
    assert check_flag("resume", np.True_) is True
    assert check_cost("best", np.inf) == float("inf")
    assert check_callable("f", max, "a function", arguments=2) is max
    assert str(check_path("file", "x" * 255)) == "x" * 255


def test_lists_of_a_step_are_not_nested_without_end() -> None:
    assert frozen([1, [2, np.array([3])]]) == (1, (2, (3,)))
    with pytest.raises(ScheduleError, match="nested too deep"):
        frozen(DEEP)
