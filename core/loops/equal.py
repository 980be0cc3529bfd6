"""Structural equality of programs, up to the names of variables.

Names of functions, parameters, buffers and blocks count, for people look things up by them; names of loops and of block
variables do not. Buffers correspond by their place. Where a program came from (`origins`) does not count either.
"""

from __future__ import annotations

from collections.abc import Sequence

from pegbox.expr.equal import same_number
from pegbox.expr.low_level import Stride
from pegbox.expr.nodes import Binary, Buffer, Call, Compare, Const, Expr, Load, Logic, Var
from pegbox.expr.visit import children as operands
from pegbox.loops.module import IRModule
from pegbox.loops.nodes import (
    Alloc,
    Annotation,
    Block,
    BlockIter,
    BlockRealize,
    Evaluate,
    For,
    Function,
    If,
    Region,
    Seq,
    Stmt,
    Store,
)
from pegbox.loops.reductions.combiner import combiner_of


def structural_equal(a: object, b: object, *, labels: bool = True) -> bool:
    """Equality of two statements, functions or modules up to the names of their variables.

    Variables and buffers that come from outside what is compared have to be the same ones.

    Args:
        labels: blocks, buffers and functions must be called the same too.
    """
    if a is b:
        return True
    if isinstance(a, IRModule) and isinstance(b, IRModule):
        return set(a.functions) == set(b.functions) and all(
            structural_equal(a[name], b[name], labels=labels) for name in a
        )
    if isinstance(a, Function) and isinstance(b, Function):
        return _Comparison(labels).functions(a, b)
    return isinstance(a, Stmt) and isinstance(b, Stmt) and _Comparison(labels).stmts(a, b)


class _Comparison:
    """What corresponds to what: variables and buffers of the left program by those of the right one, and back."""

    def __init__(self, labels: bool) -> None:
        self.labels = labels
        self.right: dict[Var | Buffer, Var | Buffer] = {}
        self.left: dict[Var | Buffer, Var | Buffer] = {}

    def same_label(self, a: Function | Block | Buffer, b: Function | Block | Buffer) -> bool:
        return a.name == b.name or not self.labels

    def bind(self, a: Var | Buffer, b: Var | Buffer) -> None:
        self.right[a] = b
        self.left[b] = a

    def bind_buffers(self, a: Sequence[Buffer], b: Sequence[Buffer]) -> bool:
        if len(a) != len(b):
            return False
        for x, y in zip(a, b, strict=True):
            if (x.shape, x.dtype, x.scope) != (y.shape, y.dtype, y.scope) or not self.same_label(x, y):
                return False
            self.bind(x, y)
        return True

    def corresponds(self, a: Var | Buffer, b: Var | Buffer) -> bool:
        return self.right.get(a, a) is b and self.left.get(b, b) is a

    def functions(self, a: Function, b: Function) -> bool:
        return (
            self.same_label(a, b)
            and a.attrs == b.attrs
            and self.bind_buffers(a.params, b.params)
            and self.bind_buffers(a.allocs, b.allocs)
            and len(a.outputs) == len(b.outputs)
            and all(map(self.corresponds, a.outputs, b.outputs))
            and self.stmts(a.body, b.body)
        )

    def stmts(self, a: Stmt, b: Stmt) -> bool:
        if type(a) is not type(b):
            return False
        match a, b:
            case For(), For():
                if (a.extent, a.kind) != (b.extent, b.kind) or not _same_notes(a.annotations, b.annotations):
                    return False
                self.bind(a.var, b.var)
                return self.stmts(a.body, b.body)
            case Seq(), Seq():
                return len(a.stmts) == len(b.stmts) and all(map(self.stmts, a.stmts, b.stmts))
            case If(), If():
                return a.guard == b.guard and self.expr(a.condition, b.condition) and self.stmts(a.then, b.then)
            case Store(), Store():
                place = self.corresponds(a.buffer, b.buffer) and self.exprs(a.indices, b.indices)
                return place and self.expr(a.value, b.value)
            case Evaluate(), Evaluate():
                return self.expr(a.expr, b.expr)
            case Alloc(), Alloc():
                return self.bind_buffers((a.buffer,), (b.buffer,)) and self.stmts(a.body, b.body)
            case BlockRealize(), BlockRealize():
                bound = self.exprs(a.values, b.values) and self.expr(a.predicate, b.predicate)
                return bound and self.blocks(a.block, b.block)
            case _:
                raise TypeError(f"unknown statement {type(a).__name__}")

    def blocks(self, a: Block, b: Block) -> bool:
        if not self.same_label(a, b) or len(a.iters) != len(b.iters) or (a.init is None) != (b.init is None):
            return False
        return (
            all(map(self.iters, a.iters, b.iters))
            and self.regions(a.reads, b.reads)
            and self.regions(a.writes, b.writes)
            and (a.init is None or b.init is None or self.stmts(a.init, b.init))
            and self.stmts(a.body, b.body)
            and _same_block_notes(a, b, noted=self.labels)
        )

    def iters(self, a: BlockIter, b: BlockIter) -> bool:
        self.bind(a.var, b.var)
        return a.extent == b.extent and a.kind is b.kind

    def regions(self, a: Sequence[Region], b: Sequence[Region]) -> bool:
        return len(a) == len(b) and all(map(self.region, a, b))

    def region(self, a: Region, b: Region) -> bool:
        return self.corresponds(a.buffer, b.buffer) and all(
            m == n and self.expr(x, y) for (x, m), (y, n) in zip(a.box, b.box, strict=True)
        )

    def exprs(self, a: Sequence[Expr], b: Sequence[Expr]) -> bool:
        return len(a) == len(b) and all(map(self.expr, a, b))

    def expr(self, a: Expr, b: Expr) -> bool:
        if type(a) is not type(b) or a.dtype != b.dtype:
            return False
        match a, b:
            case Var(), Var():
                return self.corresponds(a, b)
            case Const(), Const():
                return same_number(a.value, b.value)
            case ((Binary() | Compare() | Logic()), (Binary() | Compare() | Logic())):
                same = a.op == b.op
            case Call(), Call():
                same = a.name == b.name
            case Load(), Load():
                same = self.corresponds(a.buffer, b.buffer) and _same_access(a, b)
            case Stride(), Stride():
                same = self.corresponds(a.buffer, b.buffer) and a.dim == b.dim
            case _:
                same = True
        return same and self.exprs(operands(a), operands(b))


def _same_access(a: Load, b: Load) -> bool:
    return a.box == b.box and getattr(a, "access", "") == getattr(b, "access", "")


def _same_notes(a: Sequence[Annotation], b: Sequence[Annotation]) -> bool:
    """Their order does not count."""
    return a == b or dict(a) == dict(b)


def _same_block_notes(a: Block, b: Block, *, noted: bool) -> bool:
    """A combiner that is plain to see need not be noted, and no combiner where notes do not count."""
    if a.annotations == b.annotations:
        return True
    left, right = ({k: v for k, v in block.annotations if k != "combiner"} for block in (a, b))
    return left == right and (not noted or combiner_of(a) == combiner_of(b))
