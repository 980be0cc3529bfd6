"""`TESchedule`: one stage per operation, and the rewrites of the compute graph that add stages."""

from __future__ import annotations

from collections.abc import Sequence

from pegbox.compute.tensor import Operation, Tensor
from pegbox.errors import ScheduleError
from pegbox.schedule.te.cache import CacheRewrites
from pegbox.schedule.te.epilogue import EpilogueRewrites
from pegbox.schedule.te.group import Groups
from pegbox.schedule.te.rfactor import RfactorRewrites
from pegbox.shown import value_text


class TESchedule(CacheRewrites, RfactorRewrites, EpilogueRewrites, Groups):
    """`s[tensor]` is a tensor's stage. Stages are in an order in which they can run."""


def create_schedule(ops: Operation | Tensor | Sequence[Operation | Tensor]) -> TESchedule:
    """Return the default schedule of everything that `ops` need: each stage is a naive nest at the root.

    Raises:
        ScheduleError: nothing is computed, or an argument is not an operation.
    """
    several = ops if isinstance(ops, Sequence) and not isinstance(ops, str) else [ops]
    for each in several:
        if not isinstance(each, Operation | Tensor):
            raise ScheduleError(
                f"create_schedule: {value_text(each)} is not a tensor or operation", "give C.op of each output C"
            )
    if not several:
        raise ScheduleError("create_schedule: no operations given", "give those of the outputs, as C.op")
    return TESchedule([x.op if isinstance(x, Tensor) else x for x in several])
