"""Scattered stores: elements that neighbouring iterations of a loop write apart from each other.

    for i in parallel(n):
        for j in range(25):
            y[i, j] = a[i] * b[j]

LLVM unrolls the short loop over `j`, and its loop vectorizer may then take the loop over `i`: 64 lanes of bytes make
1,600 stores of one byte each. Its next passes compare all pairs of stores (`MemoryDepChecker`, LLVM 18 to 22), which
takes 15 s. So LLVM is asked not to vectorize such a loop. The rows inside it become vectors all the same.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple

from pegbox.codegen.emitter.form import address_form
from pegbox.expr import dtypes
from pegbox.expr.nodes import Buffer, Load, Var
from pegbox.expr.visit import loads
from pegbox.loops.nodes import For, ForKind, Function, Stmt, Store
from pegbox.loops.visit import children

MOST_PAIRS = 1 << 17
"""Pairs of accesses to one buffer that LLVM may compare for a loop: 0.7 s."""

MOST_UNROLLED = 512
"""Iterations of inner loops that LLVM unrolls at most, more or less; loops around more are not vectorized at all."""


class _Access(NamedTuple):
    access: Load | Store
    iterations: int = 1


def loops_with_scattered_stores(func: Function, vector_bits: int) -> set[Var]:
    """Find the loops that LLVM must not vectorize, for vectors of `vector_bits` bits."""
    found: set[Var] = set()
    _visit(func.body, vector_bits, found)
    return found


def _visit(stmt: Stmt, bits: int, found: set[Var]) -> list[_Access]:
    """Collect the accesses of a statement that LLVM may unroll; add its loops with scattered stores to `found`."""
    if isinstance(stmt, Store):
        return [_Access(stmt), *map(_Access, loads(stmt.value))]
    inside = [access for child in children(stmt) for access in _visit(child, bits, found)]
    if not isinstance(stmt, For) or stmt.extent == 1:
        return inside
    if stmt.kind in (ForKind.SERIAL, ForKind.PARALLEL) and _pairs(stmt.var, inside, bits) > MOST_PAIRS:
        found.add(stmt.var)
    return [
        access._replace(iterations=access.iterations * stmt.extent)
        for access in inside
        if access.iterations * stmt.extent <= MOST_UNROLLED
    ]


def _pairs(var: Var, inside: list[_Access], bits: int) -> int:
    """Count the pairs of a scattered store and another access that vectors of the loop over `var` would make."""
    widest = 8 * max((dtypes.nbytes(each.access.buffer.dtype) for each in inside), default=bits // 8)
    lanes = bits // widest
    if sum(each.iterations for each in inside) * lanes < math.isqrt(MOST_PAIRS):
        return 0
    scattered: Counter[Buffer] = Counter()
    others: Counter[Buffer] = Counter()
    for access, iterations in inside:
        apart = abs(dict(address_form(access, lambda _: 0).terms).get(var, 0)) > 1
        count = scattered if apart and isinstance(access, Store) else others
        count[access.buffer] += iterations * (lanes if apart else 1)
    return sum(n * (n + others[buffer]) for buffer, n in scattered.items())
