"""Integers that may stand for many numbers: `pegbox.features` runs schedules on those of all configurations at once."""

from __future__ import annotations


class OpenInt(int):
    """An int that remembers how it was made; the smaller of two such is known without asking which it is."""

    def least(self, other: int) -> int:
        """`min(self, other)`."""
        raise NotImplementedError


def least(a: int, b: int) -> int:
    """`min(a, b)`. Worth writing where the answer changes nothing but numbers."""
    if isinstance(a, OpenInt):
        return a.least(b)
    return b.least(a) if isinstance(b, OpenInt) else min(a, b)
