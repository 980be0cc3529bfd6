"""Random primitives of `tir.Schedule`: THE list of them. Whoever makes a primitive adds a step for it here.

A step takes a schedule and `choose(n)`, a number below n, and calls a primitive with arguments that are legal more
often than not, and wild at times. Random sequences of them are run by the tests of schedules, of lowering and of mixed
programs (tests/fuzz), which also ask that every primitive has been accepted often enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pegbox.errors import ScheduleError
from pegbox.schedule import LoopRef, Schedule

Choose = Callable[[int], int]


def _block(sch: Schedule, choose: Choose) -> str:
    blocks = sch.get_blocks()
    return blocks[choose(len(blocks))].name


def _loops(sch: Schedule, choose: Choose) -> tuple[LoopRef, ...]:
    return sch.get_loops(_block(sch, choose))


def _loop(sch: Schedule, choose: Choose) -> LoopRef:
    loops = _loops(sch, choose)
    return loops[choose(len(loops))]


def _shuffled(items: list[Any], choose: Choose) -> list[Any]:
    rest = list(items)
    return [rest.pop(choose(len(rest))) for _ in items]


def _split(sch: Schedule, choose: Choose) -> None:
    factors: list[int | None] = [1 + choose(4) for _ in range(1 + choose(2))]
    factors.insert(choose(len(factors) + 1), None)
    sch.split(_loop(sch, choose), factors)


def _fuse(sch: Schedule, choose: Choose) -> None:
    loops = _loops(sch, choose)
    start = choose(len(loops))
    sch.fuse(*loops[start : start + 2 + choose(2)])


def _reorder(sch: Schedule, choose: Choose) -> None:
    loops = list(_loops(sch, choose))
    start = choose(len(loops))
    sch.reorder(*_shuffled(loops[start : start + 2 + choose(3)], choose))


def _decompose(sch: Schedule, choose: Choose) -> None:
    block = _block(sch, choose)
    loops = sch.get_loops(block)
    sch.decompose_reduction(block, loops[choose(len(loops))])


def _compute_at(sch: Schedule, choose: Choose) -> None:
    """At a loop of a consumer, where it is mostly legal."""
    block = _block(sch, choose)
    near = [loop for consumer in sch.get_consumers(block) for loop in sch.get_loops(consumer)]
    sch.compute_at(block, near[choose(len(near))] if near else _loop(sch, choose))


def _reverse_compute_at(sch: Schedule, choose: Choose) -> None:
    block = _block(sch, choose)
    near = [loop for producer in sch.get_producers(block) for loop in sch.get_loops(producer)]
    sch.reverse_compute_at(block, near[choose(len(near))] if near else _loop(sch, choose))


STEPS: list[Callable[[Schedule, Choose], object]] = [
    _split, _split, _fuse, _reorder, _reorder, _decompose, _compute_at, _compute_at, _compute_at, _reverse_compute_at,
    _reverse_compute_at,
    lambda s, c: s.vectorize(_loop(s, c)),
    lambda s, c: s.parallel(_loop(s, c)),
    lambda s, c: s.unroll(_loop(s, c)),
    lambda s, c: s.pragma(_loop(s, c), "auto_unroll_max_step", c(64)),
    lambda s, c: s.compute_at(_block(s, c), _loop(s, c)),
    lambda s, c: s.reverse_compute_at(_block(s, c), _loop(s, c)),
    lambda s, c: s.compute_inline(_block(s, c)),
    lambda s, c: s.cache_read(_block(s, c), c(2), "local"),
    lambda s, c: s.cache_write(_block(s, c), 0, "local"),
]  # fmt: skip


def scheduled(args: Any, choose: Choose, steps: int) -> Schedule:
    """A schedule after a number of random steps; those that are refused leave no mark."""
    sch = Schedule(args)
    for _ in range(steps):
        before = sch.func
        try:
            STEPS[choose(len(STEPS))](sch, choose)
        except ScheduleError:
            assert sch.func is before
    return sch
