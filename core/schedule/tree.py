"""Index of a program: loops by variable, blocks by name, parents by node; and path-copying edits.

The tree ends at blocks: a block's body uses only the block's own variables, so that no primitive needs to look inside
to move it. Building a tree costs microseconds, so each edit builds a new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pegbox.errors import ScheduleError
from pegbox.expr.bounds import Interval
from pegbox.expr.nodes import Buffer, Var
from pegbox.loops.access.recurrence import CarriedRead, carried_reads
from pegbox.loops.nodes import Alloc, Annotation, BlockRealize, For, Function, If, Seq, Stmt, seq
from pegbox.loops.visit import blocks_below as blocks_below
from pegbox.loops.visit import loops_below as loops_below
from pegbox.loops.visit import map_blocks as map_blocks
from pegbox.loops.visit import realizes

_OWN: Mapping[Var, Var] = {}


@dataclass(frozen=True, slots=True, eq=False)
class BlockBody(Function):
    """The inside of a block as a program.

    `domain` are the variables of the surrounding blocks, with their extents; `taken` are the names of the blocks
    outside.
    """

    domain: tuple[tuple[Var, int], ...] = ()
    taken: frozenset[str] = frozenset()


class Tree:
    """An index of one (immutable) function. `blocks` and `loops` are in program order."""

    __slots__ = ("_carried", "blocks", "func", "loops", "parents", "ranges")

    def __init__(self, func: Function) -> None:
        self.func = func
        self.loops: dict[Var, For] = {}
        self.blocks: dict[str, BlockRealize] = {}
        self.parents: dict[int, Stmt] = {}
        self.ranges: dict[Var, Interval] = {var: (0, extent - 1) for var, extent in self.domain}
        self._carried: list[CarriedRead] | None = None
        self._index()

    def _index(self) -> None:
        parents, stack = self.parents, [self.func.body]
        while stack:
            node = stack.pop()
            if isinstance(node, For):
                self.loops[node.var] = node
                self.ranges[node.var] = (0, node.extent - 1)
                parents[id(node.body)] = node
                stack.append(node.body)
            elif isinstance(node, BlockRealize):
                if node.block.name in self.blocks:
                    raise ScheduleError(f"{self.func.name}: two blocks are called {node.block.name!r}", "rename one")
                self.blocks[node.block.name] = node
            elif isinstance(node, Seq):
                for each in node.stmts:
                    parents[id(each)] = node
                stack.extend(reversed(node.stmts))
            elif isinstance(node, If | Alloc):
                inner = node.then if isinstance(node, If) else node.body
                parents[id(inner)] = node
                stack.append(inner)
            else:
                raise ScheduleError(
                    f"{self.func.name}: a {type(node).__name__} is outside any block",
                    "lowered programs cannot be scheduled: schedule the program before lowering it",
                )

    @property
    def domain(self) -> tuple[tuple[Var, int], ...]:
        """The variables of surrounding blocks, with their extents."""
        return self.func.domain if isinstance(self.func, BlockBody) else ()

    @property
    def names(self) -> frozenset[str]:
        """The names of all blocks, including those inside blocks and those around the program."""
        own = frozenset(realize.block.name for realize in realizes(self.func.body))
        return own | self.func.taken if isinstance(self.func, BlockBody) else own

    @property
    def carried(self) -> list[CarriedRead]:
        """The reads of buffers by blocks that run no later than a block that writes them, in program order."""
        if self._carried is None:
            self._carried = carried_reads(self.func.body, self.blocks.values())
        return self._carried

    def ancestors(self, node: Stmt) -> list[For]:
        """Return the loops around a node, outermost first."""
        found: list[For] = []
        parents = self.parents
        up = parents.get(id(node))
        while up is not None:
            if isinstance(up, For):
                found.append(up)
            up = parents.get(id(up))
        found.reverse()
        return found

    def is_under(self, node: Stmt, above: Stmt) -> bool:
        """Check if `node` is `above` or below it."""
        here: Stmt | None = node
        while here is not None:
            if here is above:
                return True
            here = self.parents.get(id(here))
        return False

    def child_of(self, above: For, node: Stmt) -> Stmt:
        """Return the direct statement of the loop's body that contains `node`."""
        here = node
        while True:
            up = self.parents[id(here)]
            if up is above or (isinstance(up, Seq) and self.parents.get(id(up)) is above):
                return here
            here = up

    def top_of(self, node: Stmt) -> Stmt:
        """Return the top-level statement of the function that contains `node`."""
        here = node
        while (up := self.parents.get(id(here))) is not None:
            if isinstance(up, Seq) and id(up) not in self.parents:
                return here
            here = up
        return here

    def writers(self, buffer: Buffer) -> list[BlockRealize]:
        return [r for r in self.blocks.values() if any(w.buffer is buffer for w in r.block.writes)]

    def readers(self, buffer: Buffer) -> list[BlockRealize]:
        return [r for r in self.blocks.values() if any(w.buffer is buffer for w in r.block.reads)]

    def replace(self, old: Stmt, new: Stmt | None) -> Function:
        """Return the function with `old` replaced; None removes it, with all loops that would become empty."""
        parents = self.parents
        up = parents.get(id(old))
        while new is None and isinstance(up, For | If | Alloc):
            old = up
            up = parents.get(id(old))
        while up is not None:
            above = parents.get(id(up))
            if isinstance(up, For):
                assert new is not None
                old, new = up, up.with_body(new)
            elif isinstance(up, Seq):
                rest = [s if s is not old else new for s in up.stmts]
                old, new = up, seq(*(s for s in rest if s is not None))
            elif isinstance(up, If):
                assert new is not None
                old, new = up, replace(up, then=new)
            elif isinstance(up, Alloc):
                assert new is not None
                old, new = up, Alloc(up.buffer, new)
            up = above
        if new is None:
            raise ScheduleError(
                f"{self.func.name}: removing its last block would leave an empty program", "leave the block where it is"
            )
        return self.func.with_body(new)


def children(loop: For) -> tuple[Stmt, ...]:
    """Return the statements of a loop's body."""
    return loop.body.stmts if isinstance(loop.body, Seq) else (loop.body,)


def nested(body: Stmt, loops: Sequence[For], fresh: Mapping[Var, Var] = _OWN) -> Stmt:
    """Return the loops around other statements, some of them with fresh variables."""
    for x in reversed(loops):
        body = For(fresh.get(x.var, x.var), x.extent, body, x.kind, x.annotations)
    return body


def annotations_of(node: For | BlockRealize) -> tuple[Annotation, ...]:
    """Return the annotations of a loop or a block."""
    return node.annotations if isinstance(node, For) else node.block.annotations


def annotated(node: For | BlockRealize, key: str, value: Any = None) -> For | BlockRealize:
    """Return the loop or block with another annotation for a key, or without one."""
    kept = tuple(note for note in annotations_of(node) if note[0] != key)
    notes = kept if value is None else (*kept, (key, value))
    if isinstance(node, For):
        return replace(node, annotations=notes)
    return replace(node, block=replace(node.block, annotations=notes))


def with_allocs(func: Function, add: tuple[Buffer, ...] = (), drop: tuple[Buffer, ...] = ()) -> Function:
    """Return the function with other intermediate buffers."""
    kept = tuple(b for b in func.allocs if b not in drop)
    return replace(func, allocs=kept + add)
