"""Primitives that set how a loop runs: vectorize, parallel, unroll, annotate, pragma, prefetch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from pegbox.errors import ScheduleError
from pegbox.expr.dtypes import integer
from pegbox.expr.nodes import Buffer
from pegbox.loops.nodes import BlockRealize, For, ForKind, Stmt
from pegbox.loops.passes.prefetch import AMONG, NOTE, SHARED, triples
from pegbox.loops.visit import walk
from pegbox.schedule.analysis import read_buffers
from pegbox.schedule.analysis.checks import check_inside, check_no_lanes
from pegbox.schedule.analysis.loop_kinds import check_kinds
from pegbox.schedule.state.buffers import choose_accessed
from pegbox.schedule.state.handles import BlockRef, LoopRef
from pegbox.schedule.state.recording import composite, primitive
from pegbox.schedule.state.schedule_state import ScheduleState
from pegbox.schedule.tree import Tree, annotated, annotations_of
from pegbox.shown import value_text

Note: TypeAlias = bool | int | float | str | Sequence[Any]

# Annotations that primitives write and code generation relies on, with their meanings.
_FIXED = {
    "combiner": "says what a reduction computes",
    "ordered": "says that the steps of a reduction keep their order",
    "thread": "says to which thread axis a loop is bound",
}
_PRAGMAS: dict[str, type[int] | type[bool]] = {
    "auto_unroll_max_step": int, "unroll_explicit": bool, "loop_partition_hint": bool,
    "nontemporal": bool,
}  # fmt: skip


@primitive(moves=False)
def vectorize(sch: ScheduleState, loop: LoopRef) -> None:
    """Run the iterations of a loop as the lanes of vectors.

    Before `vectorize(j)`::

        for j in range(16):
            block C: ...

    After::

        for j in vectorized range(16):
            block C: ...

    A reduce loop may be vectorized when the reduction has one output and is a sum, prod, max or min.

    Raises:
        ScheduleError: two lanes would write one element, or another vectorized or parallel loop is in the way.
    """
    _set_kind(sch, loop, ForKind.VECTORIZED)


@primitive(moves=False)
def parallel(sch: ScheduleState, loop: LoopRef) -> None:
    """Distribute the iterations of a loop among threads.

    Before `parallel(i)`::

        for i in range(64):
            block C: ...

    After::

        for i in parallel range(64):
            block C: ...

    Raises:
        ScheduleError: two iterations would write one element, or another parallel or vectorized loop is in
            the way.
    """
    _set_kind(sch, loop, ForKind.PARALLEL)


@primitive(any_block=True)
def unroll(sch: ScheduleState, loop: LoopRef) -> None:
    """Write the iterations of a loop out one after the other.

    Before `unroll(i)`::

        for i in range(4):
            block C: ...

    After::

        for i in unrolled range(4):
            block C: ...
    """
    old = sch.find_loop(loop)
    _check_free(old, ForKind.UNROLLED)
    sch.update(sch.tree.replace(old, replace(old, kind=ForKind.UNROLLED)))


@primitive(any_block=True)
def annotate(sch: ScheduleState, block_or_loop: LoopRef | BlockRef | str, ann_key: str, ann_val: Note) -> None:
    """Annotate a loop or a block; an annotation with the same key is replaced.

    Before `annotate(i, "note", 3)`::

        for i in range(4):

    After::

        for i in range(4):  # note = 3

    Args:
        ann_val: a number, a string, or a list of those.

    Raises:
        ScheduleError: the value is of another type, or the key is one whose annotation is a part of the program:
            "combiner" and "ordered", which describe a reduction, or "thread", which `bind` writes.
    """
    value = _note(ann_val)
    if not isinstance(ann_key, str) or value is None:
        raise ScheduleError(
            f"{ann_key!r}: {ann_val!r} is not an annotation",
            "give a string as the key, and a number, a string or a list of those as the value",
        )
    _check_key(ann_key)
    old = sch.find(block_or_loop)
    sch.update(sch.tree.replace(old, annotated(old, ann_key, value)))


@primitive(any_block=True)
def unannotate(sch: ScheduleState, block_or_loop: LoopRef | BlockRef | str, ann_key: str) -> None:
    """Remove an annotation from a loop or a block.

    Before `unannotate(i, "note")`::

        for i in range(4):  # note = 3

    After::

        for i in range(4):

    Raises:
        ScheduleError: there is no annotation with that key, or it is not a hint but a part of the program.
    """
    _check_key(ann_key)
    old = sch.find(block_or_loop)
    keys = [key for key, _ in annotations_of(old)]
    if ann_key not in keys:
        known = ", ".join(key for key in keys if key not in _FIXED) or "none"
        raise ScheduleError(f"there is no annotation {ann_key!r}", f"the annotations are {known}")
    sch.update(sch.tree.replace(old, annotated(old, ann_key)))


@composite
def pragma(sch: ScheduleState, loop: LoopRef, key: str, value: int | bool = True) -> None:
    """Give the code generator a hint for everything below a loop.

    `auto_unroll_max_step` (int): unroll inner loops that have at most that many statements when written out.
    `unroll_explicit` (bool): pegbox unrolls these loops itself (True) or leaves it to LLVM.
    `loop_partition_hint` (bool): cut the loop where conditions in expressions begin or cease to hold.
    `nontemporal` (bool): write whole cache lines of a vectorized loop around the caches.

    Before `pragma(i, "auto_unroll_max_step", 64)`::

        for i in range(4):

    After::

        for i in range(4):  # pragma_auto_unroll_max_step = 64

    Raises:
        ScheduleError: an unknown pragma or a value of the wrong type.
    """
    annotate(sch, loop, f"pragma_{key}", pragma_value(key, value))


@primitive(any_block=True)
def prefetch(
    sch: ScheduleState,
    block: BlockRef | str,
    buffer: int | str,
    loop: LoopRef,
    offset: int = 1,
    *,
    among: LoopRef | None = None,
) -> None:
    """Prefetch, in each iteration of a loop, elements of a buffer that the block accesses `offset` iterations later.

    Lowering places one prefetch for each cache line of 64 bytes; no value changes. A buffer that the block only writes
    is prefetched for writing.

    Args:
        block: a block inside the loop.
        buffer: its name, or its position among the buffers that the block reads, followed by those that it only writes.
        offset: the number of iterations ahead: at least 1, or 0 with `among`.
        among: a loop inside `loop`, whose iterations share the prefetches of an iteration of `loop` evenly, with reads
            going to the second-level cache. Without it, all are issued at once into the first-level cache, which can
            wait for only a few lines.

    Before `prefetch("C", "A", i, 2)`::

        for i in range(8):
            for j in range(16):
                block C: reads A[vi, vj]

    After, when lowered::

        for i in range(8):
            prefetch(address(A[min(i + 2, 7), 0], "r"))
            for j in range(16):
                C[i, j] = A[i, j] + 1.0

    Raises:
        ScheduleError: the block does not access the buffer or is not inside the loop, the offset is too small, the
            block reads the buffer and each iteration of the loop computes it, a loop is vectorized or inside a
            vectorized one, or `among` is not inside `loop`.
    """
    realize, target = sch.find_block(block), sch.find_loop(loop)
    source = choose_accessed(realize, buffer)
    inner = None if among is None else sch.find_loop(among)
    _check_prefetch(sch.tree, realize, source, target, offset, inner)
    wanted = realize.block.name, source.name, int(offset)
    tree = sch.tree
    for key in (NOTE, SHARED):
        tree = _with_prefetches(tree, target, key, without=wanted[:2])
    for inside in walk(target.body):
        tree = _with_prefetches(tree, inside, AMONG, without=wanted[:2])
    tree = _with_prefetches(tree, target, NOTE if inner is None else SHARED, wanted)
    sch.update((tree if inner is None else _with_prefetches(tree, inner, AMONG, wanted)).func)


def _with_prefetches(
    tree: Tree, loop: Stmt, key: str, *wanted: tuple[str, str, int], without: tuple[str, str] | None = None
) -> Tree:
    """Return the tree with further triples in an annotation of a loop, and without those of one access."""
    if not isinstance(loop, For) or loop.var not in tree.loops:  # a loop within a block cannot be annotated
        return tree
    current = tree.loops[loop.var]
    old = triples(next((value for own, value in current.annotations if own == key), ()))
    new = [*(t for t in old if t[:2] != without), *wanted]
    if new == list(old):
        return tree
    return Tree(tree.replace(current, annotated(current, key, tuple(part for t in new for part in t) or None)))


def _set_kind(sch: ScheduleState, loop: LoopRef, kind: ForKind) -> None:
    old = sch.find_loop(loop)
    _check_free(old, kind)
    changed = Tree(sch.tree.replace(old, replace(old, kind=kind)))
    check_kinds(changed, [old.var])
    sch.update(changed)


def pragma_value(key: str, value: object) -> int | bool:
    """Check a pragma, and return its value as it is stored.

    Raises:
        ScheduleError: an unknown pragma or a value of the wrong type.
    """
    expected = _PRAGMAS.get(key)
    if expected is None:
        raise ScheduleError(f"unknown pragma {key!r}", f"use one of {', '.join(_PRAGMAS)}")
    if not isinstance(value, int) or (
        value not in (0, 1) if expected is bool else isinstance(value, bool) or value < 0
    ):
        kind, remedy = ("a bool", "give True or False") if expected is bool else ("an int", "give an int >= 0")
        raise ScheduleError(f"pragma {key}: {value_text(value)} is not {kind}", remedy)
    return bool(value) if expected is bool else value


def _check_free(loop: For, kind: ForKind) -> None:
    """Check that the loop is not bound to a thread axis."""
    if loop.kind.is_bound:
        raise ScheduleError(
            f"{loop.var.name} cannot be {kind}: it is {loop.kind.in_words}",
            "split the loop, bind one part, and use the other",
            loop.var,
        )


def _check_key(key: str) -> None:
    if key in _FIXED:
        raise ScheduleError(f"{key!r} {_FIXED[key]} and cannot be changed", "use another key")


def _note(value: object) -> Any:
    """Return the value of an annotation in hashable form; None if it is not a legal value."""
    if isinstance(value, list | tuple):
        parts = tuple(map(_note, value))
        return None if None in parts else parts
    number = integer(value)
    if number is not None:
        return number
    return value if isinstance(value, bool | float | str) else None


def _check_prefetch(
    tree: Tree, realize: BlockRealize, source: Buffer, loop: For, offset: object, among: For | None
) -> None:
    var, least = loop.var, 1 if among is None else 0
    number = integer(offset)
    if number is None or number < least:
        raise ScheduleError(
            f"the offset is {offset!r}", f"give the number of iterations ahead: an integer from {least}", var
        )
    check_inside(tree, realize, loop)
    check_no_lanes(tree, among or loop, "use a loop around it")
    if among is not None and (among is loop or not tree.is_under(among, loop)):
        raise ScheduleError(
            f"{among.var.name} is not inside {var.name}", "share the prefetches among a loop inside it", var
        )
    makers = tree.writers(source)
    is_read = source in read_buffers(realize.block)
    if is_read and makers and all(tree.is_under(maker, loop) for maker in makers):
        raise ScheduleError(
            f"{source.name} is computed anew in each iteration of {var.name}, so nothing can be prefetched",
            f"prefetch what {makers[0].block.name} reads, or use a loop inside which {source.name} is only read",
            var,
            makers[0].block.name,
        )
