"""Rewrites of compute_inline and reverse_compute_inline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pegbox.expr import dtypes
from pegbox.expr.bounds import Ranges
from pegbox.expr.build import ZERO, cast
from pegbox.expr.index_layout import Layout
from pegbox.expr.index_map import IndexMap
from pegbox.expr.low_level import EXTERN, PREFETCH
from pegbox.expr.nodes import Buffer, Call, Expr, Load, Var
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import loads, rewrite, substitute, walk
from pegbox.loops.nodes import Alloc, Block, BlockRealize, For, If, Seq, Store
from pegbox.loops.visit import expressions
from pegbox.loops.visit import walk as statements


@dataclass(frozen=True, slots=True)
class Element:
    """The value of a block as a function of the `indices` of an element: `value` over the block's variables."""

    variables: Sequence[Var]
    indices: Sequence[Expr]
    value: Expr
    places: Sequence[Var]
    back: Sequence[Expr]  # the variables as functions of places

    def at(self, indices: Sequence[Expr], ranges: Ranges) -> Expr:
        """Return the value of the element at these indices, whose variables have the given `ranges`."""
        here = dict(zip(self.places, indices, strict=True))
        mapping = {v: substitute(b, here) for v, b in zip(self.variables, self.back, strict=True)}
        inlined = substitute(self.value, mapping)
        # Replacing plain variables by plain variables leaves nothing to simplify.
        return inlined if all(isinstance(i, Var) for i in mapping.values()) else simplify(inlined, ranges)


def element(block: Block, indices: Sequence[Expr], value: Expr) -> Element:
    """Return a block's value as a function of the `indices`, which must determine the block's variables.

    Raises:
        ExprError: they do not.
    """
    variables = tuple(it.var for it in block.iters)
    if all(any(i is v for v in variables) for i in indices) and len(set(indices)) == len(indices) == len(variables):
        places = tuple(i for i in indices if isinstance(i, Var))
        return Element(variables, indices, value, places, variables)
    if not indices and all(it.extent == 1 for it in block.iters):
        return Element(variables, (), value, (), [ZERO] * len(variables))
    found = layout(block, indices)
    return Element(variables, indices, value, found.places, found.inverse().final_indices)


def layout(block: Block, indices: Sequence[Expr]) -> Layout:
    """Derive the layout in which the iterations of a block store.

    Raises:
        ExprError: several iterations store in one place, or the indices are not affine.
    """
    return IndexMap([it.var for it in block.iters], indices).layout([it.extent for it in block.iters])


def plain_store(block: Block) -> Store | str:
    """Return the only statement of a block that just stores an element; or the reason that there is none."""
    body = block.body
    if block.is_reduction or block.init is not None:
        return "it is a reduction"
    if any(isinstance(s, For | BlockRealize) for s in statements(body)):
        return "it holds loops or blocks of its own"
    if not isinstance(body, Store):
        return "it has several outputs or conditional ones"
    if dtypes.lanes(body.value.dtype):
        return "it stores whole vectors"
    if any(load.buffer is body.buffer for load in loads(body.value)):
        return f"it reads {body.buffer.name} itself"
    calls = any(isinstance(e, Call) and e.name.startswith((EXTERN, PREFETCH)) for e in walk(body.value))
    if calls or any(type(load) is not Load for load in loads(body.value)):
        return "it calls machine code"
    return body


def uses(block: Block, buffer: Buffer) -> list[Load] | str:
    """List the loads of a flat block from the buffer; or return the reason that they cannot be found."""
    parts = [block.body] if block.init is None else [block.init, block.body]
    found: list[Load] = []
    for stmt in (s for part in parts for s in statements(part)):
        if not isinstance(stmt, Store | If | Seq | Alloc):
            return "it holds loops, blocks or calls of its own"
        found += [load for expr in expressions(stmt) for load in loads(expr) if load.buffer is buffer]
    if any(type(load) is not Load for load in found):
        return f"it hands {buffer.name} to machine code"
    return found


def replaced(expr: Expr, buffer: Buffer, how: Element, ranges: Ranges) -> Expr:
    """Replace loads from the buffer by values."""

    def leaf(e: Expr) -> Expr | None:
        if isinstance(e, Load) and e.buffer is buffer:
            return cast(buffer.dtype, how.at([rewrite(i, leaf) for i in e.indices], ranges))
        return None

    return rewrite(expr, leaf)
