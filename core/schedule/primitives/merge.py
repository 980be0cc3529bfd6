"""Primitive merge: consecutive nests become one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any

from pegbox.errors import ScheduleError
from pegbox.expr.nodes import Buffer, Var
from pegbox.loops.nodes import BlockRealize, For, Seq, Stmt, seq
from pegbox.loops.visit import common_path, substitute_vars
from pegbox.schedule.analysis import read_buffers, written_buffers
from pegbox.schedule.analysis.checks import check_serial
from pegbox.schedule.analysis.loop_kinds import check_kinds
from pegbox.schedule.analysis.region_cover import covers_reads
from pegbox.schedule.state.handles import LoopRef
from pegbox.schedule.state.recording import primitive
from pegbox.schedule.state.schedule_state import ScheduleState
from pegbox.schedule.tree import Tree, blocks_below, loops_below, nested

Nest = Sequence[For]  # from a statement in the same suite as the other nests to the merged loop


@primitive
def merge(sch: ScheduleState, *loops: LoopRef) -> LoopRef:
    """Merge consecutive nests into one; return its innermost loop.

    The loops around the given ones, up to the loops that they share, are merged too.

    Before `merge(j, j_1)`::

        for i in range(4):
            for j in range(8):
                block B: vi = i, vj = j
        for i_1 in range(4):
            for j_1 in range(8):
                block C: vi = i_1, vj = j_1

    After::

        for i_m in range(4):
            for j_m in range(8):
                block B: vi = i_m, vj = j_m
                block C: vi = i_m, vj = j_m

    Raises:
        ScheduleError: fewer than two loops are given; the nests differ in extents or depth, or have other statements
            between their loops; loops are not serial, or their annotations differ; an iteration would need values that
            a later one computes; or neither nest can be moved past a statement between them.
    """
    after, var = _merged(sch.tree, sch.find_loops(loops))
    sch.update(after)
    return LoopRef(var)


def _merged(tree: Tree, loops: Sequence[For]) -> tuple[Tree, Var]:
    """Return the program with the nests that end at `loops` merged, and the variable of the innermost loop."""
    nests = _nests(tree, loops)
    _check_alike(nests)
    above = tree.parents.get(id(nests[0][0]))
    if not isinstance(above, Seq) or any(tree.parents.get(id(nest[0])) is not above for nest in nests):
        raise _refuse(loops, "the nests are not statements of the same suite", "give loops of neighbouring nests")
    ranks = {id(stmt): n for n, stmt in enumerate(above.stmts)}
    nests = sorted(nests, key=lambda nest: ranks[id(nest[0])])
    fresh = [Var(f"{x.var.name.removesuffix('_m')}_m") for x in nests[0]]
    renamed = [{old.var: var for old, var in zip(nest, fresh, strict=True)} for nest in nests]
    bodies = (substitute_vars(nest[-1].body, names) for nest, names in zip(nests, renamed, strict=True))
    whole = nested(seq(*bodies), [_with_notes(level) for level in zip(*nests, strict=True)], renamed[0])
    tops = [nest[0] for nest in nests]
    place = _place(above, tops)
    stmts = [whole if s is place else s for s in above.stmts if s is place or not any(s is top for top in tops)]
    after = Tree(tree.replace(above, seq(*stmts)))
    _check_order(after, nests)
    made = after.loops[fresh[-1]]
    check_kinds(after, [x.var for x in (*after.ancestors(made), *loops_below(made)) if x.kind.is_concurrent])
    return after, made.var


def _refuse(loops: Iterable[For], problem: str, remedy: str) -> ScheduleError:
    return ScheduleError(problem, remedy, *(loop.var for loop in loops))


def _nests(tree: Tree, loops: Sequence[For]) -> list[Nest]:
    if len(loops) < 2:
        raise _refuse(loops, f"{len(loops)} loop(s) given", "give two or more, of consecutive nests")
    around = [(*tree.ancestors(loop), loop) for loop in loops]
    depth = len(common_path(around))
    for loop, path in zip(loops, around, strict=True):
        if len(path) == depth:
            raise _refuse(loops, f"{loop.var.name} is around the others", "give loops of separate nests")
    return [path[depth:] for path in around]


def _check_alike(nests: Sequence[Nest]) -> None:
    """Check that the nests have the same loops, all of them serial."""
    loops = [nest[-1] for nest in nests]
    if len({tuple(x.extent for x in nest) for nest in nests}) > 1:
        shapes = ", ".join(f"{nest[-1].var.name} in {[x.extent for x in nest]}" for nest in nests)
        raise _refuse(loops, f"the nests differ: {shapes}", "give loops of the same depth, with the same iterations")
    for nest in nests:
        for loop, inner in zip(nest, (*nest[1:], None), strict=True):
            check_serial(loop, "merge serial loops; one around or inside them may run otherwise", notes=True)
            if inner is not None and loop.body is not inner:
                why = f"{inner.var.name} is not all that is in {loop.var.name}"
                raise _refuse([loop, inner], why, f"merge {loop.var.name} itself")


def _with_notes(loops: Sequence[For]) -> For:
    """Return the first loop with the annotations of all; refuse annotations that differ."""
    notes: dict[str, Any] = {}
    for loop in loops:
        for key, value in loop.annotations:
            if notes.setdefault(key, value) != value:
                raise _refuse(loops, f"{key} is {notes[key]!r} for one loop and {value!r} for another", "annotate one")
    first = loops[0]
    return For(first.var, first.extent, first.body, first.kind, tuple(notes.items()))


def _place(above: Seq, tops: Sequence[Stmt]) -> Stmt:
    """Return the nest that the others join: the last, or the first if a statement between them prevents that."""
    first, last = (next(n for n, s in enumerate(above.stmts) if s is tops[place]) for place in (0, -1))
    between = above.stmts[first + 1 : last]
    others = [stmt for stmt in between if not any(stmt is top for top in tops)]
    for place, moved in ((tops[-1], tops[:-1]), (tops[0], tops[1:])):
        if not any(_conflict(stmt, top) for stmt in others for top in moved):
            return place
    name = next(blocks_below(others[0])).block.name
    raise ScheduleError(
        f"{name} is between the nests, and neither nest can be moved past it",
        "move it with compute_at, or inline it",
        name,
        *(top.var for top in tops if isinstance(top, For)),
    )


def _conflict(one: Stmt, other: Stmt) -> bool:
    """Check if one of the statements writes a buffer that the other one uses."""
    (reads_1, writes_1), (reads_2, writes_2) = _uses(one), _uses(other)
    return bool(writes_1 & (reads_2 | writes_2) or writes_2 & reads_1)


def _uses(stmt: Stmt) -> tuple[set[Buffer], set[Buffer]]:
    blocks = [r.block for r in blocks_below(stmt)]
    return {b for x in blocks for b in read_buffers(x)}, {b for x in blocks for b in written_buffers(x)}


def _check_order(after: Tree, nests: Sequence[Nest]) -> None:
    """Check that each iteration of the merged nest computes everything that later nests read in it."""
    for one, two in combinations(nests, 2):
        for first, second, buffer in _shared(one, two):
            a, b = first.block.name, second.block.name
            writes = any(buffer is w for w in written_buffers(second.block))
            if writes or not covers_reads(after, after.blocks[a], buffer, after.blocks[b]):
                why = f"needs elements of {buffer.name} that other iterations of {a} make"
                raise ScheduleError(
                    f"{b} {f'writes {buffer.name}, as {a} uses it' if writes else why}",
                    "merge loops whose iterations use only values of the same iteration",
                    one[-1].var,
                    two[-1].var,
                    a,
                    b,
                )


def _shared(one: Nest, two: Nest) -> Iterator[tuple[BlockRealize, BlockRealize, Buffer]]:
    """Yield pairs of blocks, each with the buffers that both use and one of them writes."""
    for first in blocks_below(one[-1]):
        for second in blocks_below(two[-1]):
            for buffer in dict.fromkeys((*written_buffers(first.block), *written_buffers(second.block))):
                users = (*read_buffers(first.block), *written_buffers(first.block))
                others = (*read_buffers(second.block), *written_buffers(second.block))
                if any(buffer is b for b in users) and any(buffer is b for b in others):
                    yield first, second, buffer
