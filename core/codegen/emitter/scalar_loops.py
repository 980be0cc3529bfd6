"""Scalar loops: whether a program leaves the second half of LLVM's optimizer something to do.

That half begins with the vectorization of innermost loops without vector instructions, and unrolls those that it cannot
vectorize, such as sums of floats, which keep their order. Where the schedule vectorized all that computes, it changes
next to nothing, and takes as long as the first half, in which LLVM simplifies each function and writes short loops out.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import NamedTuple

from pegbox.expr import dtypes
from pegbox.expr.nodes import Const, Expr, Load, Select, Var
from pegbox.expr.visit import free_vars, loads
from pegbox.loops.nodes import For, ForKind, Function, If, Stmt, Store
from pegbox.loops.visit import children

MOST_BRANCHES = 512
"""Branches of a function that the second half may see: its time grows faster than their number, to seconds here."""
MOST_WRITTEN_OUT = 64  # iterations that LLVM writes out in the first half, more or less


class _Work(NamedTuple):
    """A scalar store, and the conditions that it is under."""

    store: Store
    is_copy: bool
    conditions: tuple[Expr, ...]


class _Inside(NamedTuple):
    """What a statement holds: whether anything is a vector, iterations that remain, work that is scalar."""

    vectors: bool = False
    iterations: int = 1
    work: tuple[_Work, ...] = ()
    found: bool = False


def has_scalar_loops(func: Function, written_out: Set[Var]) -> bool:
    """Is there a loop for LLVM to vectorize, or to unroll? The emitter unrolls the serial loops of `written_out`."""
    return _visit(func.body, func, written_out, ()).found


def _visit(stmt: Stmt, func: Function, written_out: Set[Var], conditions: tuple[Expr, ...]) -> _Inside:
    if isinstance(stmt, Store):
        if dtypes.lanes(stmt.value.dtype):
            return _Inside(vectors=True)
        return _Inside(work=(_Work(stmt, stmt.buffer not in func.outputs and _copies(stmt.value), conditions),))
    if isinstance(stmt, For) and stmt.kind is ForKind.VECTORIZED and stmt.extent > 1:
        return _Inside(vectors=True)
    if isinstance(stmt, If):
        conditions = (*conditions, stmt.condition)
    parts = [_visit(child, func, written_out, conditions) for child in children(stmt)]
    inside = parts[0] if len(parts) == 1 else _together(parts)
    if inside.found or not isinstance(stmt, For) or stmt.extent == 1:
        return inside
    if stmt.kind in (ForKind.UNROLLED, ForKind.VECTORIZED) or stmt.var in written_out:
        return inside
    iterations = inside.iterations * stmt.extent
    found = not inside.vectors and any(_counts(work, stmt.var, iterations) for work in inside.work)
    return inside._replace(iterations=iterations, found=found)


def _together(parts: list[_Inside]) -> _Inside:
    return _Inside(
        any(part.vectors for part in parts),
        max((part.iterations for part in parts), default=1),
        tuple(work for part in parts for work in part.work),
        any(part.found for part in parts),
    )


def _copies(value: Expr) -> bool:
    """Is the value loaded, or a number, or one of both, as in padding?"""
    if isinstance(value, Select):
        return _copies(value.a) and _copies(value.b)
    return isinstance(value, Load | Const)


def _counts(work: _Work, var: Var, iterations: int) -> bool:
    """Is a loop over the work one to vectorize or unroll? A short sum into one element is written out before.

    Of copies to buffers of the program's own, only those count that have a condition and run along rows: what is
    strided stays scalar, and what has no condition is a call of memcpy by then.
    """
    store = work.store
    if not work.is_copy:
        return iterations > MOST_WRITTEN_OUT or _uses(store.indices, var)
    chosen = (store.value.cond,) if isinstance(store.value, Select) else ()
    along = (store.indices, *(load.indices for load in loads(store.value)))
    return _uses((*work.conditions, *chosen), var) and all(_is_last(indices, var) for indices in along)


def _uses(exprs: Iterable[Expr], var: Var) -> bool:
    return any(var in free_vars(expr) for expr in exprs)


def _is_last(indices: tuple[Expr, ...], var: Var) -> bool:
    """Does the variable run along rows? Indices that multiply it are rare and no harm."""
    return _uses(indices[-1:], var) and not _uses(indices[:-1], var)
