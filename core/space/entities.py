"""Entities: the plain values that a knob can take.

An entity is what a template reads: `cfg["tile"].size`, `cfg["unroll"].val`, `cfg["order"].perm`, `cfg["ann"].anns`.
Lists are handed out as fresh copies, so that a template cannot change a space by accident.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias


@dataclass(frozen=True, slots=True)
class SplitEntity:
    """Extents of the loops that an axis is split into, outermost first; -1 stands for "inferred"."""

    tag: ClassVar[str] = "sp"
    sizes: tuple[int, ...]

    @property
    def size(self) -> list[int]:
        """The extents as a list, such as `[-1, 8, 4]`."""
        return list(self.sizes)

    def value(self) -> list[int]:
        return list(self.sizes)

    def __str__(self) -> str:
        return str(self.size)


@dataclass(frozen=True, slots=True)
class OtherEntity:
    """One value out of a list of candidates. `key` is its JSON text: it tells 1 from True and 1.0."""

    tag: ClassVar[str] = "ot"
    key: str
    raw: Any

    @property
    def val(self) -> Any:
        """The value as the template declared it."""
        return copy.deepcopy(self.raw) if isinstance(self.raw, (list, dict, tuple)) else self.raw

    def value(self) -> Any:
        return self.val

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, OtherEntity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return str(self.raw)


@dataclass(frozen=True, slots=True)
class ReorderEntity:
    """An order of axes: position i holds the number of the axis that goes there."""

    tag: ClassVar[str] = "re"
    order: tuple[int, ...]

    @property
    def perm(self) -> list[int]:
        """The permutation as a list: `[1, 0]` swaps two axes."""
        return list(self.order)

    def value(self) -> list[int]:
        return list(self.order)

    def __str__(self) -> str:
        return str(self.perm)


@dataclass(frozen=True, slots=True)
class AnnotateEntity:
    """One annotation per axis; under the policy `locate_cache`, the numbers of the axes that were chosen."""

    tag: ClassVar[str] = "an"
    marks: tuple[str, ...] | tuple[int, ...]

    @property
    def anns(self) -> list[Any]:
        """The annotations as a list: `["none", "vec"]`, or axis numbers under `locate_cache`."""
        return list(self.marks)

    def value(self) -> list[Any]:
        return list(self.marks)

    def __str__(self) -> str:
        return str(self.anns)


Entity: TypeAlias = SplitEntity | OtherEntity | ReorderEntity | AnnotateEntity
