"""`help(pegbox.NAME)` explains each parameter of a function."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

import pegbox

FUNCTIONS = {name: value for name in pegbox.__all__ if inspect.isfunction(value := getattr(pegbox, name))}
_LOOSE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def unexplained(function: Callable[..., Any]) -> list[str]:
    text = inspect.getdoc(function) or ""
    named = [each.name for each in inspect.signature(function).parameters.values() if each.kind not in _LOOSE]
    return [name for name in named if not re.search(rf"\b{name}\b", text)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_parameters_of_a_function_are_in_its_docstring(name: str) -> None:
    assert unexplained(FUNCTIONS[name]) == []


def test_a_parameter_that_is_not_explained_is_found() -> None:
    def missing(known: int, strange: int) -> None:
        """Return `known`."""

    assert unexplained(missing) == ["strange"]
    assert "tune" in FUNCTIONS
