"""Asking for memory before it is needed."""

from __future__ import annotations

from pegbox.expr.dtypes import integer
from pegbox.expr.nodes import Buffer
from pegbox.loops.nodes import BlockRealize, For, ForKind
from pegbox.loops.passes.prefetch import NOTE, triples, without_note
from pegbox.schedule.errors import refuse
from pegbox.schedule.state.base import ScheduleBase
from pegbox.schedule.state.buffers import choose_read
from pegbox.schedule.state.handles import BlockRef, LoopRef
from pegbox.schedule.state.recording import primitive
from pegbox.schedule.tree import Tree


class PrefetchPrimitives(ScheduleBase):
    """Hints to the memory."""

    @primitive(any_block=True)
    def prefetch(self, block: BlockRef | str, buffer: int | str, loop: LoopRef, offset: int = 1) -> None:
        """In each iteration of a loop, ask for what the block will read of a buffer `offset` iterations further on.

        Lowering places one prefetch for each cache line of 64 bytes; values stay what they are.

        Args:
            block: a block inside of the loop.
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
            ScheduleError: the block does not read the buffer or is not inside of the loop, the offset is not a positive
                integer, the buffer is made inside of the loop, or the loop stands in or is vectorized.
        """
        realize, target = self._block(block), self._loop(loop)
        source = choose_read(realize, buffer)
        _check(self.tree, realize, source, target, offset)
        old = next((value for key, value in target.annotations if key == NOTE), ())
        name = realize.block.name
        kept = [part for t in triples(old) if t[:2] != (name, source.name) for part in t]
        note = (NOTE, (*kept, name, source.name, int(offset)))
        new = For(target.var, target.extent, target.body, target.kind, (*without_note(target.annotations), note))
        self._set(self.tree.replace(target, new))


def _check(tree: Tree, realize: BlockRealize, source: Buffer, loop: For, offset: object) -> None:
    name, var = realize.block.name, loop.var
    number = integer(offset)
    if number is None or number < 1:
        raise refuse(tree, f"the offset is {offset!r}", "give the number of iterations ahead: an integer from 1", var)
    if not tree.is_under(realize, loop):
        raise refuse(tree, f"{name} is not inside of {var.name}", f"use a loop around {name}", var, name)
    lanes = [x for x in (*tree.ancestors(loop), loop) if x.kind is ForKind.VECTORIZED]
    if lanes:
        raise refuse(
            tree, f"{lanes[0].var.name} is vectorized, its iterations are lanes", "use a loop around it", lanes[0].var
        )
    makers = tree.writers(source)
    if makers and all(tree.is_under(maker, loop) for maker in makers):
        raise refuse(
            tree,
            f"{source.name} is made inside of {var.name}, in each iteration anew, so nothing can be fetched ahead",
            f"prefetch what {makers[0].block.name} reads, or use a loop inside of which {source.name} is only read",
            var,
            makers[0].block.name,
        )
