"""Python functions that programs call on whole buffers, by the names that they have as C functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pegbox.checks import check_callable
from pegbox.expr.low_level import Address, call_extern
from pegbox.expr.nodes import Call

PREFIX = "pegbox_python_"


@dataclass(frozen=True)
class PythonFunction:
    """`function` takes an array for each operand, of its (shape, dtype), and writes those that it changes."""

    function: Callable[..., Any]
    operands: tuple[tuple[tuple[int, ...], str], ...]


_functions: dict[str, PythonFunction] = {}


def call_python(function: Callable[..., Any], operands: Sequence[Address]) -> Call:
    """Make a call of a Python function on the arrays of pointers. It works in this process alone.

    Raises:
        ArgumentError: it is no function.
    """
    check_callable("call_python: function", function, "a function of arrays")
    symbol = f"{PREFIX}{len(_functions)}"
    _functions[symbol] = PythonFunction(function, tuple((at.extents, at.buffer.dtype) for at in operands))
    return call_extern("int32", symbol, *operands)


def python_function(symbol: str) -> PythonFunction | None:
    """Return the function that was given a name in this process."""
    return _functions.get(symbol)
