"""Random steps of the primitives around the others: partitions, unit loops, orders of variables, notes, sampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pegbox.loops.nodes import ForKind
from pegbox.schedule import LoopRef, Schedule

Choose = Callable[[int], int]


def _block(sch: Schedule, choose: Choose) -> str:
    blocks = sch.get_blocks()
    return blocks[choose(len(blocks))].name


def _loop(sch: Schedule, choose: Choose) -> LoopRef:
    loops = sch.get_loops(_block(sch, choose))
    plain = [x for x in loops if sch.get(x).kind is ForKind.SERIAL] or loops  # type: ignore[union-attr]
    return plain[choose(len(plain))]


def loop_partition(sch: Schedule, choose: Choose) -> None:
    loop = _loop(sch, choose)
    sizes: list[int | None] = [1 + choose(4) for _ in range(1 + choose(2))]
    if choose(2):
        sizes.insert(choose(len(sizes) + 1), None)
    sch.loop_partition(loop, sizes, preserve_unit_iters=bool(choose(2)))


def merge(sch: Schedule, choose: Choose) -> None:
    """Loops at the same depth of two nests, mostly with as many iterations all the way down."""
    one = _block(sch, choose)
    mine = sch.get_loops(one)
    pairs = []
    for other in sch.get_blocks():
        for depth, (a, b) in enumerate(zip(mine, sch.get_loops(other), strict=False)):
            alike = all(
                x == y or sch.extent(x) == sch.extent(y)
                for x, y in zip(mine[: depth + 1], sch.get_loops(other), strict=False)
            )
            if a != b and alike:
                pairs.append((a, b))
    sch.merge(*pairs[choose(len(pairs))])


def enter_postproc(sch: Schedule, _choose: Choose) -> None:
    sch.enter_postproc()


def add_unit_loop(sch: Schedule, choose: Choose) -> None:
    sch.add_unit_loop(_loop(sch, choose) if choose(2) else _block(sch, choose))


def reorder_block_iter_var(sch: Schedule, choose: Choose) -> None:
    block = sch.get_block(_block(sch, choose))
    rest = list(range(len(sch.get(block).iters)))  # type: ignore[union-attr]
    sch.reorder_block_iter_var(block, [rest.pop(choose(len(rest))) for _ in range(len(rest))])


def notes(sch: Schedule, choose: Choose) -> None:
    where: Any = sch.get_block(_block(sch, choose)) if choose(2) else _loop(sch, choose)
    if choose(3):
        sch.annotate(where, f"note{choose(2)}", [choose(9), "x", [1.5]][: choose(4)])
    else:
        sch.unannotate(where, f"note{choose(2)}")


def sampled_tile(sch: Schedule, choose: Choose) -> None:
    """The schedule's own decisions follow from a choice, or a case could not be repeated."""
    sch.seed(choose(1000))
    loop, n = _loop(sch, choose), 1 + choose(3)
    if choose(2):
        sch.split(loop, sch.sample_partitioned_tile(loop, n, choose(n), 1 + choose(2)))
    else:
        sch.split(loop, sch.sample_perfect_tile(loop, n, max_innermost_factor=None))


def sampled_note(sch: Schedule, choose: Choose) -> None:
    sch.seed(choose(1000))
    drawn = sch.sample_categorical([0, 16, 64], [0.5, 0.25, 0.25])
    sch.annotate(_loop(sch, choose), "pragma_auto_unroll_max_step", drawn)


def sampled_location(sch: Schedule, choose: Choose) -> None:
    sch.seed(choose(1000))
    block = _block(sch, choose)
    sch.compute_at(block, sch.sample_compute_location(block))


def compute_at_place(sch: Schedule, choose: Choose) -> None:
    """`compute_at` at a position, with or without loops of one iteration."""
    block = _block(sch, choose)
    near = [loop for consumer in sch.get_consumers(block) for loop in sch.get_loops(consumer)]
    sch.compute_at(block, near[choose(len(near))], bool(choose(2)), choose(5) - 2)


def reverse_compute_at_place(sch: Schedule, choose: Choose) -> None:
    block = _block(sch, choose)
    near = [loop for producer in sch.get_producers(block) for loop in sch.get_loops(producer)]
    sch.reverse_compute_at(block, near[choose(len(near))], bool(choose(2)), choose(5) - 2)


STEPS: list[Callable[[Schedule, Choose], object]] = [
    loop_partition, merge, merge, enter_postproc, add_unit_loop, reorder_block_iter_var, notes, sampled_tile,
    sampled_note, sampled_location, compute_at_place, compute_at_place, reverse_compute_at_place,
    reverse_compute_at_place,
]  # fmt: skip
