"""`cfg["tile"].apply(s, C, y)`: applies the values of knobs to schedules.

A template's `cfg["tile"]` is the entity itself, wrapped in one of the handles below; everything but `apply` is the
entity's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, cast

from pegbox.compute.tensor import Operation, Tensor
from pegbox.errors import TemplateError
from pegbox.schedule.schedule import Schedule
from pegbox.schedule.te.schedule import TESchedule
from pegbox.schedule.te.stage import Stage
from pegbox.space.entities import AnnotateEntity, Entity, KnobEntity, OtherEntity, ReorderEntity, SplitEntity

AnySchedule: TypeAlias = TESchedule | Schedule
Place: TypeAlias = Tensor | Operation | None
"""Whose loops they are on a TE schedule; on a `tir.Schedule`, where loops know their blocks, it is not looked at."""


class KnobValue(Protocol):
    """What `cfg["name"]` gives. The kind of the knob decides which of the attributes it has."""

    @property
    def val(self) -> Any:
        """Of `define_knob`: the value as the template declared it."""

    @property
    def size(self) -> list[int]:
        """Of `define_split`: the extents of the loops, outermost first; -1 stands for "inferred"."""

    @property
    def perm(self) -> list[int]:
        """Of `define_reorder`: position i holds the number of the axis that goes there."""

    @property
    def anns(self) -> list[Any]:
        """Of `define_annotate`: one annotation for each axis."""

    def apply(self, sch: AnySchedule, op: Place, axes: Any) -> list[Any]:
        """Do to the loop, or the loops, what the value of a split, a reorder or an annotate knob says."""


class Handle(KnobEntity):
    """An entity in the hands of a template."""

    def __init__(self, entity: Any) -> None:
        self._entity = entity

    def __getattr__(self, name: str) -> Any:
        return getattr(self._entity, name)

    def __repr__(self) -> str:
        return str(self._entity)


class SplitHandle(Handle):
    def apply(self, sch: AnySchedule, op: Place, axis: Any) -> list[Any]:
        """Split `axis` into as many loops as the knob has outputs; returns them outermost first."""
        size = self._entity.size
        if isinstance(sch, Schedule):
            return list(sch.split(axis, factors=[None, *size[1:]])) if len(size) > 1 else [axis]
        loops = []
        for position in range(1, len(size)):
            outer, axis = sch[cast(Tensor, op)].split(axis, factor=math.prod(size[position:]))
            loops.append(outer)
        return [*loops, axis]


class ReorderHandle(Handle):
    def apply(self, sch: AnySchedule, op: Place, axes: Sequence[Any]) -> list[Any]:
        """Put the loops in the knob's order; returns them in that order.

        Raises:
            TemplateError: another number of loops than the knob was declared with.
        """
        perm = self._entity.perm
        if len(axes) != len(perm):
            raise TemplateError(f"reorder knob of {len(perm)} axes applied to {len(axes)} loops")
        ordered = [axes[i] for i in perm]
        _stage(sch, op).reorder(*ordered)
        return ordered


class AnnotateHandle(Handle):
    def apply(self, sch: AnySchedule, op: Place, axes: Sequence[Any]) -> list[Any]:
        """Annotate each loop as the knob says: "none", "unroll" or "vec".

        Raises:
            TemplateError: another number of loops than declared, or an annotation for another kind of target.
        """
        anns = self._entity.anns
        if len(axes) != len(anns):
            raise TemplateError(f"annotate knob of {len(anns)} axes applied to {len(axes)} loops")
        stage = _stage(sch, op)
        for axis, ann in zip(axes, anns, strict=True):
            match ann:
                case "none" | None:
                    pass
                case "unroll":
                    stage.unroll(axis)
                case "vec":
                    stage.vectorize(axis)
                case _:
                    raise TemplateError(
                        f"annotation {ann!r} means nothing on a CPU; apply() takes none, unroll and vec"
                    )
        return list(axes)


def _stage(sch: AnySchedule, op: Place) -> Stage | Schedule:
    """What the primitives of loops are methods of."""
    return sch if isinstance(sch, Schedule) else sch[cast(Tensor, op)]


def handle(entity: Entity) -> Any:
    """The entity with an `apply` where its kind has one."""
    match entity:
        case SplitEntity():
            return SplitHandle(entity)
        case ReorderEntity():
            return ReorderHandle(entity)
        case AnnotateEntity():
            return AnnotateHandle(entity)
        case OtherEntity():
            return entity
        case _:
            raise TypeError(f"unknown entity {entity!r}")
