"""Primitives compute_inline and reverse_compute_inline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NoReturn

from pegbox.errors import ExprError, ScheduleError
from pegbox.expr.build import ZERO, cast
from pegbox.expr.equal import same
from pegbox.expr.nodes import Buffer, Expr, Load, Var
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import rewrite, substitute
from pegbox.loops.access.region import reads_and_writes
from pegbox.loops.nodes import Annotation, Block, BlockRealize, Store
from pegbox.loops.passes.notes import ALIGN, DOUBLE, ROLLING, STORED
from pegbox.loops.visit import iter_ranges, map_exprs
from pegbox.schedule.analysis import read_buffers
from pegbox.schedule.analysis.checks import check_only_writer
from pegbox.schedule.analysis.loop_kinds import check_kinds
from pegbox.schedule.analysis.region_cover import misses_reads
from pegbox.schedule.rewrites.inline import Element, element, layout, plain_store, replaced, uses
from pegbox.schedule.rewrites.placement import check_parallel
from pegbox.schedule.state.handles import BlockRef
from pegbox.schedule.state.recording import primitive
from pegbox.schedule.state.schedule_state import ScheduleState
from pegbox.schedule.tree import Tree, with_allocs

_OF_BUFFERS = (ALIGN, DOUBLE, ROLLING, STORED)
"""The annotations about the buffers that a block writes."""


@primitive
def compute_inline(sch: ScheduleState, block: BlockRef | str) -> None:
    """Substitute the value of an elementwise block into its consumers; the block and its buffer are removed.

    Before `compute_inline("B")`::

        for i in range(8):
            block B:
                B[vi] = A[vi] * 2.0
        for i in range(8):
            block C:
                C[vi] = B[vi] + 1.0

    After::

        for i in range(8):
            block C:
                C[vi] = A[vi] * 2.0 + 1.0

    Consumers may be reductions.

    Raises:
        ScheduleError: the block reduces, is an output, has several outputs, reads its own output, or has no consumer; a
            consumer contains loops or calls; the place that the block writes does not determine the iteration; or each
            iteration of a parallel loop around it has its own copy of its inputs.
    """
    sch.update(into_consumers(sch.tree, sch.find_block(block)))


@primitive
def reverse_compute_inline(sch: ScheduleState, block: BlockRef | str) -> None:
    """Merge an elementwise block into its producer; the block and the buffer between them are removed.

    Before `reverse_compute_inline("C")`::

        for i in range(8):
            for j in range(4):
                block B:
                    B[vi, vj] = A[vi, vj] * 2.0
        for j in range(4):
            for i in range(8):
                block C:
                    C[vj, vi] = B[vi, vj] + 1.0

    After::

        for i in range(8):
            for j in range(4):
                block B:
                    C[vj, vi] = A[vi, vj] * 2.0 + 1.0

    The producer keeps its loops. The block may read in another order, or through // and %, as long as it reads each
    element exactly once.

    Raises:
        ScheduleError: the block reduces, has several outputs, or reads a buffer that no block or several blocks write;
            its producer reduces, or has other readers; or the block does not read each element once.
    """
    sch.update(_into_producer(sch.tree, sch.find_block(block)))


def into_consumers(before: Tree, realize: BlockRealize) -> Tree:
    name = realize.block.name
    store, how = _inlinable(before, realize)
    buffer, func = store.buffer, before.func
    readers = [r for r in before.readers(buffer) if r is not realize]
    if not readers:
        raise ScheduleError(f"no block reads {buffer.name}", "leave it where it is", name)
    for reader in readers:
        used = uses(reader.block, buffer)
        if isinstance(used, str):
            raise ScheduleError(
                f"its consumer {reader.block.name} cannot contain the value, because {used}",
                "inline before blockize and tensorize",
                name,
                reader.block.name,
            )
    tree = Tree(before.replace(realize, None))
    for reader in readers:
        inlined = _inlined(reader.block, buffer, how)
        predicate = replaced(reader.predicate, buffer, how, before.ranges)
        tree = Tree(tree.replace(reader, replace(reader, block=inlined, predicate=predicate)))
    check_parallel(before, tree, name)
    return Tree(with_allocs(tree.func, drop=tuple(b for b in func.allocs if b is buffer)))


def _inlinable(tree: Tree, realize: BlockRealize) -> tuple[Store, Element]:
    """Return the only statement of a block that can be inlined, and its value as a function of indices."""
    block = realize.block
    name = block.name

    def no(problem: str, remedy: str = "leave it where it is, or use compute_at") -> NoReturn:
        raise ScheduleError(problem, remedy, name)

    if any(w.buffer in tree.func.params for w in block.writes):
        no("it writes a parameter of the function", "inline its producers instead, or reverse_compute_inline it")
    store = plain_store(block)
    if isinstance(store, str):
        no(store)
    check_only_writer(tree, realize, [store.buffer], "leave it where it is")
    try:
        return store, element(block, store.indices, store.value)
    except ExprError as error:
        no(f"the place that it writes in {store.buffer.name} does not determine its variables: {error}")


def _inlined(block: Block, buffer: Buffer, how: Element) -> Block:
    ranges = iter_ranges(block.iters)

    def change(expr: Expr) -> Expr:
        return replaced(expr, buffer, how, ranges)

    body = map_exprs(block.body, change)
    init = None if block.init is None else map_exprs(block.init, change)
    return replace(block, body=body, init=init, reads=reads_and_writes(body, init)[0])


def _into_producer(before: Tree, realize: BlockRealize) -> Tree:
    store, producer, made = _pair(before, realize)
    back = _back(before, realize, producer, made)
    ranges = iter_ranges(producer.block.iters)
    plain = all(isinstance(b, Var) for b in back.values())

    def here(expr: Expr) -> Expr:
        """Return an expression of the block in terms of the producer's variables."""

        def leaf(e: Expr) -> Expr | None:
            if isinstance(e, Load) and e.buffer is made.buffer:
                return cast(made.buffer.dtype, made.value)
            return back.get(e) if isinstance(e, Var) else None

        new = rewrite(expr, leaf)
        return new if plain else simplify(new, ranges)

    body = Store(store.buffer, tuple(map(here, store.indices)), here(store.value))
    reads, writes = reads_and_writes(body)
    block = replace(producer.block, reads=reads, writes=writes, body=body, annotations=_notes(producer, realize))
    tree = Tree(before.replace(producer, replace(producer, block=block)))
    tree = Tree(tree.replace(tree.blocks[realize.block.name], None))
    check_kinds(tree, None)
    return Tree(with_allocs(tree.func, drop=tuple(b for b in tree.func.allocs if b is made.buffer)))


