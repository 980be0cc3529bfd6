"""Random calls of TE with threads: bound loops, stages that threads share, threads from outside, predicates."""

from __future__ import annotations

import random

from pegbox import te
from pegbox.compute.axis import IterVar
from pegbox.errors import ScheduleError
from pegbox.schedule.te.schedule import TESchedule
from pegbox.schedule.te.stage import Inline, Stage

TAGS = ("threadIdx.x", "threadIdx.x", "threadIdx.y", "blockIdx.x", "blockIdx.y", "vthread")


def _stage(s: TESchedule, rng: random.Random) -> Stage:
    return rng.choice([stage for stage in s.stages if not isinstance(stage.attach, Inline)] or s.stages)


def _free(stage: Stage, rng: random.Random) -> IterVar:
    plain = [iv for iv in stage.leaf_iter_vars if iv not in stage.kinds]
    return rng.choice(plain or stage.leaf_iter_vars)


def _env(stage: Stage) -> list[str]:
    """The thread axes that are started around a stage."""
    step = stage.steps.get(("env_threads",))
    return [tag for tag, _ in step.args] if step else []


def bind(s: TESchedule, rng: random.Random) -> None:
    stage = _stage(s, rng)
    stage.bind(_free(stage, rng), te.thread_axis(rng.choice(TAGS)))


def share(s: TESchedule, rng: random.Random) -> None:
    """Threads, and below them a copy in shared memory that they make together."""
    stage = _stage(s, rng)
    if not stage.op.inputs:
        raise ScheduleError("reads nothing")
    tag = rng.choice(TAGS[:3])
    bound = [iv for iv, kind in stage.kinds.items() if kind == tag]
    if not bound:
        outer, inner = stage.split(_free(stage, rng), factor=rng.choice((2, 3, 4)))
        bound = [rng.choice((outer, inner))]
        stage.bind(bound[0], te.thread_axis(tag))
    copy = s.cache_read(rng.choice(stage.op.inputs), rng.choice(("shared", "shared", "local")), [stage.op])
    place = stage.leaf_iter_vars.index(bound[0])
    s[copy].compute_at(stage, rng.choice(stage.leaf_iter_vars[place:]))
    axis = rng.choice(s[copy].op.axis)
    if rng.random() < 0.4:
        axis = s[copy].fuse(*s[copy].op.axis)
    extent = bound[0].extent
    parts = s[copy].split(axis, nparts=extent) if rng.random() < 0.5 else s[copy].split(axis, factor=extent)[::-1]
    s[copy].bind(parts[0], te.thread_axis(tag))


def env_threads(s: TESchedule, rng: random.Random) -> None:
    _stage(s, rng).env_threads([te.thread_axis((0, rng.choice((1, 2, 3, 4))), rng.choice(TAGS[:3]))])


def store_predicate(s: TESchedule, rng: random.Random) -> None:
    """Set a store predicate where there are threads, else on a reduction that threads make together."""
    stages = [x for x in s.stages if _env(x) or any(kind.is_thread for kind in x.kinds.values())]
    if not stages or rng.random() < 0.4:
        reductions = [(x, iv) for x in s.stages for iv in x.leaf_iter_vars if iv.kind == "reduce" and iv not in x.kinds]
        if not reductions:
            raise ScheduleError("no reduction")
        stage, axis = rng.choice(reductions)
        stage.bind(axis, te.thread_axis("threadIdx.x"))
        stages = [stage]
    stage = rng.choice(stages)
    axes = [*map(te.thread_axis, _env(stage)), *(te.thread_axis(k.value) for k in stage.kinds.values() if k.is_thread)]
    stage.set_store_predicate(rng.choice(axes).var.equal(rng.choice((0, 0, 1, 2))))
