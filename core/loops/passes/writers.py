"""Buffers that several blocks write, each a part of its own.

A test that keeps a block inside of its domain may go where nobody reads what lies beyond. With one way of writing a
buffer that is so: beyond the domain is beyond what anybody may read. Where blocks write parts of one buffer (the halves
of a concatenation), beyond the part of one lies that of another.
"""

from __future__ import annotations

from collections.abc import Iterator

from pegbox.expr.equal import same
from pegbox.expr.nodes import Buffer, Expr, Var
from pegbox.expr.visit import substitute
from pegbox.loops.access.region import written
from pegbox.loops.nodes import Block, Function, Region, Stmt
from pegbox.loops.visit import realizes, walk_nest

_Form = tuple[tuple[int, ...], tuple[Expr, ...]]


def written_in_parts(func: Function) -> set[Buffer]:
    """The intermediates that are written in more than one way."""
    intermediates, forms, found = set(func.allocs), dict[Buffer, _Form](), set[Buffer]()
    places: list[Var] = []
    for realize in realizes(func.body):
        for region in _writes(realize.block.body):
            buffer = region.buffer
            if buffer not in intermediates or _is_whole(realize.block, region):
                continue
            form = _form(realize.block, region, places)
            if not _agree(forms.setdefault(buffer, form), form):
                found.add(buffer)
    # Whole buffers and parts of them do not go together either.
    whole = {r.buffer for b in realizes(func.body) for r in _writes(b.block.body) if _is_whole(b.block, r)}
    return found | {buffer for buffer in forms if buffer in whole}


def _writes(stmt: Stmt) -> Iterator[Region]:
    """Yield the regions that a block's own statements write, without those of blocks inside."""
    return (region for s in walk_nest(stmt) for region in written(s))


def _is_whole(block: Block, region: Region) -> bool:
    """Does each spatial variable run over a whole dimension? Beyond its domain is then beyond the buffer."""
    places = {lo: extent for (lo, count), extent in zip(region.box, region.buffer.shape, strict=True) if count == 1}
    return all(it.is_reduce or places.get(it.var) == it.extent for it in block.iters)


def _form(block: Block, region: Region, places: list[Var]) -> _Form:
    """Extents of the spatial variables, and where is written in terms of the first, second ... of them."""
    spatial = [it for it in block.iters if not it.is_reduce]
    places.extend(Var(f"v{n}") for n in range(len(places), len(spatial)))
    names: dict[Var, Expr] = {it.var: place for it, place in zip(spatial, places, strict=False)}
    return tuple(it.extent for it in spatial), tuple(substitute(lo, names) for lo, _ in region.box)


def _agree(a: _Form, b: _Form) -> bool:
    return a[0] == b[0] and all(map(same, a[1], b[1]))
