"""Loop nests for features: statements inside loops, and their accesses, from blocks and scheduled programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pegbox.compute.flop import operations
from pegbox.expr.nodes import Buffer, Load, Var
from pegbox.expr.visit import loads
from pegbox.features.circular_buffers import rolled_extents
from pegbox.features.index import Loop, Sum, index_of, joined
from pegbox.features.symbol import Quantity, product
from pegbox.features.traced import quantity
from pegbox.loops.nodes import Alloc, Block, BlockRealize, Evaluate, For, Function, If, Seq, Stmt, Store


@dataclass(frozen=True, eq=False)
class BufferAccess:
    """A read or write of a buffer by a statement, with an index per dimension."""

    buffer: Buffer
    indices: tuple[Sum, ...]
    is_write: bool


@dataclass(frozen=True, eq=False)
class Statement:
    """A computation in the innermost of some loops.

    Attributes:
        loops: the loops around it, outermost first; statements share loops.
        domain: the number of distinct points to compute.
        iters: the variables of the points: the value of each, and its number of values.
        operations: the arithmetic operations of one iteration.
    """

    name: str
    loops: tuple[Loop, ...]
    domain: Quantity
    iters: tuple[tuple[Sum, Quantity], ...]
    operations: int
    accesses: tuple[BufferAccess, ...]
    is_reduction: bool

    @property
    def written(self) -> list[Buffer]:
        return [access.buffer for access in self.accesses if access.is_write]

    def joined(self, others: Mapping[Loop, Loop]) -> Statement:
        """Replace loops by those into which they are merged."""
        return replace(
            self,
            loops=tuple(others.get(loop, loop) for loop in self.loops),
            iters=tuple((joined(value, others), extent) for value, extent in self.iters),
            accesses=tuple(
                replace(access, indices=tuple(joined(index, others) for index in access.indices))
                for access in self.accesses
            ),
        )


@dataclass(frozen=True, eq=False)
class Nest:
    """A program: its statements in order (for stages, the schedule's order), and the arguments' buffers, `params`."""

    statements: tuple[Statement, ...]
    params: tuple[Buffer, ...]


@dataclass
class _Body:
    """The computations inside the same loops within a block."""

    inner: tuple[Loop, ...]
    values: dict[Var, Sum]
    operations: int = 0
    accesses: list[BufferAccess] = field(default_factory=list)
    parts: list[_Body] = field(default_factory=list)

    def flat(self) -> Iterator[_Body]:
        if self.accesses:
            yield self
        for part in self.parts:
            yield from part.flat()


def statements_of(block: Block, values: Sequence[Sum], loops: Sequence[Loop]) -> list[Statement]:
    """Make the statements of a block whose variables have `values`, inside `loops`."""
    body = _Body((), dict(zip((it.var for it in block.iters), values, strict=True)))
    _collect(block.body, body)
    outer = tuple((value, quantity(it.extent)) for value, it in zip(values, block.iters, strict=True))
    found = []
    for part in body.flat():
        around, iters = (*loops, *part.inner), (*outer, *((Sum(((loop, 1),)), loop.extent) for loop in part.inner))
        domain, accesses = product(extent for _, extent in iters), tuple(part.accesses)
        found.append(Statement(block.name, around, domain, iters, part.operations, accesses, block.is_reduction))
    return found


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
            for load in loads(expr):  # foreign code may read them
                _touch(load, into, is_write=False)
        case _:
            raise TypeError(f"unknown statement {type(stmt).__name__}")


def _touch(load: Load, into: _Body, *, is_write: bool) -> None:
    indices = tuple(index_of(index, into.values) for index in load.indices)
    into.accesses.append(BufferAccess(load.buffer, indices, is_write))


def unroll_steps(annotations: Mapping[str, object]) -> Quantity:
    """Read the limit of the pragma "auto_unroll_max_step", 0 if there is none."""
    steps = annotations.get("pragma_auto_unroll_max_step", 0)
    return quantity(steps) if isinstance(steps, int) else 0


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
