"""Random integer arithmetic without any care: values wrap around, divisors vanish, comparisons are of anything.

An expression is drawn as a plan first, a function from its leaves, so that building it draws nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from fuzz.dtypes import lowest
from pegbox import te
from pegbox.expr import dtypes
from pegbox.expr.nodes import Const

Plan = Callable[[Sequence[Any]], Any]

_FORMS = ("add", "mul", "floordiv", "floordiv", "floormod", "floormod", "min", "max", "select", "select")
_COMPARE: tuple[Callable[[Any, Any], Any], ...] = (
    lambda a, b: a < b, lambda a, b: a >= b, lambda a, b: a == b, lambda a, b: a != b,
)  # fmt: skip


def arithmetic(rng: random.Random, dtype: str, leaves: int, depth: int = 3) -> Plan:
    """A value of an integer type, made of `leaves` others of that type and of constants."""
    if depth == 0:
        return _scaled(rng, dtype, leaves) if rng.random() < 0.5 else _leaf(rng, dtype, leaves)
    a, b = (arithmetic(rng, dtype, leaves, rng.randrange(depth)) for _ in range(2))
    match rng.choice(_FORMS):
        case "add":
            return lambda x: a(x) + b(x)
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


def _scaled(rng: random.Random, dtype: str, leaves: int) -> Plan:
    """A sum that may go far beyond the type's range."""
    a, b, large = _leaf(rng, dtype, leaves), _leaf(rng, dtype, leaves), _edge(rng, dtype)
    return (lambda x: a(x) * large + b(x)) if rng.random() < 0.6 else (lambda x: b(x) - a(x) - large)


def _leaf(rng: random.Random, dtype: str, leaves: int) -> Plan:
    if leaves and rng.random() < 0.6:
        number = rng.randrange(leaves)
        return lambda x: x[number]
    small = rng.randint(lowest(dtype, 3), 24)
    value = _edge(rng, dtype) if rng.random() < 0.3 else te.const(small, dtype)
    return lambda x: value


def _edge(rng: random.Random, dtype: str) -> Any:
    """A number with which a few others go beyond the type's range."""
    low, high = (int(n) for n in dtypes.value_range(dtype))
    edges = (low, low + 1, high, high - 1, high // 2 + 1, high // 3 * 2 + 1, high // 1021 | 1)
    return te.const(rng.choice(edges), dtype)


def _divisor(value: Any) -> Any:
    """Only what is written as 0 is refused."""
    return te.const(3, value.dtype) if isinstance(value, Const) and value.value == 0 else value
