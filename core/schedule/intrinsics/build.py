"""Helpers to write the descriptions and statements of intrinsics."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pegbox.expr.build import TRUE, index
from pegbox.expr.low_level import VectorLoad
from pegbox.expr.nodes import Buffer, Expr, Load, Var
from pegbox.loops.access.region import reads_and_writes
from pegbox.loops.nodes import Block, BlockIter, BlockRealize, For, ForKind, Function, IterKind, Stmt, Store


def described_update(
    name: str,
    params: Sequence[Buffer],
    extents: dict[str, int],
    reduce: str,
    term: Callable[[dict[str, Expr]], tuple[tuple[Expr, ...], Expr]],
) -> Function:
    """A nest that adds a product to each element of the last parameter.

    Args:
        extents: the loops, outermost first; `reduce` names the one that adds up.
        term: from the block's variables by name: the indices of the element, and what is added to it.
    """
    iters = [
        BlockIter(Var(f"v{n}"), extent, IterKind.REDUCE if n == reduce else IterKind.SPATIAL)
        for n, extent in extents.items()
    ]
    indices, value = term({n: it.var for n, it in zip(extents, iters, strict=True)})
    out = params[-1]
    body = Store(out, indices, Load(out, indices) + value)
    reads, writes = reads_and_writes(body)
    loops = [Var(n) for n in extents]
    nest: Stmt = BlockRealize(tuple(loops), Block("update", tuple(iters), reads, writes, body), TRUE)
    for var, extent in reversed(list(zip(loops, extents.values(), strict=True))):
        nest = For(var, extent, nest)
    return Function(name, tuple(params), (out,), nest)


def loop(name: str, extent: int, body: Callable[[Expr], Stmt], kind: ForKind = ForKind.SERIAL) -> Stmt:
    """A loop around what `body` gives for its variable; none around a single iteration."""
    if extent == 1:
        return body(index(0))
    var = Var(name)
    return For(var, extent, body(var), kind)


def vector(buffer: Buffer, *indices: Expr | int, lanes: int) -> VectorLoad:
    """Neighbours as one value."""
    return VectorLoad(buffer, tuple(index(i) if isinstance(i, int) else i for i in indices), lanes)
