"""The program of a TE schedule: every step is replayed with numbers for its size variables."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from pegbox.compute.axis import IterVar, SizeVar
from pegbox.compute.sizes import GivenSizes, Sizes, check_sizes, size_variables, stand_ins
from pegbox.compute.tensor import Tensor
from pegbox.loops.nodes import Function
from pegbox.origin import users_level
from pegbox.schedule.te.replay import check_arguments, replay
from pegbox.schedule.te.replay_state import Draft
from pegbox.schedule.te.schedule import TESchedule
from pegbox.schedule.te.stage_base import moved


def program_of(
    schedule: TESchedule,
    args: Sequence[Tensor],
    name: str = "main",
    *,
    sizes: GivenSizes | None = None,
    shown: bool = False,
) -> Function:
    """Return the scheduled program (with blocks) of a TE schedule.

    Args:
        sizes: the numbers of the size variables.
        shown: True if the program is only read, not built. Numbers may replace sizes, and illegal loops stay, as far as
            possible, with a mark; warnings say so.

    Raises:
        ArgumentError: the sizes are not those of the computation.
        ScheduleError: the schedule is not legal, or an argument is missing.
    """
    draft = Draft() if shown else None
    if variables := variables_of(schedule):
        check_arguments(schedule, args, draft)
        numbers = shown_sizes(variables) if sizes is None and shown else check_sizes(variables, sizes or {})
        schedule, args = at_sizes(schedule, args, numbers)
    elif sizes:
        check_sizes(variables, sizes)
    func = replay(schedule, args, name, draft).func
    for error in draft.refusals if draft else ():
        why = error.message.partition("\n")[0]
        warnings.warn(f"the program is shown, but not legal, and is not built: {why}", stacklevel=users_level())
    return func


def shown_sizes(variables: Sequence[SizeVar]) -> dict[SizeVar, int]:
    """Choose numbers for sizes in a program that is only read, and warn with the numbers."""
    numbers = stand_ins(variables)
    chosen = ", ".join(f"{var.name} = {number}" for var, number in numbers.items())
    warnings.warn(
        f"sizes are variables; the program is shown for {chosen} (pegbox.lower takes others: sizes={{...}})",
        stacklevel=users_level(),
    )
    return numbers


def variables_of(schedule: TESchedule) -> list[SizeVar]:
    """Return the size variables of a schedule's computations, in order of first use."""
    return size_variables([*(tensor.op for tensor in schedule.placeholders), *(stage.op for stage in schedule.stages)])


def at_sizes(
    schedule: TESchedule, args: Sequence[Tensor], sizes: Mapping[SizeVar, int]
) -> tuple[TESchedule, list[Tensor]]:
    """Return the same schedule for the computation with these sizes, and its arguments.

    Decisions that depend on sizes (the tail of a split, the legality of a step) are made when that schedule is lowered,
    as for a computation with numbers from the beginning.

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
