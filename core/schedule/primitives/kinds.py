"""How a loop runs: vectorized, parallel, unrolled; and hints for the code generator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from pegbox.errors import ScheduleError
from pegbox.expr.dtypes import integer
from pegbox.loops.nodes import Annotation, BlockRealize, For, ForKind, Stmt, thread_tag
from pegbox.schedule.analysis.loop_kinds import check_kinds
from pegbox.schedule.errors import refuse
from pegbox.schedule.state.base import ScheduleBase
from pegbox.schedule.state.handles import BlockRef, LoopRef
from pegbox.schedule.state.recording import composite, primitive
from pegbox.schedule.tree import Tree

Note: TypeAlias = bool | int | float | str | Sequence[Any]

# Notes that are no hints: primitives write them, and code generation relies on them.
_FIXED = {"combiner": "says what a reduction computes", "thread": "says to which thread axis a loop is bound"}
_PRAGMAS: dict[str, type[int] | type[bool]] = {"auto_unroll_max_step": int, "unroll_explicit": bool}


class KindPrimitives(ScheduleBase):
    """The iterations stay; how the machine runs them changes."""

    @primitive(moves=False)
    def vectorize(self, loop: LoopRef) -> None:
        """Run the iterations as the lanes of vectors.

        Before `vectorize(j)`::

            for j in range(16):
                block C: ...

        After::

            for j in vectorized range(16):
                block C: ...

        A reduce loop may be vectorized when the reduction has one output and is a sum, prod, max or min.

        Raises:
            ScheduleError: two lanes would write one element, or another vectorized or parallel loop stands in the way.
        """
        self._set_kind(loop, ForKind.VECTORIZED)

    @primitive(moves=False)
    def parallel(self, loop: LoopRef) -> None:
        """Share the iterations among threads.

        Before `parallel(i)`::

            for i in range(64):
                block C: ...

        After::

            for i in parallel range(64):
                block C: ...

        Raises:
            ScheduleError: two iterations would write one element, or another parallel or vectorized loop stands in
                the way.
        """
        self._set_kind(loop, ForKind.PARALLEL)

    @primitive(any_block=True)
    def unroll(self, loop: LoopRef) -> None:
        """Write the iterations out one after the other.

        Before `unroll(i)`::

            for i in range(4):
                block C: ...

        After::

            for i in unrolled range(4):
                block C: ...
        """
        old = self._loop(loop)
        _check_free(self.tree, old, ForKind.UNROLLED)
        self._set(self.tree.replace(old, _of_kind(old, ForKind.UNROLLED)))

    @primitive(any_block=True)
    def annotate(self, block_or_loop: LoopRef | BlockRef | str, ann_key: str, ann_val: Note) -> None:
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
        old = self._noted(block_or_loop)
        self._set(self.tree.replace(old, _with_notes(old, (*_without(old, ann_key), (ann_key, value)))))

    @primitive(any_block=True)
    def unannotate(self, block_or_loop: LoopRef | BlockRef | str, ann_key: str) -> None:
        """Take a note off a loop or a block.

        Before `unannotate(i, "note")`::

            for i in range(4):  # note = 3

        After::

            for i in range(4):

        Raises:
            ScheduleError: there is no note of that key, or the note is not a hint but a part of the program.
        """
        _check_key(ann_key)
        old = self._noted(block_or_loop)
        kept = _without(old, ann_key)
        if len(kept) == len(_notes(old)):
            known = ", ".join(key for key, _ in kept if key not in _FIXED) or "none"
            raise ScheduleError(f"there is no note {ann_key!r}", f"the notes there are {known}")
        self._set(self.tree.replace(old, _with_notes(old, kept)))

    @composite
    def pragma(self, loop: LoopRef, key: str, value: int | bool = True) -> None:
        """A hint for the code generator, for everything below a loop.

        `auto_unroll_max_step` (int): unroll inner loops whose statements, written out, are at most that many.
        `unroll_explicit` (bool): pegbox unrolls itself (True) or leaves it to LLVM.

        Before `pragma(i, "auto_unroll_max_step", 64)`::

            for i in range(4):

        After::

            for i in range(4):  # pragma_auto_unroll_max_step = 64

        Raises:
            ScheduleError: an unknown pragma or a value of the wrong type.
        """
        self.annotate(loop, f"pragma_{key}", pragma_value(key, value))

    def _noted(self, block_or_loop: LoopRef | BlockRef | str) -> For | BlockRealize:
        return self._loop(block_or_loop) if isinstance(block_or_loop, LoopRef) else self._block(block_or_loop)

    def _set_kind(self, loop: LoopRef, kind: ForKind) -> None:
        old = self._loop(loop)
        _check_free(self.tree, old, kind)
        changed = Tree(self.tree.replace(old, _of_kind(old, kind)))
        check_kinds(changed, [old.var], self.tree)
        self._set(changed)


def pragma_value(key: str, value: object) -> int | bool:
    """The value of a pragma, as it is kept.

    Raises:
        ScheduleError: an unknown pragma or a value of the wrong type.
    """
    expected = _PRAGMAS.get(key)
    if expected is None:
        raise ScheduleError(f"unknown pragma {key!r}", f"use one of {', '.join(_PRAGMAS)}")
    if not isinstance(value, int) or (expected is int and (isinstance(value, bool) or value < 0)):
        raise ScheduleError(
            f"pragma {key}: {value!r} is not {'an int' if expected is int else 'a bool'}",
            f"give {expected.__name__} >= 0",
        )
    return bool(value) if expected is bool else value


def _of_kind(loop: For, kind: ForKind) -> For:
    return For(loop.var, loop.extent, loop.body, kind, loop.annotations)


def _check_free(tree: Tree, loop: For, kind: ForKind) -> None:
    """Raises ScheduleError: the loop is bound to a thread axis."""
    if loop.kind is ForKind.THREAD:
        raise refuse(
            tree,
            f"{loop.var.name} cannot be {kind}: it is bound to {thread_tag(loop)}",
            "split the loop before you bind a part of it, and use the other part",
            loop.var,
        )


def _check_key(key: str) -> None:
    if key in _FIXED:
        raise ScheduleError(f"{key!r} {_FIXED[key]} and cannot be changed", "use another key")


def _note(value: object) -> Any:
    """The value of a note, as it is kept: hashable; None for what is not a value."""
    if isinstance(value, list | tuple):
        parts = tuple(map(_note, value))
        return None if None in parts else parts
    number = integer(value)
    if number is not None:
        return number
    return value if isinstance(value, bool | float | str) else None


def _notes(node: For | BlockRealize) -> tuple[Annotation, ...]:
    return node.annotations if isinstance(node, For) else node.block.annotations


def _without(node: For | BlockRealize, key: str) -> tuple[Annotation, ...]:
    return tuple((k, v) for k, v in _notes(node) if k != key)


def _with_notes(node: For | BlockRealize, notes: tuple[Annotation, ...]) -> Stmt:
    if isinstance(node, For):
        return For(node.var, node.extent, node.body, node.kind, notes)
    return replace(node, block=replace(node.block, annotations=notes))
