"""Cache of buffer values in straight-line code: which register holds an element that was loaded or stored."""

from __future__ import annotations

from typing import TypeAlias

Place: TypeAlias = "tuple[str, int, int]"  # pointer register, element offset from it, lanes (0: one scalar)


class ValueCache:
    """Registers by place. Places of one grid (same pointer, same width, aligned to it) overlap only when equal, which
    makes a store into a register tile cheap to account for."""

    __slots__ = ("_grid", "entries")

    def __init__(self) -> None:
        self.entries: dict[Place, str] = {}
        self._grid: Place | None = None

    def add(self, place: Place, register: str) -> None:
        """Something was loaded."""
        grid = _grid(place)
        if not self.entries:
            self._grid = grid
        elif grid != self._grid:
            self._grid = None
        self.entries[place] = register

    def stored(self, place: Place, register: str) -> None:
        """A store: what overlaps with it, or may because its pointer is another one, is forgotten."""
        if _grid(place) != self._grid:
            self.entries = {key: text for key, text in self.entries.items() if _apart(key, place)}
        self.add(place, register)


def _grid(place: Place) -> Place:
    width = place[2] or 1
    return place[0], place[1] % width, place[2]


def _apart(a: Place, b: Place) -> bool:
    return a[0] == b[0] and (a[1] + (a[2] or 1) <= b[1] or b[1] + (b[2] or 1) <= a[1])
