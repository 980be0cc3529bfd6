"""Loop nests for features, made from a scheduled program with blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pegbox.expr.nodes import Var
from pegbox.features.index import Loop, Sum, index_of
from pegbox.features.nest import Nest, Statement
from pegbox.features.statements import statements_of, unroll_steps
from pegbox.features.traced import quantity
from pegbox.loops.nodes import Alloc, BlockRealize, For, Function, If, Seq, Stmt


def nest_of_function(func: Function) -> Nest:
    """The nest of a scheduled function."""
    return Nest(tuple(_statements(func.body, (), {})), func.params)


def _statements(stmt: Stmt, loops: tuple[Loop, ...], values: Mapping[Var, Sum]) -> Iterator[Statement]:
    match stmt:
        case For(var, extent, body, kind, annotations):
            loop = Loop(var.name, quantity(extent), kind, unroll_steps(dict(annotations)))
            yield from _statements(body, (*loops, loop), {**values, var: Sum(((loop, 1),))})
        case Seq(stmts):
            for each in stmts:
                yield from _statements(each, loops, values)
        case If(_, body) | Alloc(_, body):
            yield from _statements(body, loops, values)
        case BlockRealize(bound, block):
            at = [index_of(value, values) for value in bound]
            yield from statements_of(block, at, loops)
        case _:
            return
