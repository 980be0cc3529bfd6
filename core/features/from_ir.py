"""Loop nests for features, made from a scheduled program with blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pegbox.expr.nodes import Var
from pegbox.features.index import Loop, Sum, index_of
from pegbox.features.nest import Nest, Statement, statements_of, unroll_steps
from pegbox.features.rolls import rolled_extents
from pegbox.features.symbol import Quantity
from pegbox.features.traced import quantity
from pegbox.loops.nodes import Alloc, BlockRealize, For, Function, If, Seq, Stmt


def nest_of_function(func: Function) -> Nest:
    """Make the nest of a scheduled function."""
    return Nest(tuple(_statements(func.body, (), {}, rolled_extents(func))), func.params)


def _statements(
    stmt: Stmt, loops: tuple[Loop, ...], values: Mapping[Var, Sum], rolled: Mapping[Var, Quantity]
) -> Iterator[Statement]:
    match stmt:
        case For(var, extent, body, kind, annotations):
            loop = Loop(var.name, rolled.get(var, quantity(extent)), kind, unroll_steps(dict(annotations)))
            yield from _statements(body, (*loops, loop), {**values, var: Sum(((loop, 1),))}, rolled)
        case Seq(stmts):
            for each in stmts:
                yield from _statements(each, loops, values, rolled)
        case If(_, body) | Alloc(_, body):
            yield from _statements(body, loops, values, rolled)
        case BlockRealize(bound, block):
            at = [index_of(value, values) for value in bound]
            yield from statements_of(block, at, loops)
        case _:
            return
