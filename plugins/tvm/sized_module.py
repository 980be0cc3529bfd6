"""Modules of schedules with size variables: shown for some sizes, and built for any."""

from __future__ import annotations

from collections.abc import Sequence

import pegbox
from pegbox.compute.tensor import Tensor
from pegbox.loops.module import IRModule
from pegbox.schedule.te.program import shown_sizes
from pegbox.schedule.te.schedule import TESchedule
from pegbox.schedule.te.sizes import variables_of


class SizedModule(IRModule):
    """`schedule` is as it was when it was lowered; its program, which people read, is that of numbers for the sizes."""

    def __init__(self, schedule: TESchedule, args: Sequence[Tensor], name: str, *, simple_mode: bool) -> None:
        """Lower a schedule.

        Raises:
            ScheduleError: it is not legal for these numbers, or an argument is missing.
        """
        self.schedule, self.args, self.name = schedule.copy(), list(args), name
        sizes = None if simple_mode else shown_sizes(variables_of(schedule))
        super().__init__({name: pegbox.lower(schedule, args, name, simple_mode=simple_mode, sizes=sizes)})
