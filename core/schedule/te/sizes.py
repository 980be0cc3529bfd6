"""TE schedules of computations with size variables: the same schedule where the variables are numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pegbox.compute.axis import IterVar, SizeVar
from pegbox.compute.sizes import Sizes, size_variables
from pegbox.compute.tensor import Tensor
from pegbox.schedule.te.schedule import TESchedule
from pegbox.schedule.te.stage_base import moved


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
        stage.leaf_iter_vars = [copied.axis(iv) for iv in stage.leaf_iter_vars]

    def change(value: Any) -> Any:
        return (
            copied.axis(value)
            if isinstance(value, IterVar)
            else copied.tensor(value)
            if isinstance(value, Tensor)
            else value
        )

    for each in (*other.stages, *other.groups):
        each.steps = moved(each.steps, change)
    return other, [copied.argument(tensor) for tensor in args]
