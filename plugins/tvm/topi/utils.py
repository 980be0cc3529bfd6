"""`topi.utils`: the numbers of shapes, which are Python's already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def get_const_int(expr: Any) -> int:
    """Return a constant as an int."""
    return int(getattr(expr, "value", expr))


def get_const_tuple(in_tuple: Sequence[Any]) -> tuple[int, ...]:
    """Return constants, such as a shape, as a tuple of ints."""
    return tuple(map(get_const_int, in_tuple))
