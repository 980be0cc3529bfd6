"""Copies of what a block reads or writes, for a faster place or another layout."""

from __future__ import annotations

from collections.abc import Sequence

from pegbox.errors import ScheduleError
from pegbox.expr.build import TRUE
from pegbox.expr.nodes import Buffer, Load, Var
from pegbox.loops.nodes import Block, BlockIter, BlockRealize, For, IterKind, Region, Seq, Stmt, Store, seq
from pegbox.loops.visit import replace_buffer
from pegbox.schedule.analysis import read_buffers, written_buffers
from pegbox.schedule.base import ScheduleBase, primitive
from pegbox.schedule.handles import BlockRef
from pegbox.schedule.outline import refuse
from pegbox.schedule.tree import Tree, with_allocs

SCOPES = ("global", "local")


class CachePrimitives(ScheduleBase):
    """Copy blocks before and after."""

    @primitive
    def cache_read(
        self,
        block: BlockRef | str,
        buffer: int | str,
        scope: str = "global",
        *,
        consumers: Sequence[BlockRef | str] | None = None,
    ) -> BlockRef:
        """Copy a buffer before it is read; readers then read the copy. Gives the copying block.

        Args:
            block: a block that reads the buffer.
            buffer: which: its number among the buffers that `block` reads, or its name.
            scope: "global" or "local", where the copy lives.
            consumers: the blocks that shall read the copy; by default all that read the buffer.

        Before `cache_read("C", "A", "local")`::

            for i in range(8):
                block C:
                    C[vi] = A[vi] * 2.0

        After::

            for ax0 in range(8):
                block A_local:
                    A_local[v0] = A[v0]
            for i in range(8):
                block C:
                    C[vi] = A_local[vi] * 2.0

        Move the copy where it is needed with `compute_at`.

        Raises:
            ScheduleError: no such buffer or scope, or the buffer is made inside the loops around a consumer.
        """
        tree, realize = self.tree, self._block(block)
        source = _choose(read_buffers(realize.block), buffer, realize.block.name, "reads")
        chosen = [r.block.name for r in tree.readers(source)]
        if consumers is not None:
            chosen = [n for n in chosen if n in {self._block(c).block.name for c in consumers} | {realize.block.name}]
        copy = _copy_buffer(tree, source, scope)
        first = tree.top_of(tree.blocks[chosen[0]])
        for writer in tree.writers(source):
            if tree.is_under(writer, first):
                raise refuse(
                    tree,
                    f"cache_read({realize.block.name}, {source.name}): {source.name} is made by {writer.block.name} "
                    f"inside the loops around {chosen[0]}, where no copy of all of it can be taken",
                    "cache_read first, compute_at after",
                    writer.block.name,
                    chosen[0],
                )
        made = _copy_nest(copy.name, source, copy)
        func = with_allocs(_insert(tree, first, made, after=False).func, add=(copy,))
        self._set(_redirect(Tree(func), chosen, source, copy))
        return BlockRef(copy.name)

    @primitive
    def cache_write(self, block: BlockRef | str, buffer: int | str = 0, scope: str = "global") -> BlockRef:
        """Let a block write to a new buffer, and copy that to the old one afterwards. Gives the copying block.

        Args:
            buffer: which: its number among the buffers that `block` writes, or its name.
            scope: "global" or "local", where the new buffer lives.

        Before `cache_write("C", 0, "local")`::

            for i in range(8):
                block C:
                    C[vi] = A[vi] * 2.0

        After::

            for i in range(8):
                block C:
                    C_local[vi] = A[vi] * 2.0
            for ax0 in range(8):
                block C_local:
                    C[v0] = C_local[v0]

        Move the copy to the end of a tile with `reverse_compute_at`.

        Raises:
            ScheduleError: no such buffer or scope, or a consumer shares loops with the block.
        """
        tree, realize = self.tree, self._block(block)
        name = realize.block.name
        target = _choose(written_buffers(realize.block), buffer, name, "writes")
        copy = _copy_buffer(tree, target, scope)
        writers = tree.writers(target)
        top = tree.top_of(writers[-1])
        for reader in tree.readers(target):
            if tree.is_under(reader, top):
                raise refuse(
                    tree,
                    f"cache_write({name}, {target.name}): {reader.block.name} reads {target.name} inside the loops "
                    f"around {name}, before a copy of all of it can be made",
                    "cache_write first, compute_at after",
                    name,
                    reader.block.name,
                )
        made = _copy_nest(copy.name, copy, target)
        func = with_allocs(_insert(tree, top, made, after=True).func, add=(copy,))
        self._set(_redirect(Tree(func), [w.block.name for w in writers], target, copy))
        return BlockRef(copy.name)


def _choose(buffers: list[Buffer], which: int | str, name: str, verb: str) -> Buffer:
    for number, buffer in enumerate(buffers):
        if which in (number, buffer.name) and not isinstance(which, bool):
            return buffer
    listed = ", ".join(f"{n}: {b.name}" for n, b in enumerate(buffers))
    raise ScheduleError(f"block {name} {verb} no buffer {which!r}; it {verb} {listed or 'none'}")


def _copy_buffer(tree: Tree, original: Buffer, scope: str) -> Buffer:
    if scope not in SCOPES:
        raise ScheduleError(f"unknown scope {scope!r} for a copy of {original.name}; use one of {', '.join(SCOPES)}")
    taken = {b.name for b in (*tree.func.params, *tree.func.allocs)} | set(tree.blocks)
    base = name = f"{original.name}_{scope}"
    count = 0
    while name in taken:
        count += 1
        name = f"{base}_{count}"
    return Buffer(name, original.shape, original.dtype, scope)


def _copy_nest(name: str, source: Buffer, target: Buffer) -> Stmt:
    iters = tuple(BlockIter(Var(f"v{n}"), extent, IterKind.SPATIAL) for n, extent in enumerate(source.shape))
    point = tuple(it.var for it in iters)
    box = tuple((v, 1) for v in point)
    body = Store(target, point, Load(source, point))
    block = Block(name, iters, (Region(source, box),), (Region(target, box),), body)
    loops = [Var(f"ax{n}") for n in range(len(iters))]
    nest: Stmt = BlockRealize(tuple(loops), block, TRUE)
    for var, it in reversed(list(zip(loops, iters, strict=True))):
        nest = For(var, it.extent, nest)
    return nest


def _insert(tree: Tree, top: Stmt, new: Stmt, *, after: bool) -> Tree:
    """The program with a statement before or after a top-level one."""
    body = tree.func.body
    stmts = body.stmts if isinstance(body, Seq) else (body,)
    place = next(n for n, s in enumerate(stmts) if s is top) + after
    return Tree(tree.func.with_body(seq(*stmts[:place], new, *stmts[place:])))


def _redirect(tree: Tree, names: Sequence[str], old: Buffer, new: Buffer) -> Tree:
    """The named blocks use another buffer at the same indices."""
    mapping = {old: new}
    for name in names:
        realize = tree.blocks[name]
        changed = replace_buffer(realize, mapping)
        tree = Tree(tree.replace(realize, changed))
    return tree
