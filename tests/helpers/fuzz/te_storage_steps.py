"""Random calls of TE about where and how values are kept."""

from __future__ import annotations

import random
from collections.abc import Sequence

from fuzz.layout_steps import check_notes
from pegbox.compute.tensor import Tensor
from pegbox.schedule import Schedule
from pegbox.schedule.te.replay import replay
from pegbox.schedule.te.schedule import TESchedule
from pegbox.schedule.te.stage import At


def set_scope(s: TESchedule, rng: random.Random) -> None:
    rng.choice(s.stages).set_scope(rng.choice(("global", "local", "shared", "warp", "shared.dyn", "near")))


def storage_align(s: TESchedule, rng: random.Random) -> None:
    stage = rng.choice(s.stages)
    factor = rng.choice((1, 2, 4, 8, 32, 5))
    stage.storage_align(rng.choice(stage.op.axis[:-1] or stage.op.axis), factor, rng.randrange(factor))


def double_buffer(s: TESchedule, rng: random.Random) -> None:
    """Mostly of a stage that is attached, or of a copy made for it."""
    attached = [stage for stage in s.stages if isinstance(stage.attach, At)]
    if attached and rng.random() < 0.6:
        rng.choice(attached).double_buffer()
        return
    reader = rng.choice(s.stages)
    copy = s.cache_read(rng.choice(reader.op.inputs), rng.choice(("local", "shared")), [reader.op])
    s[copy].compute_at(reader, rng.choice(reader.leaf_iter_vars[:2]))
    s[copy].double_buffer()


def store_in(s: TESchedule, rng: random.Random) -> None:
    """Mostly of a stage that an output reads."""
    output = rng.choice([stage for stage in s.stages if stage.is_output])
    read = [stage for stage in s.stages if any(t in output.op.inputs for t in stage.op.outputs)]
    rng.choice(read or s.stages).store_in(output)


def rolling_buffer(s: TESchedule, rng: random.Random) -> None:
    """Mostly of a stage that is attached, or that is attached to tiles of one of its readers now."""
    attached = [stage for stage in s.stages if isinstance(stage.attach, At)]
    if attached and rng.random() < 0.4:
        rng.choice(attached).rolling_buffer()
        return
    stage = rng.choice(s.stages)
    readers = [r for r in s.stages if any(t in r.op.inputs for t in stage.op.outputs)]
    if readers:
        reader = readers[-1]
        loop = rng.choice(reader.leaf_iter_vars)
        if rng.random() < 0.7:
            loop, _ = reader.split(loop, factor=rng.choice((1, 2, 3, 4)))
        stage.compute_at(reader, loop)
    stage.rolling_buffer()


def replayed(s: TESchedule, tensors: Sequence[Tensor]) -> Schedule:
    """The schedule replayed; what only lowering can refuse is refused too.

    Raises:
        ScheduleError: a relation is not legal.
    """
    sch = replay(s, tensors)
    check_notes(sch)
    return sch
