"""Computing a value where it is used instead of storing it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pegbox.expr.bounds import Ranges
from pegbox.expr.nodes import Buffer, Expr, Load, Var
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import rewrite, substitute
from pegbox.loops.nodes import Block, BlockRealize, Store
from pegbox.loops.regions import reads_and_writes
from pegbox.loops.visit import map_exprs
from pegbox.schedule.analysis import written_buffers
from pegbox.schedule.attach import check_parallel
from pegbox.schedule.base import ScheduleBase, primitive
from pegbox.schedule.handles import BlockRef
from pegbox.schedule.outline import refuse
from pegbox.schedule.tree import Tree, with_allocs


class InlinePrimitives(ScheduleBase):
    """Blocks dissolve into their consumers."""

    @primitive
    def compute_inline(self, block: BlockRef | str) -> None:
        """Put the value of an elementwise block into each of its consumers; the block and its buffer are gone.

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

        Raises:
            ScheduleError: the block reduces, is an output, has several outputs, or has no consumer; or a parallel loop
                around it makes what it reads for each iteration anew.
        """
        realize = self._block(block)
        store = _store(self.tree, realize)
        params: tuple[Var, ...] = tuple(i for i in store.indices if isinstance(i, Var))
        func, buffer = self.tree.func, store.buffer
        readers = [r.block.name for r in self.tree.readers(buffer) if r is not realize]
        if not readers:
            raise refuse(
                self.tree,
                f"compute_inline({realize.block.name}): no block reads {buffer.name}",
                "leave it where it is",
                realize.block.name,
            )
        tree = Tree(self.tree.replace(realize, None))
        for name in readers:
            reader = tree.blocks[name]
            inlined = _inlined(reader.block, buffer, params, store.value)
            tree = Tree(tree.replace(reader, BlockRealize(reader.values, inlined, reader.predicate)))
        check_parallel(self.tree, tree, realize.block.name)
        self._set(with_allocs(tree.func, drop=tuple(b for b in func.allocs if b is buffer)))


def _store(tree: Tree, realize: BlockRealize) -> Store:
    """The one statement of a block that can be inlined."""
    block = realize.block
    name, body = block.name, block.body
    problem, remedy = "", "leave it where it is, or use compute_at"
    if block.is_reduction:
        problem = "it is a reduction"
    elif any(b in tree.func.params for b in written_buffers(block)):
        problem, remedy = "it writes a parameter of the function", "inline its producers instead"
    elif not isinstance(body, Store):
        problem = "it has several outputs or conditional ones"
    elif any(w is not realize for w in tree.writers(body.buffer)):
        problem = f"{body.buffer.name} is also written by another block"
    elif not all(isinstance(i, Var) for i in body.indices) or len(set(body.indices)) != len(body.indices):
        problem = f"it does not write {body.buffer.name} at the plain variables of its axes"
    elif len(body.indices) != len(block.iters):
        problem = f"its variables are not the indices of {body.buffer.name}"
    else:
        return body
    raise refuse(tree, f"compute_inline({name}): {problem}", remedy, name)


def _inlined(block: Block, buffer: Buffer, params: tuple[Var, ...], value: Expr) -> Block:
    ranges = {it.var: (0, it.extent - 1) for it in block.iters}

    def change(expr: Expr) -> Expr:
        return _replace_loads(expr, buffer, params, value, ranges)

    body = map_exprs(block.body, change)
    init = None if block.init is None else map_exprs(block.init, change)
    return replace(block, body=body, init=init, reads=reads_and_writes(body)[0])


def _replace_loads(expr: Expr, buffer: Buffer, params: tuple[Var, ...], value: Expr, ranges: Ranges) -> Expr:
    def leaf(e: Expr) -> Expr | None:
        if isinstance(e, Load) and e.buffer is buffer:
            indices = [rewrite(i, leaf) for i in e.indices]
            mapping: Mapping[Var, Expr] = dict(zip(params, indices, strict=True))
            inlined = substitute(value, mapping)
            # Plain variables for plain variables leave nothing to simplify.
            return inlined if all(isinstance(i, Var) for i in indices) else simplify(inlined, ranges)
        return None

    return rewrite(expr, leaf)
