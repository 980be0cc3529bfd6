"""Random integer arithmetic without any care: values wrap around, divisors vanish, comparisons are of anything.

An expression is drawn as a plan first, a function from its leaves, so that building it draws nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from pegbox import te
from pegbox.expr import dtypes
from pegbox.expr.nodes import Const

Plan = Callable[[Sequence[Any]], Any]

_FORMS = ("add", "sub", "mul", "mul", "floordiv", "floordiv", "floormod", "floormod", "min", "max", "select")
_COMPARE: tuple[Callable[[Any, Any], Any], ...] = (
    lambda a, b: a < b, lambda a, b: a >= b, lambda a, b: a == b, lambda a, b: a != b,
)  # fmt: skip


def arithmetic(rng: random.Random, dtype: str, leaves: int, depth: int = 3) -> Plan:
    """A value of an integer type, made of `leaves` others of that type and of constants."""
    if depth == 0 or rng.random() < 0.1:
        return _leaf(rng, dtype, leaves)
    a, b = (arithmetic(rng, dtype, leaves, rng.randrange(depth)) for _ in range(2))
    form = rng.choice(
        ("add", "sub", "mul", "mul", "floordiv", "floordiv", "floormod", "floormod", "min", "max", "select")
    )
    match form:
        case "add":
            return lambda x: a(x) + b(x)
        case "sub":
            return lambda x: a(x) - b(x)
        case "mul":
            return lambda x: a(x) * b(x)
        case "floordiv":
            return lambda x: a(x) // _divisor(b(x))
        case "floormod":
            return lambda x: a(x) % _divisor(b(x))
        case "min":
            return lambda x: te.minimum(a(x), b(x))
        case "max":
            return lambda x: te.maximum(a(x), b(x))
        case _:
            test, other = condition(rng, dtype, leaves), arithmetic(rng, dtype, leaves, 1)
            return lambda x: te.select(test(x), a(x), other(x))


def condition(rng: random.Random, dtype: str, leaves: int) -> Plan:
    """A comparison of two such values."""
    a, b = (arithmetic(rng, dtype, leaves, rng.choice((1, 2))) for _ in range(2))
    compare = rng.choice(_COMPARE)
    return lambda x: compare(a(x), b(x))


def _leaf(rng: random.Random, dtype: str, leaves: int) -> Plan:
    if leaves and rng.random() < 0.6:
        number = rng.randrange(leaves)
        return lambda x: x[number]
    low, high = (int(n) for n in dtypes.value_range(dtype))
    edges = (low, low + 1, high, high - 1, high // 2 + 1, high // 3 * 2 + 1, high // 1021 | 1)
    value = rng.choice(edges) if rng.random() < 0.5 else rng.randint(max(low, -3), 24)
    return lambda x: te.const(value, dtype)


def _divisor(value: Any) -> Any:
    """Only what is written as 0 is refused."""
    return te.const(3, value.dtype) if isinstance(value, Const) and value.value == 0 else value
