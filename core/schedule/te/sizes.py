"""TE schedules of computations with size variables: the same schedule where the variables are numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TypeVar

from pegbox.compute.axis import IterVar, SizeVar
from pegbox.compute.sizes import Sizes, size_variables
from pegbox.compute.tensor import Tensor
from pegbox.schedule.te.call import Call
from pegbox.schedule.te.schedule import TESchedule
from pegbox.schedule.te.stage import At, Relation, Stage
from pegbox.schedule.te.stage_base import GroupBase, Prefetch

_Value = TypeVar("_Value")
_Place = TypeVar("_Place")


def variables_of(schedule: TESchedule) -> list[SizeVar]:
    """The size variables of all that a schedule computes, in order of first use."""
    return size_variables([*(tensor.op for tensor in schedule.placeholders), *(stage.op for stage in schedule.stages)])


def at_sizes(
    schedule: TESchedule, args: Sequence[Tensor], sizes: Mapping[SizeVar, int]
) -> tuple[TESchedule, list[Tensor]]:
    """A schedule that says the same of the same computation with these sizes, and its arguments.

    What depends on the sizes (whether a split leaves a tail, whether a step is legal) is decided when that schedule is
    lowered, as it is for a computation that had these numbers from the beginning.

    Raises:
        ArgumentError: an extent is below 1 for these sizes.
    """
    copied = Sizes(sizes)
    other = schedule.copy()
    other.placeholders = [copied.tensor(tensor) for tensor in schedule.placeholders]
    for stage in other.stages:
        stage.op = copied.operation(stage.op)
    for stage in other.stages:
        _move(stage, copied)
    for group in _groups(other):
        group.attach, group.calls = _place(group.attach, copied), _calls(group.calls, copied)
    return other, [copied.argument(tensor) for tensor in args]


def _move(stage: Stage, copied: Sizes) -> None:
    """Say what is said of loops of their copies."""
    stage.leaf_iter_vars = [copied.axis(iv) for iv in stage.leaf_iter_vars]
    stage.relations = [_relation(relation, copied) for relation in stage.relations]
    stage.kinds, stage.pragmas = _keys(stage.kinds, copied), _keys(stage.pragmas, copied)
    stage.alignments, stage.fixed_extents = _keys(stage.alignments, copied), _keys(stage.fixed_extents, copied)
    stage.prefetches = [Prefetch(copied.tensor(p.tensor), copied.axis(p.loop), p.offset) for p in stage.prefetches]
    stage.attach, stage.calls = _place(stage.attach, copied), _calls(stage.calls, copied)
    if stage.tensorized is not None:
        loop, intrin = stage.tensorized
        stage.tensorized = copied.axis(loop), intrin


def _relation(relation: Relation, copied: Sizes) -> Relation:
    changed: dict[str, object] = {}
    for field in fields(relation):
        value = getattr(relation, field.name)
        if isinstance(value, IterVar):
            changed[field.name] = copied.axis(value)
        elif isinstance(value, tuple):  # of loops
            changed[field.name] = tuple(map(copied.axis, value))
    return replace(relation, **changed)  # type: ignore[arg-type]


def _place(place: _Place, copied: Sizes) -> _Place:
    return replace(place, loop=copied.axis(place.loop)) if isinstance(place, At) else place


def _calls(calls: list[Call], copied: Sizes) -> list[Call]:
    return [tuple(copied.axis(each) if isinstance(each, IterVar) else each for each in call) for call in calls]


def _keys(said: Mapping[IterVar, _Value], copied: Sizes) -> dict[IterVar, _Value]:
    return {copied.axis(loop): value for loop, value in said.items()}


def _groups(schedule: TESchedule) -> list[GroupBase]:
    """All groups, each once."""
    found: list[GroupBase] = []
    for stage in schedule.stages:
        group = stage.group
        while group is not None and group not in found:
            found.append(group)
            group = group.group
    return found
