"""Pass: store intermediates in an output, at the elements that are computed from them.

    for i in range(8):                       for i in range(8):
        P = alloc(float32[16])
        for j in range(16):                      for j in range(16):
            P[j] = exp(A[i, j])                      B[i, j] = exp(A[i, j])
            s[0] = s[0] + P[j]         =>            s[0] = s[0] + B[i, j]
        for j in range(16):                      for j in range(16):
            B[i, j] = P[j] / s[0]                    B[i, j] = B[i, j] / s[0]

Fewer rows compete for the first-level cache, and the second loop writes lines that are in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from pegbox.errors import LoweringError
from pegbox.expr.bounds import Ranges
from pegbox.expr.equal import same
from pegbox.expr.nodes import Buffer, Var
from pegbox.loops.access.access import Access, accesses
from pegbox.loops.access.interval import SymbolicInterval, interval, relaxation
from pegbox.loops.nodes import For, Function, Stmt
from pegbox.loops.visit import common_path, loop_ranges, replace_buffer


def share_storage(func: Function, homes: Mapping[str, str]) -> Function:
    """Store the named buffers in outputs. This runs before buffers get their size.

    Raises:
        LoweringError: values would be lost.
    """
    for name, home in homes.items():
        buffer = next((b for b in func.allocs if b.name == name), None)
        target = next((b for b in func.params if b.name == home), None)
        if buffer is None or target is None:
            raise LoweringError(f"{name} is stored in {home}: they are not an intermediate and a parameter")
        problem = _problem(func.body, buffer, target)
        if problem:
            raise LoweringError(f"{name} is stored in {home}, but {problem}; give {name} a buffer of its own")
        body = replace_buffer(func.body, {buffer: target})
        func = replace(func, body=body, allocs=tuple(b for b in func.allocs if b is not buffer))
    return func


def _problem(body: Stmt, buffer: Buffer, target: Buffer) -> str | None:
    """Return the reason that values would be lost; None if they would not.

    An iteration of the loops around all accesses may overwrite only those elements of the target that it computes, and
    must compute them at its end.
    """
    if (buffer.shape, buffer.dtype, buffer.scope) != (target.shape, target.dtype, target.scope):
        return "their shapes, types or scopes differ"
    found = accesses(body)
    last = [access for access in found if access.buffer is target]
    if len(last) != 1 or not last[0].stores:
        return f"{target.name} is read, or written in several places"
    final = last[0]
    uses = [access for access in found if access.buffer is buffer]
    own = [use for use in uses if use.path[-1] is final.path[-1]]
    if any(not same(a, b) for use in own for (a, _), (b, _) in zip(use.region.box, final.region.box, strict=True)):
        return f"an element of {target.name} needs another one"
    common = common_path([use.path for use in (*uses, final)])
    others = [use for use in uses if use not in own]
    if any(len(common_path([use.path, final.path])) > len(common) for use in others):
        return f"elements of {target.name} are computed in between"
    if not own or found.index(final) < max(map(found.index, uses)):
        return f"{target.name} is not computed from it, after all else"
    around = {stmt.var for stmt in common if isinstance(stmt, For)}
    ranges = loop_ranges(body)
    if not _is_dense(final, around, ranges) or any(not _contains(final, use, around, ranges) for use in others):
        return f"it has other elements than those of {target.name} that an iteration computes"
    return None


def _box(access: Access, around: set[Var], ranges: Ranges, *, tested: bool) -> Sequence[SymbolicInterval | None]:
    """Return the elements that one iteration of the loops around accesses."""
    tests = [stmt.condition for stmt in access.tests] if tested else []
    relax = relaxation(access.loops - around, ranges, *tests)
    return [interval(first, relax, count) for first, count in access.region.box]


def _is_dense(final: Access, around: set[Var], ranges: Ranges) -> bool:
    """Decide if one iteration writes a whole box, by counting its elements, none of which is written twice."""
    loops = [stmt for stmt in final.path if isinstance(stmt, For) and stmt.var not in around]
    sizes = [0 if found is None else found.width + 1 for found in _box(final, around, ranges, tested=False)]
    return prod(sizes) == prod(loop.extent for loop in loops)


def _contains(final: Access, use: Access, around: set[Var], ranges: Ranges) -> bool:
    pairs = zip(_box(final, around, ranges, tested=True), _box(use, around, ranges, tested=True), strict=True)
    return all(a is not None and b is not None and a.lo == b.lo and a.width >= b.width for a, b in pairs)
