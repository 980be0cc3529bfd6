"""Random primitives of `tir.Schedule`: THE list of them. Each new primitive gets a step here.

A step takes a schedule and `choose(n)`, a number below n, and calls a primitive with arguments that are legal more
often than not, and wild at times. Random sequences of them are run by the tests of schedules, of lowering and of mixed
programs (tests/fuzz), which also ask that every primitive has been accepted often enough.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from fuzz.inlining import block_too_large
from fuzz.layout_steps import LAYOUT_STEPS, drop_bad_notes
from fuzz.surface_steps import STEPS as SURFACE
from fuzz.tensor_steps import tensorize
from fuzz.thread_steps import bind, env_threads, share, store_predicate
from pegbox.errors import ScheduleError
from pegbox.loops.nodes import ForKind
from pegbox.schedule import LoopRef, Schedule
from pegbox.schedule.state.block_scope import nested_paths

Choose = Callable[[int], int]


def _block(sch: Schedule, choose: Choose) -> str:
    """Now and then one inside a block, where there are any."""
    names = [b.name for b in sch.get_blocks()]
    inner = [name for name in nested_paths(sch.func) if isinstance(name, str)]
    if inner and not choose(3):
        names = inner
    return names[choose(len(names))]


def _loops(sch: Schedule, choose: Choose) -> tuple[LoopRef, ...]:
    return sch.get_loops(_block(sch, choose))


def _loop(sch: Schedule, choose: Choose) -> LoopRef:
    """Mostly one that is serial: others cannot be changed any more."""
    loops = _loops(sch, choose)
    serial = [x for x in loops if sch.get(x).kind is ForKind.SERIAL]
    loops = tuple(serial) if serial and choose(8) else loops
    return loops[choose(len(loops))]


def _shuffled(items: list[Any], choose: Choose) -> list[Any]:
    rest = list(items)
    return [rest.pop(choose(len(rest))) for _ in items]


def _split(sch: Schedule, choose: Choose) -> None:
    factors: list[int | None] = [1 + choose(4) for _ in range(1 + choose(2))]
    factors.insert(choose(len(factors) + 1), None)
    sch.split(_loop(sch, choose), factors)


def _vectors(sch: Schedule, choose: Choose) -> None:
    """The last loop of a block in vectors, the last of which may not be full."""
    loops = _loops(sch, choose)[-1:]
    _, inner = sch.split(loops[choose(len(loops))], [None, 2 << choose(6)])
    sch.vectorize(inner)


def _fuse(sch: Schedule, choose: Choose) -> None:
    loops = _loops(sch, choose)
    start = choose(len(loops))
    sch.fuse(*loops[start : start + 2 + choose(2)])


def _prefetch(sch: Schedule, choose: Choose) -> None:
    block = _block(sch, choose)
    loops = sch.get_loops(block) if choose(8) else _loops(sch, choose)
    loop = loops[choose(len(loops))]
    if choose(2):
        sch.prefetch(block, choose(2), loop, 1 + choose(4))
    else:
        inside = _loops(sch, choose)
        sch.prefetch(block, choose(3), loop, choose(4), among=inside[choose(len(inside))])


def _reorder(sch: Schedule, choose: Choose) -> None:
    loops = list(_loops(sch, choose))
    start = choose(len(loops))
    sch.reorder(*_shuffled(loops[start : start + 2 + choose(3)], choose))


def _decompose(sch: Schedule, choose: Choose) -> None:
    block = _block(sch, choose)
    loops = sch.get_loops(block)
    sch.decompose_reduction(block, loops[choose(len(loops))])


def _compute_at(sch: Schedule, choose: Choose) -> None:
    """A producer at a loop of its consumers, where it is mostly legal."""
    blocks = [b.name for b in sch.get_blocks() if sch.get_consumers(b)]
    block = blocks[choose(len(blocks))]
    near = [loop for consumer in sch.get_consumers(block) for loop in sch.get_loops(consumer)]
    sch.compute_at(block, near[choose(len(near))])


def _reverse_compute_at(sch: Schedule, choose: Choose) -> None:
    blocks = [b.name for b in sch.get_blocks() if sch.get_producers(b)]
    block = blocks[choose(len(blocks))]
    near = [loop for producer in sch.get_producers(block) for loop in sch.get_loops(producer)]
    sch.reverse_compute_at(block, near[choose(len(near))])


def _compute_inline(sch: Schedule, choose: Choose) -> None:
    blocks = [b.name for b in sch.get_blocks() if sch.get_consumers(b) and not sch.tree.blocks[b.name].block.init]
    _inlined(sch, blocks[choose(len(blocks))], sch.compute_inline)


def _reverse_compute_inline(sch: Schedule, choose: Choose) -> None:
    blocks = [b.name for b in sch.get_blocks() if sch.get_producers(b) and not sch.tree.blocks[b.name].block.init]
    _inlined(sch, blocks[choose(len(blocks))], sch.reverse_compute_inline)


def _inlined(sch: Schedule, block: str, inline: Callable[[str], object]) -> None:
    if block_too_large(sch, block):
        raise nothing()
    inline(block)


def _rfactor(sch: Schedule, choose: Choose) -> None:
    """Along any loop of a reduction; half of the ways to ask for the place of the dimension count from the end."""
    blocks = [b.name for b in sch.get_blocks() if sch.tree.blocks[b.name].block.init]
    loops = sch.get_loops(blocks[choose(len(blocks))])
    sch.rfactor(loops[choose(len(loops))], choose(4) - 2)


def _tile(sch: Schedule, choose: Choose) -> LoopRef:
    """Some loops around a block split by factors that divide, the tile inside; gives its first loop."""
    loops = sch.get_loops(_block(sch, choose))
    inside: list[LoopRef] = []
    outside: list[LoopRef] = []
    for loop in loops[choose(2) :]:
        factors = [f for f in (1, 2, 3, 4, 5, 7) if sch.extent(loop) % f == 0]
        outer, inner = sch.split(loop, factor=factors[choose(len(factors))])
        outside.append(outer)
        inside.append(inner)
    sch.reorder(*outside, *inside)
    return inside[0]


def _blockize(sch: Schedule, choose: Choose) -> None:
    sch.blockize(_tile(sch, choose) if choose(3) else _loop(sch, choose))


STEPS: list[Callable[[Schedule, Choose], object]] = [
    _split, _split, _fuse, _reorder, _reorder, _decompose, _compute_at, _compute_at, _compute_at, _reverse_compute_at,
    _reverse_compute_at,
    lambda s, c: s.vectorize(_loop(s, c)), _vectors, _vectors,
    lambda s, c: s.parallel(_loop(s, c)),
    lambda s, c: s.unroll(_loop(s, c)),
    _prefetch,
    lambda s, c: s.pragma(_loop(s, c), "auto_unroll_max_step", c(64)),
    lambda s, c: s.pragma(_loop(s, c), "loop_partition_hint", True),
    lambda s, c: s.pragma(_loop(s, c), "nontemporal", True),
    lambda s, c: s.compute_at(_block(s, c), _loop(s, c)),
    lambda s, c: s.reverse_compute_at(_block(s, c), _loop(s, c)),
    _rfactor, _blockize, _blockize, tensorize, tensorize,
    bind, bind, share, env_threads, store_predicate, store_predicate, store_predicate,
    _compute_inline, lambda s, c: _inlined(s, _block(s, c), s.compute_inline), _reverse_compute_inline,
    lambda s, c: s.cache_read(_block(s, c), c(2), "local"),
    lambda s, c: s.cache_write(_block(s, c), 0, "local"),
    *SURFACE,
    *LAYOUT_STEPS,
]  # fmt: skip


def nothing() -> ScheduleError:
    """Do nothing: a step that finds nothing to do."""
    return ScheduleError("there is nothing to choose from")


def random_step(sch: Schedule, choose: Choose) -> None:
    """One random step. A primitive that is refused must leave no mark.

    Raises:
        ScheduleError: it was refused.
    """

    def careful(n: int) -> int:
        if n < 1:
            raise nothing()
        return choose(n)

    before, known = sch.func, len(sch.trace)
    try:
        STEPS[choose(len(STEPS))](sch, careful)
    except ScheduleError as error:
        # A step may do several things, of which the last one is refused.
        if len(sch.trace) == known and sch.func is not before:
            raise AssertionError(f"a refused step changed the program: {error}") from error
        if sch.func is not before:
            drop_bad_notes(sch)
        raise
    drop_bad_notes(sch)


def scheduled(args: Any, choose: Choose, steps: int) -> Schedule:
    """A schedule after a number of random steps."""
    sch = Schedule(args)
    for _ in range(steps):
        with suppress(ScheduleError):
            random_step(sch, choose)
    return sch
