"""Copies of statements with new loops, variables and buffers, and renamed blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pegbox.expr.nodes import Buffer, Expr, Var
from pegbox.loops.nodes import Alloc, BlockRealize, For, Stmt
from pegbox.loops.visit import map_children, replace_buffer, substitute_vars, walk


def fresh_copy(stmt: Stmt, rename: Callable[[str], str]) -> Stmt:
    """Copy the statements with fresh loops, block variables and allocations; `rename` gives blocks their names.

    Buffers that are allocated elsewhere stay.
    """
    own = {s.buffer for s in walk(stmt) if isinstance(s, Alloc)}
    fresh = {b: Buffer(b.name, b.shape, b.dtype, b.scope) for b in own}
    bound = [s.var for s in walk(stmt) if isinstance(s, For)]
    bound += [it.var for s in walk(stmt) if isinstance(s, BlockRealize) for it in s.block.iters]
    variables = {var: var.copy() for var in bound}
    values: dict[Var, Expr] = {old: new for old, new in variables.items()}  # noqa: C416  (widens the value type)

    def go(s: Stmt) -> Stmt:
        inner = map_children(s, go)
        match inner:
            case For(var, extent, body, kind, notes):
                return For(variables[var], extent, body, kind, notes)
            case BlockRealize(bindings, block, predicate):
                iters = tuple(replace(it, var=variables[it.var]) for it in block.iters)
                return BlockRealize(bindings, replace(block, name=rename(block.name), iters=iters), predicate)
            case _:
                return inner

    return replace_buffer(substitute_vars(go(stmt), values), fresh)
