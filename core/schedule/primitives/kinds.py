"""Primitives that set how a loop runs: vectorize, parallel, unroll, annotate, pragma, prefetch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from pegbox.errors import ScheduleError
from pegbox.expr.dtypes import integer
from pegbox.expr.nodes import Buffer
from pegbox.loops.nodes import BlockRealize, For, ForKind
from pegbox.loops.passes.prefetch import NOTE, triples
from pegbox.schedule.analysis.checks import check_inside, check_no_lanes
from pegbox.schedule.analysis.loop_kinds import check_kinds
from pegbox.schedule.state.buffers import choose_read
from pegbox.schedule.state.handles import BlockRef, LoopRef
from pegbox.schedule.state.recording import composite, primitive
from pegbox.schedule.state.schedule_state import ScheduleState
from pegbox.schedule.tree import Tree, annotated, annotations_of
from pegbox.shown import value_text

Note: TypeAlias = bool | int | float | str | Sequence[Any]

# Notes that primitives write and code generation relies on, with their meaning.
_FIXED = {
    "combiner": "says what a reduction computes",
    "ordered": "says that the steps of a reduction keep their order",
    "thread": "says to which thread axis a loop is bound",
}
_PRAGMAS: dict[str, type[int] | type[bool]] = {"auto_unroll_max_step": int, "unroll_explicit": bool}


@primitive(moves=False)
def vectorize(sch: ScheduleState, loop: LoopRef) -> None:
    """Run the iterations as the lanes of vectors.

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
    """Share the iterations among threads.

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
    """Write the iterations out one after the other.

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
    """Put a note on a loop or a block; a note of the same key is replaced.

    Before `annotate(i, "note", 3)`::

        for i in range(4):

    After::

        for i in range(4):  # note = 3

    Args:
        ann_val: a number, a string, or a list of those.

    Raises:
        ScheduleError: a value of another kind, or the key "combiner", which says what a reduction computes, or
            "thread", which `bind` writes.
    """
    value = _note(ann_val)
    if not isinstance(ann_key, str) or value is None:
        raise ScheduleError(
            f"{ann_key!r}: {ann_val!r} is not a note",
            "the key is a string, the value a number or a string, or a list of those",
        )
    _check_key(ann_key)
    old = sch.find(block_or_loop)
    sch.update(sch.tree.replace(old, annotated(old, ann_key, value)))


@primitive(any_block=True)
def unannotate(sch: ScheduleState, block_or_loop: LoopRef | BlockRef | str, ann_key: str) -> None:
    """Take a note off a loop or a block.

    Before `unannotate(i, "note")`::

        for i in range(4):  # note = 3

    After::

        for i in range(4):

    Raises:
        ScheduleError: there is no note of that key, or the note is not a hint but a part of the program.
    """
    _check_key(ann_key)
    old = sch.find(block_or_loop)
    keys = [key for key, _ in annotations_of(old)]
    if ann_key not in keys:
        known = ", ".join(key for key in keys if key not in _FIXED) or "none"
        raise ScheduleError(f"there is no note {ann_key!r}", f"the notes there are {known}")
    sch.update(sch.tree.replace(old, annotated(old, ann_key)))


@composite
def pragma(sch: ScheduleState, loop: LoopRef, key: str, value: int | bool = True) -> None:
    """Give the code generator a hint for everything below a loop.

    `auto_unroll_max_step` (int): unroll inner loops whose statements, written out, are at most that many.
    `unroll_explicit` (bool): pegbox unrolls itself (True) or leaves it to LLVM.

    Before `pragma(i, "auto_unroll_max_step", 64)`::

        for i in range(4):

    After::

        for i in range(4):  # pragma_auto_unroll_max_step = 64

    Raises:
        ScheduleError: an unknown pragma or a value of the wrong type.
    """
    annotate(sch, loop, f"pragma_{key}", pragma_value(key, value))


@primitive(any_block=True)
def prefetch(sch: ScheduleState, block: BlockRef | str, buffer: int | str, loop: LoopRef, offset: int = 1) -> None:
    """Prefetch, in each iteration of a loop, what the block will read of a buffer `offset` iterations later.

    Lowering places one prefetch for each cache line of 64 bytes; values stay what they are.

    Args:
        block: a block inside the loop.
        buffer: which buffer: its number among those that the block reads, or its name.

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
        ScheduleError: the block does not read the buffer or is not inside the loop, the offset is not a positive
            integer, the buffer is made inside the loop, or the loop is vectorized or inside a vectorized one.
    """
    realize, target = sch.find_block(block), sch.find_loop(loop)
    source = choose_read(realize, buffer)
    _check_prefetch(sch.tree, realize, source, target, offset)
    old = next((value for key, value in target.annotations if key == NOTE), ())
    name = realize.block.name
    kept = [part for t in triples(old) if t[:2] != (name, source.name) for part in t]
    sch.update(sch.tree.replace(target, annotated(target, NOTE, (*kept, name, source.name, int(offset)))))


def _set_kind(sch: ScheduleState, loop: LoopRef, kind: ForKind) -> None:
    old = sch.find_loop(loop)
    _check_free(old, kind)
    changed = Tree(sch.tree.replace(old, replace(old, kind=kind)))
    check_kinds(changed, [old.var])
    sch.update(changed)


def pragma_value(key: str, value: object) -> int | bool:
    """Return the value of a pragma, as it is kept.

    Raises:
        ScheduleError: an unknown pragma or a value of the wrong type.
    """
    expected = _PRAGMAS.get(key)
    if expected is None:
        raise ScheduleError(f"unknown pragma {key!r}", f"use one of {', '.join(_PRAGMAS)}")
    if not isinstance(value, int) or (expected is int and (isinstance(value, bool) or value < 0)):
        raise ScheduleError(
            f"pragma {key}: {value_text(value)} is not {'an int' if expected is int else 'a bool'}",
            f"give {expected.__name__} >= 0",
        )
    return bool(value) if expected is bool else value


def _check_free(loop: For, kind: ForKind) -> None:
    """Raises ScheduleError: the loop is bound to a thread axis."""
    if loop.kind.is_bound:
        raise ScheduleError(
            f"{loop.var.name} cannot be {kind}: it is {loop.kind.in_words}",
            "split the loop before you bind a part of it, and use the other part",
            loop.var,
        )


def _check_key(key: str) -> None:
    if key in _FIXED:
        raise ScheduleError(f"{key!r} {_FIXED[key]} and cannot be changed", "use another key")


def _note(value: object) -> Any:
    """Return the value of a note in hashable form; None for other values."""
    if isinstance(value, list | tuple):
        parts = tuple(map(_note, value))
        return None if None in parts else parts
    number = integer(value)
    if number is not None:
        return number
    return value if isinstance(value, bool | float | str) else None


def _check_prefetch(tree: Tree, realize: BlockRealize, source: Buffer, loop: For, offset: object) -> None:
    var = loop.var
    number = integer(offset)
    if number is None or number < 1:
        raise ScheduleError(f"the offset is {offset!r}", "give the number of iterations ahead: an integer from 1", var)
    check_inside(tree, realize, loop)
    check_no_lanes(tree, loop, "use a loop around it")
    makers = tree.writers(source)
    if makers and all(tree.is_under(maker, loop) for maker in makers):
        raise ScheduleError(
            f"{source.name} is made inside {var.name}, in each iteration anew, so nothing can be fetched ahead",
            f"prefetch what {makers[0].block.name} reads, or use a loop inside which {source.name} is only read",
            var,
            makers[0].block.name,
        )
