"""Shared writes: buffers of which several blocks in a parallel loop write elements."""

from __future__ import annotations

from collections.abc import Iterator, Set
from itertools import combinations

from pegbox.expr.affine import Linear
from pegbox.expr.injectivity import determined
from pegbox.expr.nodes import Buffer, Expr, Var
from pegbox.loops.access.interval import SymbolicInterval, index_interval, relaxation
from pegbox.loops.nodes import BlockRealize, For
from pegbox.schedule.analysis import is_private, written_buffers
from pegbox.schedule.tree import Tree, blocks_below

Box = list[SymbolicInterval | None]


def common_writes(tree: Tree, loop: For) -> tuple[BlockRealize, BlockRealize, Buffer] | None:
    """Two blocks that may write the same element in different iterations of a loop; None where there are none.

    What only the loop's own iterations see does not count, nor what one block does by itself.
    """
    for first, second in combinations(blocks_below(loop.body), 2):
        for buffer in written_buffers(first.block):
            if (
                any(buffer is other for other in written_buffers(second.block))
                and not is_private(tree, first, loop)
                and not _apart(tree, loop, first, second, buffer)
            ):
                return first, second, buffer
    return None


def _apart(tree: Tree, loop: For, first: BlockRealize, second: BlockRealize, buffer: Buffer) -> bool:
    outside = {x.var for x in tree.ancestors(loop)}
    pairs = [
        list(zip(one, other, strict=True))
        for one in _boxes(tree, first, buffer, {*outside, loop.var})
        for other in _boxes(tree, second, buffer, {*outside, loop.var})
    ]
    whole = [
        list(zip(one, other, strict=True))
        for one in _boxes(tree, first, buffer, outside)
        for other in _boxes(tree, second, buffer, outside)
    ]
    return all(
        any(_disjoint(one, other) for one, other in all_of) or _tells(tree, loop, dims, outside)
        for dims, all_of in zip(pairs, whole, strict=True)
    )


def _boxes(tree: Tree, realize: BlockRealize, buffer: Buffer, standing: Set[Var]) -> Iterator[Box]:
    """Yield the boxes of the buffer that the block writes while some loops do not move."""
    running = {x.var for x in tree.ancestors(realize)} - standing
    relax = relaxation(running, tree.ranges, realize.predicate)
    for region in realize.block.writes:
        if region.buffer is buffer:
            yield [index_interval(lo, realize, relax, count) for lo, count in region.box]


def _disjoint(one: SymbolicInterval | None, other: SymbolicInterval | None) -> bool:
    if one is None or other is None:
        return False
    gap = other.lo.minus(one.lo)
    return gap.is_const and (gap.const > one.width or -gap.const > other.width)


def _tells(
    tree: Tree, loop: For, dims: list[tuple[SymbolicInterval | None, SymbolicInterval | None]], outside: Set[Var]
) -> bool:
    """Do the elements that both write together tell the iteration of the loop?"""
    ranges = dict(tree.ranges)
    places: list[Expr] = []
    for one, other in dims:
        around = one.hull(other) if one is not None and other is not None else None
        if around is not None:
            digit = Var("element")
            ranges[digit] = (0, around.width)
            places.append(Linear({**around.lo.terms, digit: 1}, around.lo.const).to_expr())
    return loop.var in determined(places, outside, ranges)
