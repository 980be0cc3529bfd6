"""The program of a TE schedule: sizes given, every relation replayed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from pegbox.compute.axis import SizeVar
from pegbox.compute.sizes import GivenSizes, check_sizes, stand_ins
from pegbox.compute.tensor import Tensor
from pegbox.loops.nodes import Function
from pegbox.origin import users_level
from pegbox.schedule.te.draft import Draft
from pegbox.schedule.te.replay import check_arguments, replay
from pegbox.schedule.te.schedule import TESchedule
from pegbox.schedule.te.sizes import at_sizes, variables_of


def program_of(
    schedule: TESchedule,
    args: Sequence[Tensor],
    name: str = "main",
    *,
    sizes: GivenSizes | None = None,
    shown: bool = False,
) -> Function:
    """The scheduled program (with blocks) that a TE schedule stands for.

    Args:
        sizes: the numbers of the size variables.
        shown: nobody will build it. Numbers may stand in for sizes, and what is not legal stays, as far as a program
            can have it, with the place marked; warnings say so.

    Raises:
        ArgumentError: not the sizes that the computation has.
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
    """Numbers that stand in for sizes in a program to be read; a warning says which."""
    numbers = stand_ins(variables)
    told = ", ".join(f"{var.name} = {number}" for var, number in numbers.items())
    warnings.warn(
        f"sizes are variables; the program is shown for {told} (pegbox.lower takes others: sizes={{...}})",
        stacklevel=users_level(),
    )
    return numbers