def _notes(producer: BlockRealize, consumer: BlockRealize) -> tuple[Annotation, ...]:
    """Return the producer's annotations, with those about the written buffer taken from the block that wrote it."""
    kept = tuple(note for note in producer.block.annotations if note[0] not in _OF_BUFFERS)
    return (*kept, *(note for note in consumer.block.annotations if note[0] in _OF_BUFFERS))


def _pair(tree: Tree, realize: BlockRealize) -> tuple[Store, BlockRealize, Store]:
    """Find the block's store, its producer, and the producer's store."""
    name = realize.block.name

    def no(problem: str, remedy: str, *others: str) -> NoReturn:
        raise ScheduleError(problem, remedy, name, *others)

    store = plain_store(realize.block)
    if isinstance(store, str):
        no(store, "compute_inline what it reads instead, or leave it where it is")
    check_only_writer(tree, realize, [store.buffer], "leave it where it is")
    producers = {w.block.name: w for b in read_buffers(realize.block) for w in tree.writers(b)}
    if len(producers) != 1:
        listed = f"several blocks make: {', '.join(producers)}" if producers else "no block makes"
        no(f"it reads what {listed}", "give a block with one producer; inline the others first", *producers)
    ((maker, producer),) = producers.items()
    made = plain_store(producer.block)
    if made == "it is a reduction" and not isinstance(made, Store):
        no(
            f"its producer {maker} is a reduction, whose values are final only after the last iteration",
            "reverse_compute_at a loop of it that is outside the reduce loops",
            maker,
        )
    if isinstance(made, str):
        no(f"its producer {maker} cannot take it in: {made}", "compute_inline the producer, or leave both", maker)
    if made.buffer in tree.func.params:
        no(f"its producer {maker} writes the parameter {made.buffer.name}, which is needed", "leave it", maker)
    others = [r.block.name for r in tree.readers(made.buffer) if r is not realize]
    if others:
        no(f"{made.buffer.name} is also read by {', '.join(others)}", "inline it into its consumers instead", *others)
    return store, producer, made


def _back(tree: Tree, realize: BlockRealize, producer: BlockRealize, made: Store) -> Mapping[Var, Expr]:
    """Return the block's variables in terms of the producer's."""
    block, buffer = realize.block, made.buffer

    def no(problem: str) -> NoReturn:
        raise ScheduleError(
            problem,
            f"compute_inline({producer.block.name}) instead, or reverse_compute_at",
            block.name,
            producer.block.name,
        )

    places = uses(block, buffer)
    assert not isinstance(places, str)  # it is a plain store
    if not places:
        no(f"its value does not depend on {buffer.name}, which it says it reads")
    if not all(same(a, b) for load in places for a, b in zip(load.indices, places[0].indices, strict=True)):
        no(f"it reads several elements of {buffer.name} at once")
    if not buffer.shape:
        if any(it.extent > 1 for it in block.iters):
            no(f"all of its iterations read the one element of {buffer.name}")
        return dict.fromkeys((it.var for it in block.iters), ZERO)
    try:
        found = layout(block, places[0].indices)
        if found.shape != buffer.shape or not found.onto:
            no(f"it reads only a part of {buffer.name}, but its producer would run it for all elements")
        if misses_reads(tree, producer, buffer, realize):
            no(f"it may read elements of {buffer.name} that its producer never makes: those iterations would be lost")
        back = found.inverse().final_indices
    except ExprError as error:
        no(f"the iteration that reads an element of {buffer.name} cannot be determined: {error}")
    here = dict(zip(found.places, made.indices, strict=True))
    return {it.var: substitute(b, here) for it, b in zip(block.iters, back, strict=True)}
