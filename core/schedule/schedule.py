"""The schedule of a program: primitives that change it step by step and never its result."""

from __future__ import annotations

from pegbox.schedule.primitives.cache import CachePrimitives
from pegbox.schedule.primitives.compute_at import ComputeAtPrimitives
from pegbox.schedule.primitives.inline import InlinePrimitives
from pegbox.schedule.primitives.kinds import KindPrimitives
from pegbox.schedule.primitives.layout import LayoutPrimitives
from pegbox.schedule.primitives.loops import LoopPrimitives
from pegbox.schedule.primitives.prefetch import PrefetchPrimitives
from pegbox.schedule.primitives.reduction import ReductionPrimitives
from pegbox.schedule.primitives.reshape import ReshapePrimitives
from pegbox.schedule.primitives.reverse_compute_at import ReverseComputeAtPrimitives
from pegbox.schedule.primitives.rfactor import RfactorPrimitives
from pegbox.schedule.primitives.sampling import SamplingPrimitives
from pegbox.schedule.primitives.storage import StoragePrimitives
from pegbox.schedule.primitives.tensorize import TensorizePrimitives
from pegbox.schedule.primitives.threads import ThreadPrimitives
from pegbox.schedule.state.handles import BlockRef as BlockRef
from pegbox.schedule.state.handles import LoopRef as LoopRef
from pegbox.schedule.state.lookup import Lookup


class Schedule(
    Lookup,
    SamplingPrimitives,
    LoopPrimitives,
    KindPrimitives,
    PrefetchPrimitives,
    CachePrimitives,
    ComputeAtPrimitives,
    ReverseComputeAtPrimitives,
    InlinePrimitives,
    ReductionPrimitives,
    RfactorPrimitives,
    ReshapePrimitives,
    LayoutPrimitives,
    StoragePrimitives,
    ThreadPrimitives,
    TensorizePrimitives,
):
    """A program and the primitives on it.

    Each primitive checks, changes the program at once (`sch.func` is the new one; programs themselves are immutable),
    and is recorded in `sch.trace`. A step that would change the result is refused and leaves everything as it was.

    >>> sch = Schedule([A, B, C])
    >>> i, j, k = sch.get_loops("C")
    >>> j_0, j_1 = sch.split(j, factor=16)
    >>> sch.reorder(i, j_0, k, j_1)
    >>> sch.vectorize(j_1)

    Loops are told by `LoopRef`, blocks by `BlockRef` or name. The families of primitives are in `primitives/`.
    """

    def copy(self) -> Schedule:
        """A schedule of the same program with the same trace, to be continued independently. Costs next to nothing."""
        other = Schedule(self._module)
        other._continue_from(self)
        return other
