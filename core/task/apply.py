"""`cfg["tile"].apply(s, C, y)`: applies the values of knobs to schedules.

A template's `cfg["tile"]` is the entity itself, wrapped in one of the handles below; everything but `apply` is the
entity's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from pegbox.compute.tensor import Operation, Tensor
from pegbox.errors import TemplateError
from pegbox.schedule.schedule import Schedule
from pegbox.schedule.te.schedule import TESchedule
from pegbox.schedule.te.stage import Stage
from pegbox.space.annotate import BOUND_AXES
from pegbox.space.entities import AnnotateEntity, Entity, KnobEntity, OtherEntity, ReorderEntity, SplitEntity

if TYPE_CHECKING:
    from pegbox.task.config_view import TemplateConfig

AnySchedule: TypeAlias = TESchedule | Schedule
Place: TypeAlias = Tensor | Operation | None
"""The TE stage of the loops; without effect on a `tir.Schedule`, whose loops know their blocks."""


class KnobValue(Protocol):
    """The type of `cfg["name"]`. Its attributes depend on the kind of the knob."""

    @property
    def val(self) -> Any:
        """The value of a `define_knob`, as the template declared it."""

    @property
    def size(self) -> list[int]:
        """The extents of the loops of a `define_split`, outermost first; -1 means "inferred"."""

    @property
    def perm(self) -> list[int]:
        """The order of a `define_reorder`: position i holds the number of the axis that goes there."""

    @property
    def anns(self) -> list[Any]:
        """The annotations of a `define_annotate`, one for each axis."""

    def apply(self, sch: AnySchedule, op: Place, axes: Any, **options: Any) -> list[Any]:
        """Apply the value of a split, a reorder or an annotate knob to the loop, or the loops."""


class Handle(KnobEntity):
    """An entity with an `apply` method, as a template receives it."""

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
            TemplateError: the number of loops is not the number that the knob was declared with.
        """
        perm = self._entity.perm
        if len(axes) != len(perm):
            raise TemplateError(f"reorder knob of {len(perm)} axes applied to {len(axes)} loops")
        ordered = [axes[i] for i in perm]
        _stage(sch, op).reorder(*ordered)
        return ordered


class AnnotateHandle(Handle):
    def apply(
        self,
        sch: AnySchedule,
        op: Place,
        axes: Sequence[Any],
        *,
        axis_lens: Sequence[int] | None = None,
        max_unroll: int | None = None,
        vec_size: Sequence[int] | None = None,
        cfg: TemplateConfig | None = None,
        source: Sequence[Sequence[Tensor]] | None = None,
    ) -> list[Any]:
        """Annotate each loop as the knob says, and return the loops.

        "none", "unroll", "vec" and "parallel" change the loop; "fuse" fuses it with the next one; the name of a thread
        axis binds it to that axis, for an emulated GPU program.

        Args:
            axis_lens: the extents of the loops, for `max_unroll` and `vec_size`.
            max_unroll: the longest loop that may be unrolled; the configuration is refused for a longer one.
            vec_size: the extents that may be vectorized; the configuration is refused for others.
            cfg: the template's configuration, whose `raise_error` refuses it.
            source: for the policy "locate_cache" on TE stages: for each chosen place, the stages computed at that loop.

        Raises:
            TemplateError: the number of loops is not the declared one, or a limit lacks `axis_lens` or `cfg`.
        """
        anns = self._entity.anns
        if source is not None:
            return _placed(sch, op, list(axes), anns, source)
        if len(axes) != len(anns):
            raise TemplateError(f"annotate knob of {len(anns)} axes applied to {len(axes)} loops")
        _check_limits(anns, axis_lens=axis_lens, max_unroll=max_unroll, vec_size=vec_size, cfg=cfg)
        stage, loops = _stage(sch, op), list(axes)
        for place, ann in enumerate(anns):
            _annotate(stage, loops, place, ann)
        return loops


def _check_limits(
    anns: Sequence[str],
    *,
    axis_lens: Sequence[int] | None,
    max_unroll: int | None,
    vec_size: Sequence[int] | None,
    cfg: TemplateConfig | None,
) -> None:
    """Refuse the configuration, by `cfg.raise_error`, if a loop is too long for its annotation."""
    if not (max_unroll or vec_size):
        return
    if axis_lens is None or cfg is None:
        raise TemplateError("max_unroll= and vec_size= need axis_lens= (the extents of the loops) and cfg=")
    for ann, extent in zip(anns, axis_lens, strict=True):
        if ann == "unroll" and max_unroll and extent > max_unroll:
            cfg.raise_error(f"a loop of {extent} is unrolled, more than max_unroll={max_unroll}")
        if ann == "vec" and vec_size and extent not in vec_size:
            cfg.raise_error(f"a loop of {extent} is vectorized, which is not one of vec_size={list(vec_size)}")


def _annotate(stage: Any, loops: list[Any], place: int, ann: str | None) -> None:
    """Apply one annotation; `loops` changes if two are fused."""
    match ann:
        case "none" | None:
            pass
        case "unroll":
            stage.unroll(loops[place])
        case "vec":
            stage.vectorize(loops[place])
        case "parallel":
            stage.parallel(loops[place])
        case "fuse":
            if place + 1 == len(loops):
                raise TemplateError("annotation 'fuse' on the innermost loop: there is no loop inside to fuse it with")
            loops[place + 1] = stage.fuse(loops[place], loops[place + 1])
        case _ if ann in BOUND_AXES:
            stage.bind(loops[place], ann)
        case _:
            raise TemplateError(f"annotation {ann!r}: apply() takes none, unroll, vec, parallel, fuse and thread axes")


def _placed(
    sch: AnySchedule, op: Place, axes: list[Any], places: Sequence[int], source: Sequence[Sequence[Tensor]]
) -> list[Any]:
    """Compute the stages of each group at its chosen loop."""
    if isinstance(sch, Schedule) or len(source) != len(places):
        raise TemplateError(
            f"source={source!r}: give a list of tensors of a TE schedule for each of the {len(places)} chosen loops"
        )
    for tensors, place in zip(source, places, strict=True):
        for tensor in tensors:
            sch[tensor].compute_at(sch[cast(Tensor, op)], axes[place])
    return axes


def _stage(sch: AnySchedule, op: Place) -> Stage | Schedule:
    """Find the object whose methods are the loop primitives."""
    return sch if isinstance(sch, Schedule) else sch[cast(Tensor, op)]


def handle(entity: Entity) -> Any:
    """Wrap the entity in a handle if its kind has an `apply`."""
    if isinstance(entity, OtherEntity):
        return entity
    if type(entity) not in _HANDLES:
        raise TypeError(f"unknown entity {entity!r}")
    return _HANDLES[type(entity)](entity)


_HANDLES: dict[type, type[Handle]] = {
    SplitEntity: SplitHandle, ReorderEntity: ReorderHandle, AnnotateEntity: AnnotateHandle,
}  # fmt: skip
