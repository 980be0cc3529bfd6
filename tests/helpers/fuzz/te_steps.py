"""Random calls of TE: THE list of them. Each new primitive of TE gets a step here.

A step takes a TE schedule and a source of random numbers, and makes a call that is legal more often than not. Where it
cannot find anything to do it raises `Nothing`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from fuzz.inlining import too_large
from fuzz.te_storage_steps import double_buffer, rolling_buffer, set_scope, storage_align, store_in
from fuzz.te_thread_steps import bind, env_threads, share, store_predicate
from fuzz.tensor_steps import tensorize_te
from pegbox.compute.axis import IterVar
from pegbox.errors import ScheduleError
from pegbox.loops.nodes import ForKind
from pegbox.schedule.te.schedule import TESchedule
from pegbox.schedule.te.stage import Inline, Root, Stage

FACTORS = (1, 2, 3, 4, 5, 8)
LANES = (2, 4, 8, 16, 32, 64)
TEStep = Callable[[TESchedule, random.Random], object]


class Nothing(ScheduleError):
    """There is nothing to which the step could be applied."""


class _Choices(random.Random):
    """Random numbers; a choice from nothing raises `Nothing`, not an IndexError with a text of this Python."""

    def choice(self, items: Sequence[Any]) -> Any:
        if not items:
            raise Nothing("nothing to choose from")
        return super().choice(items)


def _stage(s: TESchedule, rng: random.Random) -> Stage:
    return rng.choice([stage for stage in s.stages if not isinstance(stage.attach, Inline)] or s.stages)


def _loop(stage: Stage, rng: random.Random) -> IterVar:
    """Mostly one that is serial."""
    plain = [iv for iv in stage.leaf_iter_vars if iv not in stage.kinds]
    return rng.choice(plain if plain and rng.random() < 0.9 else stage.leaf_iter_vars)


def _readers(s: TESchedule, stage: Stage) -> list[Stage]:
    buffers = [t.buffer for t in stage.op.outputs]
    return [other for other in s.stages if any(t.buffer in buffers for t in other.op.inputs)]


def split(s: TESchedule, rng: random.Random) -> None:
    stage = _stage(s, rng)
    if rng.random() < 0.5:
        stage.split(_loop(stage, rng), factor=rng.choice(FACTORS))
    else:
        stage.split(_loop(stage, rng), nparts=rng.choice(FACTORS))


def tile(s: TESchedule, rng: random.Random) -> None:
    stage = _stage(s, rng)
    if len(stage.leaf_iter_vars) < 2:
        raise Nothing("one loop only")
    x, y = rng.sample(stage.leaf_iter_vars, 2)
    stage.tile(x, y, rng.choice(FACTORS), rng.choice(FACTORS))


def fuse(s: TESchedule, rng: random.Random) -> None:
    stage = _stage(s, rng)
    if len(stage.leaf_iter_vars) < 2:
        raise Nothing("one loop only")
    at = rng.randrange(len(stage.leaf_iter_vars) - 1)
    stage.fuse(*stage.leaf_iter_vars[at : at + rng.choice((2, 2, 3))])


def reorder(s: TESchedule, rng: random.Random) -> None:
    stage = _stage(s, rng)
    loops = stage.leaf_iter_vars
    stage.reorder(*rng.sample(loops, rng.randint(min(2, len(loops)), len(loops))))


def vectorize(s: TESchedule, rng: random.Random) -> None:
    stage = _stage(s, rng)
    stage.vectorize(rng.choice(stage.leaf_iter_vars[-1:]) if rng.random() < 0.8 else _loop(stage, rng))


def vectors(s: TESchedule, rng: random.Random) -> None:
    """The last loop in vectors, the last of which may not be full."""
    stage = _stage(s, rng)
    _, inner = stage.split(rng.choice(stage.leaf_iter_vars[-1:]), factor=rng.choice(LANES))
    stage.vectorize(inner)


def parallel(s: TESchedule, rng: random.Random) -> None:
    stage = _stage(s, rng)
    stage.parallel(rng.choice(stage.leaf_iter_vars[:1]) if rng.random() < 0.8 else _loop(stage, rng))


def unroll(s: TESchedule, rng: random.Random) -> None:
    stage = _stage(s, rng)
    stage.unroll(_loop(stage, rng))


def pragma(s: TESchedule, rng: random.Random) -> None:
    stage = _stage(s, rng)
    if rng.random() < 0.4:
        stage.pragma(_loop(stage, rng), "auto_unroll_max_step", rng.choice((0, 4, 16, 64)))
    else:
        stage.pragma(
            _loop(stage, rng), rng.choice(("unroll_explicit", "loop_partition_hint", "nontemporal")), rng.random() < 0.6
        )


def pragma_kind(s: TESchedule, rng: random.Random) -> None:
    stage = _stage(s, rng)
    stage.pragma(
        _loop(stage, rng), rng.choice(("unroll", "vectorize", "parallel", "prefetch", "parallel_launch_point"))
    )


def prefetch(s: TESchedule, rng: random.Random) -> None:
    stage = _stage(s, rng)
    readable = [t for t in stage.op.inputs if rng.random() < 0.9 or t.op.inputs]
    tensor = rng.choice(readable)
    if tensor.op.inputs and rng.random() < 0.2:
        tensor = rng.choice(tensor.op.inputs)  # which an inlined stage may read
    if rng.random() < 0.3:
        tensor = stage.op.outputs[0]
    among = _loop(_stage(s, rng), rng) if rng.random() < 0.4 else None
    stage.prefetch(tensor, _loop(stage, rng), rng.choice((1, 1, 2, 5)), among=among)


def fuse_list(s: TESchedule, rng: random.Random) -> None:
    stage = _stage(s, rng)
    stage.fuse(stage.leaf_iter_vars[: rng.choice((1, 2, 3))])


def chain(s: TESchedule, rng: random.Random) -> None:
    """Attach a stage to its reader, and what it reads to the stage itself: nested places."""
    stage = rng.choice([x for x in s.stages if not x.is_output and _readers(s, x)])
    stage.compute_at(reader := rng.choice(_readers(s, stage)), rng.choice(reader.leaf_iter_vars[:2]))
    for maker in s.stages:
        if not maker.is_output and _readers(s, maker) == [stage] and rng.random() < 0.8:
            maker.compute_at(stage, rng.choice(stage.leaf_iter_vars[:2]))


def inline_all(s: TESchedule, rng: random.Random) -> None:
    """A chain of inlined stages."""
    for stage in s.stages:
        if not stage.is_output and stage.op.reduce is None and len(stage.op.outputs) == 1 and rng.random() < 0.7:
            _inline(s, stage)


def compute_at(s: TESchedule, rng: random.Random) -> None:
    stage = rng.choice([x for x in s.stages if not x.is_output and _readers(s, x)])
    reader = rng.choice(_readers(s, stage) if rng.random() < 0.9 else s.stages)
    outside = [iv for iv in reader.leaf_iter_vars if reader.kinds.get(iv) is not ForKind.VECTORIZED]
    stage.compute_at(reader, rng.choice(outside or reader.leaf_iter_vars))


def compute_inline(s: TESchedule, rng: random.Random) -> None:
    stage = rng.choice([x for x in s.stages if not x.is_output and x.op.reduce is None])
    _inline(s, stage)


def _inline(s: TESchedule, stage: Stage) -> None:
    if too_large(s, [stage, *(other for other in s.stages if isinstance(other.attach, Inline))]):
        raise Nothing("the program would become too large")
    stage.compute_inline()


def compute_root(s: TESchedule, rng: random.Random) -> None:
    stage = rng.choice([x for x in s.stages if not isinstance(x.attach, Root)])
    stage.compute_root()


def cache_write(s: TESchedule, rng: random.Random) -> None:
    outputs = _stage(s, rng).op.outputs
    s.cache_write(outputs if len(outputs) > 1 else outputs[0], rng.choice(("local", "global")))


def cache_read(s: TESchedule, rng: random.Random) -> None:
    stage = _stage(s, rng)
    tensor = rng.choice(list(stage.op.inputs))
    s.cache_read(tensor, rng.choice(("local", "global")), [stage.op])


def rfactor(s: TESchedule, rng: random.Random) -> None:
    stage = rng.choice([x for x in s.stages if x.op.reduce is not None])
    axis = rng.choice([iv for iv in stage.leaf_iter_vars if iv.kind == "reduce"])
    s.rfactor(stage.op.outputs[0], axis, rng.choice((0, 0, -1, 1)))


def create_group(s: TESchedule, rng: random.Random) -> None:
    """A group, mostly placed at a loop of a reader of its last stage."""
    end = rng.choice([x for x in s.stages if not x.is_output and _readers(s, x)])
    start = rng.choice([t for x in s.stages for t in x.op.inputs])
    group = s.create_group(list(end.op.outputs), start, include_inputs=rng.random() < 0.5)
    reader = rng.choice(_readers(s, end))
    group.compute_at(reader, _loop(reader, rng))


def merge(s: TESchedule, rng: random.Random) -> None:
    """Merge a loop of a stage with one of what it reads, or of another reader of that: they often run as often."""
    stage = _stage(s, rng)
    makers = [x for x in s.stages if stage in _readers(s, x)]
    other = rng.choice([x for maker in makers for x in (maker, *_readers(s, maker)) if x is not stage])
    pairs = [(a, b) for a in stage.leaf_iter_vars for b in other.leaf_iter_vars if a.extent == b.extent]
    loop, other_loop = rng.choice(pairs)
    stage.merge(loop, other, other_loop)


REWRITES: list[TEStep] = [cache_write, cache_read, rfactor]
TE_STEPS: list[TEStep] = [
    split, split, split, fuse, reorder, tile, vectorize, vectors, vectors, parallel, unroll, pragma,
    compute_at, compute_at, compute_at, compute_inline, compute_root, cache_write, cache_read, rfactor, create_group,
    bind, bind, share, env_threads, store_predicate, pragma_kind, prefetch, prefetch, fuse_list, chain, inline_all,
    set_scope, storage_align, double_buffer, double_buffer, rolling_buffer, rolling_buffer, tensorize_te,
    merge, merge, store_in, store_in,
]  # fmt: skip


def te_step(s: TESchedule, seed: int, calls: Counter[str], *, first: bool) -> str:
    """Make one random call; gives its name. The first ones are often those that rewrite the graph."""
    rng = _Choices(seed)
    step = rng.choice(REWRITES if first and rng.random() < 0.4 else TE_STEPS)
    name = getattr(step, "__name__", "step")
    calls[name] += 1
    step(s, rng)
    return name
