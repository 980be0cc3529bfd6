"""Statements of a loop nest, made from blocks: what they access and compute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pegbox.compute.flop import operations
from pegbox.expr.nodes import Load, Var
from pegbox.expr.visit import loads
from pegbox.features.index import Loop, Sum, index_of
from pegbox.features.nest import Reference, Statement
from pegbox.features.symbol import Quantity, product
from pegbox.features.traced import quantity
from pegbox.loops.nodes import Alloc, Block, BlockRealize, Evaluate, For, If, Seq, Stmt, Store


@dataclass
class _Body:
    """What stands in one place: below the loops that a block has inside of it, if any."""

    inner: tuple[Loop, ...]
    values: dict[Var, Sum]
    operations: int = 0
    accesses: list[Reference] = field(default_factory=list)
    parts: list[_Body] = field(default_factory=list)

    def flat(self) -> Iterator[_Body]:
        if self.accesses:
            yield self
        for part in self.parts:
            yield from part.flat()


def statements_of(block: Block, values: Sequence[Sum], loops: Sequence[Loop]) -> list[Statement]:
    """The statements of a block whose variables have `values`, inside of `loops`."""
    body = _Body((), dict(zip((it.var for it in block.iters), values, strict=True)))
    _collect(block.body, body)
    iters = tuple((value, quantity(it.extent)) for value, it in zip(values, block.iters, strict=True))
    return [_statement(block, part, loops, iters) for part in body.flat()]


def _statement(block: Block, part: _Body, loops: Sequence[Loop], iters: tuple[tuple[Sum, Quantity], ...]) -> Statement:
    own = tuple((Sum(((loop, 1),)), loop.extent) for loop in part.inner)
    return Statement(
        block.name,
        (*loops, *part.inner),
        product(extent for _, extent in (*iters, *own)),
        (*iters, *own),
        part.operations,
        tuple(part.accesses),
        block.is_reduction,
    )


def _collect(stmt: Stmt, into: _Body) -> None:
    match stmt:
        case Seq(stmts):
            for each in stmts:
                _collect(each, into)
        case If(_, body) | Alloc(_, body):
            _collect(body, into)
        case For(var, extent, body, kind):
            loop = Loop(var.name, quantity(extent), kind)
            part = _Body((*into.inner, loop), {**into.values, var: Sum(((loop, 1),))})
            _collect(body, part)
            into.parts.append(part)
        case BlockRealize(values, block):
            bound = {it.var: index_of(e, into.values) for it, e in zip(block.iters, values, strict=True)}
            part = _Body(into.inner, {**into.values, **bound})
            _collect(block.body, part)
            into.parts.append(part)
        case Store(buffer, indices, value):
            _touch(Load(buffer, indices), into, is_write=True)
            for load in (*loads(value), *(load for i in indices for load in loads(i))):
                _touch(load, into, is_write=False)
            into.operations += operations(value)
        case Evaluate(expr):
            for load in loads(expr):  # what foreign code reads counts, as far as it is told by loads
                _touch(load, into, is_write=False)
        case _:
            raise TypeError(f"unknown statement {type(stmt).__name__}")


def _touch(load: Load, into: _Body, *, is_write: bool) -> None:
    indices = tuple(index_of(index, into.values) for index in load.indices)
    into.accesses.append(Reference(load.buffer, indices, is_write))


def unroll_steps(annotations: Mapping[str, object]) -> Quantity:
    """The limit that the pragma "auto_unroll_max_step" gives, 0 where there is none."""
    steps = annotations.get("pragma_auto_unroll_max_step", 0)
    return quantity(steps) if isinstance(steps, int) else 0
