"""Private copies: a buffer that a thread keeps across a barrier gets a copy for each thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from pegbox.expr.nodes import Buffer, Load, Var
from pegbox.expr.visit import in_front, loads
from pegbox.loops.nodes import BlockIter, BlockRealize, Evaluate, For, IterKind, Stmt
from pegbox.loops.visit import expressions, map_blocks, redirect, walk


@dataclass(frozen=True)
class Copies:
    """A buffer with one copy for each iteration of `loops`."""

    buffer: Buffer
    loops: tuple[For, ...]

    @classmethod
    def of(cls, old: Buffer, loops: tuple[For, ...]) -> Copies:
        return cls(Buffer(old.name, (*(x.extent for x in loops), *old.shape), old.dtype, old.scope), loops)


def _loads(realize: BlockRealize) -> Iterator[Load]:
    parts = (realize.block.body,) if realize.block.init is None else (realize.block.init, realize.block.body)
    return (load for part in parts for node in walk(part) for e in expressions(node) for load in loads(e))


def is_plain(realize: BlockRealize) -> bool:
    """Are the block's accesses all ordinary loads and stores of its own?"""
    special = any(isinstance(node, Evaluate | BlockRealize) for node in walk(realize.block.body))
    return not special and all(type(load) is Load for load in _loads(realize))


def is_pure(realize: BlockRealize) -> bool:
    """Does running the block again change nothing?"""
    own = {region.buffer for region in realize.block.writes}
    return (
        is_plain(realize) and not realize.block.is_reduction and not any(load.buffer in own for load in _loads(realize))
    )


def with_copies(stmt: Stmt, copies: Mapping[Buffer, Copies]) -> Stmt:
    """Let each thread use its own copy of some buffers."""
    return map_blocks(stmt, lambda realize: _own(realize, copies)) if copies else stmt


def _own(realize: BlockRealize, copies: Mapping[Buffer, Copies]) -> BlockRealize:
    regions = (*realize.block.reads, *realize.block.writes)
    used = {region.buffer: copies[region.buffer] for region in regions if region.buffer in copies}
    if not used:
        return realize
    loops = dict.fromkeys(loop for each in used.values() for loop in each.loops)
    iters = {loop: BlockIter(Var(f"v{loop.var.name}"), loop.extent, IterKind.SPATIAL) for loop in loops}
    place = {old: (each.buffer, in_front(*(iters[loop].var for loop in each.loops))) for old, each in used.items()}
    inner = redirect(realize, place)
    assert isinstance(inner, BlockRealize)
    block = replace(inner.block, iters=(*iters.values(), *inner.block.iters))
    return BlockRealize((*(loop.var for loop in loops), *inner.values), block, inner.predicate)
