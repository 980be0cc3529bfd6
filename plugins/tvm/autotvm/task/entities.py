"""Axes and entities by AutoTVM's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pegbox.space as pegbox_space
from pegbox.expr.nodes import Var
from pegbox.task.apply import AnnotateHandle, ReorderHandle, SplitHandle


class VirtualAxis:
    """An axis before the computation has one: the extent that is given, or that of the axis that is given."""

    var: Any

    def __init__(self, var: Any, name: str | None = None) -> None:
        self.var = var.var if isinstance(var, VirtualAxis) else var
        self.length: int = self.var if isinstance(self.var, int) else self.var.extent
        self.name = str(name or getattr(self.var, "name", "axis"))

    def __repr__(self) -> str:
        return f"vaxis({self.name})"


class _Kind(type):
    """Lets `isinstance` know the entities that `cfg[name]` gives."""

    tag: str

    def __instancecheck__(cls, value: object) -> bool:
        return getattr(value, "tag", None) == cls.tag


class SplitEntity(SplitHandle, metaclass=_Kind):
    """The extents of the loops of a split, outermost first; -1 has the outermost inferred."""

    tag = "sp"

    def __init__(self, size: Sequence[int]) -> None:
        super().__init__(pegbox_space.SplitEntity(tuple(map(int, size))))


class ReorderEntity(ReorderHandle, metaclass=_Kind):
    """An order of loops: position i holds the number of the loop that goes there."""

    tag = "re"

    def __init__(self, perm: Sequence[int]) -> None:
        super().__init__(pegbox_space.ReorderEntity(tuple(perm)))


class AnnotateEntity(AnnotateHandle, metaclass=_Kind):
    """An annotation for each loop."""

    tag = "an"

    def __init__(self, anns: Sequence[Any]) -> None:
        super().__init__(pegbox_space.AnnotateEntity(tuple(anns)))


class OtherOptionEntity(metaclass=_Kind):
    """One value of `define_knob`."""

    tag = "ot"

    def __init__(self, val: Any) -> None:
        self.val = val

    def value(self) -> Any:
        return self.val

    def __repr__(self) -> str:
        return str(self.val)


KINDS: dict[str, Callable[[Any], Any]] = {
    "sp": SplitEntity,
    "re": ReorderEntity,
    "an": AnnotateEntity,
    "ot": OtherOptionEntity,
}


def plain_axes(axes: Sequence[Any]) -> list[Any]:
    """Axes as pegbox takes them: axes of tensors, loops or names."""
    return [
        (axis.var if isinstance(axis.var, Var) else f"axis{place}") if isinstance(axis, VirtualAxis) else axis
        for place, axis in enumerate(axes)
    ]


def renamed(value: Any, axes: Sequence[Any], plain: Sequence[Any]) -> Any:
    """An option of define_reorder with the plain axes for virtual ones."""
    if isinstance(value, VirtualAxis):
        return next(p for axis, p in zip(axes, plain, strict=True) if axis is value)
    return [renamed(item, axes, plain) for item in value] if isinstance(value, list | tuple) else value
