"""Entities: the plain values that a knob can take.

Templates read entities: `cfg["tile"].size`, `cfg["unroll"].val`, `cfg["order"].perm`, `cfg["ann"].anns`.
Lists are handed out as fresh copies, so that a template cannot change a space by accident.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeAlias

from pegbox.errors import SpaceError

THREADS = "threads"
"""The knob for a template's number of threads; its first value is one."""


class KnobEntity:
    """Base of entities. An entity is not its value: computing with it is an error that says how to read the value."""

    __slots__ = ()
    reading: ClassVar[str]

    def refuse(self, *_: object) -> NoReturn:
        raise SpaceError(f"the entity of a knob ({self}) is used where a value is needed; {self.reading}")

    __index__ = __int__ = __float__ = __bool__ = __iter__ = __getitem__ = refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = refuse
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = refuse
    __lt__ = __le__ = __gt__ = __ge__ = refuse

    if not TYPE_CHECKING:  # type checkers know the attributes

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}; {self.reading}")


class ListEntity(KnobEntity):
    """Base of the entities whose only field is a tuple."""

    __slots__: tuple[str, ...] = ()

    def value(self) -> list[Any]:
        """Return the field as a list, as JSON has it."""
        return list(getattr(self, self.__slots__[0]))

    def __str__(self) -> str:
        return str(self.value())


@dataclass(frozen=True, slots=True)
class SplitEntity(ListEntity):
    """Extents of the loops that an axis is split into, outermost first; -1 means "inferred"."""

    tag: ClassVar[str] = "sp"
    reading: ClassVar[str] = (
        "read the extents of its loops with .size, as in cfg['tile'].size[-1], or split a loop with .apply(s, C, axis)"
    )
    sizes: tuple[int, ...]

    @property
    def size(self) -> list[int]:
        """The extents as a list, such as `[-1, 8, 4]`."""
        return list(self.sizes)


@dataclass(frozen=True, slots=True)
class OtherEntity(KnobEntity):
    """One value out of a list of candidates. `key` is its JSON text, which differs for 1, True and 1.0."""

    tag: ClassVar[str] = "ot"
    reading: ClassVar[str] = "read its value with .val, as in cfg['unroll'].val"
    key: str
    raw: Any

    @property
    def val(self) -> Any:
        """The value as the template declared it."""
        raw = self.raw
        if type(raw) is int or type(raw) is str:  # constraints read them millions of times
            return raw
        return copy.deepcopy(raw) if isinstance(raw, (list, dict, tuple)) else raw

    def value(self) -> Any:
        return self.val

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str | int | float):
            self.refuse()  # comparing would always give False, and go unnoticed
        return self.key == other.key if isinstance(other, OtherEntity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return str(self.raw)


@dataclass(frozen=True, slots=True)
class ReorderEntity(ListEntity):
    """An order of axes: position i holds the number of the axis that goes there."""

    tag: ClassVar[str] = "re"
    reading: ClassVar[str] = (
        "read the order with .perm, as in cfg['order'].perm, or reorder loops with .apply(s, C, axes)"
    )
    order: tuple[int, ...]

    @property
    def perm(self) -> list[int]:
        """The permutation as a list: `[1, 0]` swaps two axes."""
        return list(self.order)


@dataclass(frozen=True, slots=True)
class AnnotateEntity(ListEntity):
    """One annotation per axis; under the policy `locate_cache`, the numbers of the axes that were chosen."""

    tag: ClassVar[str] = "an"
    reading: ClassVar[str] = (
        "read the annotations with .anns, as in cfg['ann'].anns, or annotate loops with .apply(s, C, axes)"
    )
    marks: tuple[str, ...] | tuple[int, ...]

    @property
    def anns(self) -> list[Any]:
        """The annotations as a list: `["none", "vec"]`, or axis numbers under `locate_cache`."""
        return list(self.marks)


Entity: TypeAlias = SplitEntity | OtherEntity | ReorderEntity | AnnotateEntity
