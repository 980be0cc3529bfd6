"""Checks of option values that tuners and cost models share; every message shows the value and what is valid."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from pegbox.errors import ArgumentError


def check_int(name: str, value: object, *, minimum: int = 1, maximum: int | None = None) -> int:
    """`value` as an int within the bounds, both included; `ArgumentError` otherwise."""
    wanted = f"an integer >= {minimum}" if maximum is None else f"an integer from {minimum} to {maximum}"
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ArgumentError(f"{name}={value!r} is not an integer; give {wanted}")
    number = int(value.__index__())
    if number < minimum or (maximum is not None and number > maximum):
        raise ArgumentError(f"{name}={value!r} is out of range; give {wanted}")
    return number


def check_float(name: str, value: object, *, minimum: float = 0.0, maximum: float = math.inf) -> float:
    """`value` as a finite float within the bounds, both included; `ArgumentError` otherwise."""
    wanted = f"a number >= {minimum:g}" if maximum == math.inf else f"a number from {minimum:g} to {maximum:g}"
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise ArgumentError(f"{name}={value!r} is not a number; give {wanted}")
    number = float(value.__float__())
    if not math.isfinite(number) or not minimum <= number <= maximum:
        raise ArgumentError(f"{name}={value!r} is out of range; give {wanted}")
    return number


def check_choice(name: str, value: object, choices: Sequence[str]) -> str:
    """`value` when it is one of `choices`; `ArgumentError` otherwise."""
    if isinstance(value, str) and value in choices:
        return value
    raise ArgumentError(f"{name}={value!r} is not valid; choose from {', '.join(map(repr, choices))}")


def parse_budget(budget: float | str | None) -> float | None:
    """Seconds from a number or from text such as "90", "60s", "1.5m" or "1h".

    Raises:
        ArgumentError: neither.
    """
    if budget is None or isinstance(budget, int | float):
        return None if budget is None else float(budget)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|m|h|)\s*", budget)
    if match is None:
        raise ArgumentError(f"budget {budget!r}: write seconds, or a number with s, m or h, as in 60s, 5m, 1h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]
