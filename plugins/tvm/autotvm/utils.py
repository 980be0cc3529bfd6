"""`tvm.autotvm.utils`: numbers with SI prefixes, and constants as Python's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pegbox.errors import ArgumentError
from pegbox.plugins.tvm.absence import names

__getattr__ = names(__name__)

SI_PREFIXES = "yzafpn\xb5m kMGTPEZY"
_PLAIN = SI_PREFIXES.index(" ")


def format_si_prefix(x: float, si_prefix: str) -> float:
    """`x` in units of the prefix: 2e9 with "G" is 2.0."""
    prefix = si_prefix or " "
    if len(prefix) != 1 or prefix not in SI_PREFIXES:
        raise ArgumentError(f"si_prefix={si_prefix!r}: give one of {' '.join(SI_PREFIXES.replace(' ', ''))}, or ''")
    return float(x) / 1000.0 ** (SI_PREFIXES.index(prefix) - _PLAIN)


def get_const_int(expr: Any) -> int:
    """A constant as an int."""
    return int(getattr(expr, "value", expr))


def get_const_tuple(in_tuple: Sequence[Any]) -> tuple[int, ...]:
    """Constants, such as a shape, as a tuple of ints."""
    return tuple(map(get_const_int, in_tuple))
