"""TE schedules: one stage an operation, and the rewrites of the compute graph that add stages."""

from __future__ import annotations

from collections.abc import Sequence

from pegbox.compute.tensor import Operation, Tensor
from pegbox.schedule.te_cache import CacheRewrites
from pegbox.schedule.te_group import Groups
from pegbox.schedule.te_rfactor import RfactorRewrites


class TESchedule(CacheRewrites, RfactorRewrites, Groups):
    """`s[tensor]` is a tensor's stage. Stages stand in an order in which they can run."""


def create_schedule(ops: Operation | Tensor | Sequence[Operation | Tensor]) -> TESchedule:
    """The default schedule of everything that `ops` need: each stage a naive nest at the root."""
    several = ops if isinstance(ops, Sequence) else [ops]
    return TESchedule([x.op if isinstance(x, Tensor) else x for x in several])
