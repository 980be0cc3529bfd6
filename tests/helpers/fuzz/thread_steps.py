"""Random steps with threads: bound loops, stages that threads share, threads from outside, predicates of stores."""

from __future__ import annotations

from collections.abc import Callable

from pegbox.loops.nodes import ForKind
from pegbox.schedule import LoopRef, Schedule

Choose = Callable[[int], int]
TAGS = ("threadIdx.x", "threadIdx.x", "threadIdx.y", "blockIdx.x", "blockIdx.y", "vthread")


def _loops(sch: Schedule, choose: Choose) -> list[LoopRef]:
    blocks = sch.get_blocks()
    return list(sch.get_loops(blocks[choose(len(blocks))]))


def bind(sch: Schedule, choose: Choose) -> None:
    loops = _loops(sch, choose)
    free = [x for x in loops if sch.get(x).kind is ForKind.SERIAL]
    loops = free if free and choose(8) else loops
    sch.bind(loops[choose(len(loops))], TAGS[choose(len(TAGS))])


def share(sch: Schedule, choose: Choose) -> None:
    """A copy of what a block reads, or a producer of it, in shared memory below thread loops, made by all threads."""
    blocks = sch.get_blocks()
    block = blocks[choose(len(blocks))]
    loops = list(sch.get_loops(block))
    bound = [n for n, x in enumerate(loops) if sch.get(x).kind.is_bound]
    if not bound:
        sch.bind(loops[choose(len(loops))], TAGS[choose(3)])
        bound = [n for n, x in enumerate(loops) if sch.get(x).kind.is_bound]
    makers = [p for p in sch.get_producers(block) if choose(2)]
    if makers:
        copy = makers[0]
        sch.set_scope(copy, 0, "shared")
    else:
        copy = sch.cache_read(block, 0, "shared")
    below = loops[bound[choose(len(bound))] :]
    sch.compute_at(copy, below[choose(len(below))])
    loop = sch.get(loops[bound[0]])
    fresh = list(sch.get_loops(copy))
    axis = fresh[-2:][choose(min(len(fresh), 2))]
    parts = [None, loop.extent] if choose(2) else [loop.extent, None]
    sch.bind(sch.split(axis, parts)[parts.index(loop.extent)], loop.kind.value)


def env_threads(sch: Schedule, choose: Choose) -> None:
    loops = _loops(sch, choose)
    sch.env_threads(loops[choose(len(loops))], [(TAGS[choose(3)], 1 + choose(4))])


def store_predicate(sch: Schedule, choose: Choose) -> None:
    """Set a store predicate of a block in a thread loop, or of one whose loop is bound now."""
    tags_of = {
        block.name: [sch.get(x).kind.value for x in sch.get_loops(block) if sch.get(x).kind.is_bound]
        for block in sch.get_blocks()
    }
    inside = [name for name, tags in tags_of.items() if tags]
    block = inside[choose(len(inside))] if inside else list(tags_of)[choose(len(tags_of))]
    tags = tags_of[block]
    if not tags:
        loops = sch.get_loops(block)
        tags = [TAGS[choose(3)]]
        sch.bind(loops[choose(len(loops))], tags[0])
    sch.set_store_predicate(block, f"{tags[choose(len(tags))]} {('==', '<', '>=')[choose(3)]} {choose(3)}")
