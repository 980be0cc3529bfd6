"""Slow updates in memory, `x[i] += ...` by vectors: faults of programs that a model of their loops does not see."""

from __future__ import annotations

from collections.abc import Set

from pegbox.expr.affine import linear
from pegbox.expr.dtypes import nbytes
from pegbox.expr.nodes import Buffer
from pegbox.expr.visit import loads
from pegbox.loops.nodes import Alloc, For, ForKind, Function, If, Stmt, Store
from pegbox.loops.visit import walk


def has_masked_update(program: Function, vector_bytes: int) -> bool:
    """Check if a lowered program updates an intermediate in memory, `x[i] += ...`, by vectors under a mask.

    A load has to wait until the masked store before it has reached the cache, in each iteration of a reduction: such
    programs have about a tenth of the speed of others. Intermediates whose scope is local are kept in registers, unless
    their rows end inside a vector.
    """
    in_memory = {
        each.buffer
        for each in walk(program.body)
        if isinstance(each, Alloc) and (each.buffer.scope != "local" or _ends_inside(each.buffer, vector_bytes))
    }
    return any(
        _updates(test.then, in_memory)
        for loop in walk(program.body)
        if isinstance(loop, For) and loop.kind is ForKind.VECTORIZED
        for test in walk(loop.body)
        if isinstance(test, If)
    )


def has_narrow_update(program: Function, vector_bytes: int) -> bool:
    """Check if a lowered program updates less than half a vector at a time in long rows of an array in memory.

    Half vectors may be the best, where rows end soon. Narrower ones leave most of the machine idle. In registers they
    may be the columns of a tile.
    """
    return any(
        loop.extent * nbytes(store.buffer.dtype) * 2
        < vector_bytes
        <= store.buffer.shape[-1] * nbytes(store.buffer.dtype)
        for loop in walk(program.body)
        if isinstance(loop, For) and loop.kind is ForKind.VECTORIZED
        for store in walk(loop.body)
        if isinstance(store, Store)
        and store.buffer.scope != "local"
        and store.indices
        and linear(store.indices[-1]).coefficient(loop.var) == 1
        and _is_update(store)
    )


def _updates(body: Stmt, buffers: Set[Buffer]) -> bool:
    return any(isinstance(each, Store) and each.buffer in buffers and _is_update(each) for each in walk(body))


def _is_update(store: Store) -> bool:
    return any(load.buffer is store.buffer for load in loads(store.value))


def _ends_inside(buffer: Buffer, vector_bytes: int) -> bool:
    """Check if a row of the buffer is longer than a vector, and no multiple of it."""
    row = buffer.shape[-1] * nbytes(buffer.dtype) if buffer.shape else 0
    return row > vector_bytes and row % vector_bytes != 0
