"""Helpers for writing the descriptions and statements of intrinsics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pegbox.compute.tensor import Tensor
from pegbox.expr.build import index
from pegbox.expr.low_level import VectorLoad
from pegbox.expr.nodes import Buffer, Expr, Var
from pegbox.loops.from_compute import function_from_tensors
from pegbox.loops.nodes import For, ForKind, Function, Stmt
from pegbox.loops.visit import map_blocks


def described_update(name: str, *tensors: Tensor) -> Function:
    """Return the program that computes the last tensor, a sum, without initializing it."""
    func = function_from_tensors(tensors, name)
    return func.with_body(map_blocks(func.body, lambda r: replace(r, block=replace(r.block, init=None))))


def loop(name: str, extent: int, body: Callable[[Expr], Stmt], kind: ForKind = ForKind.SERIAL) -> Stmt:
    """Return a loop around the statement that `body` makes for its variable; no loop for a single iteration."""
    if extent == 1:
        return body(index(0))
    var = Var(name)
    return For(var, extent, body(var), kind)


def vector(buffer: Buffer, *indices: Expr | int, lanes: int) -> VectorLoad:
    """Load neighbouring elements as one vector."""
    return VectorLoad(buffer, tuple(index(i) if isinstance(i, int) else i for i in indices), lanes)
