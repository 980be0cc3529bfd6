"""Slow updates in memory, `x[i] += ...` by vectors: flaws of programs that a model of their loops does not see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set

from pegbox.expr.affine import linear
from pegbox.expr.dtypes import nbytes
from pegbox.expr.nodes import Buffer
from pegbox.expr.visit import loads
from pegbox.loops.nodes import Alloc, For, ForKind, Function, If, Stmt, Store
from pegbox.loops.visit import children, walk

_ENDS = 3
"""The most whole vectors in a row for which a narrow one at its end still matters."""


def has_masked_update(program: Function, vector_bytes: int) -> bool:
    """Check if a lowered program updates an intermediate in memory, `x[i] += ...`, by vectors under a mask.

    In each iteration of a reduction, a load must wait until the preceding masked store has reached the cache: such
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

    Half vectors may be the best if rows are short. Narrower ones leave most of the machine idle, unless they are the
    ends of long rows. In registers, they may be the columns of a tile.
    """
    narrow, whole = Counter[Buffer](), Counter[Buffer]()
    for loop, store, runs in _vector_updates(program.body):
        itemsize = nbytes(store.buffer.dtype)
        if vector_bytes <= store.buffer.shape[-1] * itemsize:
            (narrow if loop.extent * itemsize * 2 < vector_bytes else whole)[store.buffer] += runs
    return any(count * _ENDS >= whole[buffer] for buffer, count in narrow.items())


def _vector_updates(stmt: Stmt, runs: int = 1) -> Iterator[tuple[For, Store, int]]:
    """Yield the updates of neighbours in memory, each with its vectorized loop, and how often that runs."""
    if isinstance(stmt, For) and stmt.kind is ForKind.VECTORIZED:
        stores = (each for each in walk(stmt.body) if isinstance(each, Store) and each.buffer.scope != "local")
        for store in stores:
            if store.indices and linear(store.indices[-1]).coefficient(stmt.var) == 1 and _is_update(store):
                yield stmt, store, runs
    for child in children(stmt):
        yield from _vector_updates(child, runs * stmt.extent if isinstance(stmt, For) else runs)


def _updates(body: Stmt, buffers: Set[Buffer]) -> bool:
    return any(isinstance(each, Store) and each.buffer in buffers and _is_update(each) for each in walk(body))


def _is_update(store: Store) -> bool:
    return any(load.buffer is store.buffer for load in loads(store.value))


def _ends_inside(buffer: Buffer, vector_bytes: int) -> bool:
    """Check if a row of the buffer is longer than a vector, but not a multiple of it."""
    row = buffer.shape[-1] * nbytes(buffer.dtype) if buffer.shape else 0
    return row > vector_bytes and row % vector_bytes != 0
