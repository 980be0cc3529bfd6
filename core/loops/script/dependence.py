"""Does a buffer carry values from one iteration of a loop to the next?

An intermediate has its memory in the innermost loop around all of its uses, so each iteration must write what it reads
there. Programs that come from computations do. In one that somebody wrote by hand a buffer may hold what the iteration
before has left.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from pegbox.expr.bounds import Ranges, linear_bounds
from pegbox.expr.build import conjuncts
from pegbox.expr.nodes import Buffer, Compare, Const, Expr, Var
from pegbox.loops.access.interval import Relaxation, SymbolicInterval, caps_of, interval
from pegbox.loops.access.region import read, written
from pegbox.loops.nodes import For, Function, If, Region, Seq, Stmt
from pegbox.loops.passes.flatten import flatten_blocks
from pegbox.loops.passes.init import lower_inits
from pegbox.loops.visit import children, loop_ranges, realizes, walk


@dataclass(frozen=True, slots=True)
class _Access:
    region: Region
    path: tuple[Stmt, ...]
    stores: bool


def carried(func: Function, *, but: Container[Buffer] = ()) -> tuple[Buffer, For] | None:
    """An intermediate of which an iteration reads what it cannot be shown to have written, and the loop.

    Args:
        but: intermediates that are not asked for.
    """
    if not func.allocs:
        return None
    flat = flatten_blocks(lower_inits(func))
    ranges = loop_ranges(flat.body)
    uses: dict[Buffer, list[_Access]] = {buffer: [] for buffer in func.allocs if buffer not in but}
    for access in _accesses(flat.body, ()):
        if access.region.buffer in uses:
            uses[access.region.buffer].append(access)
    for buffer, accesses in uses.items():
        common = _common([access.path for access in accesses])
        home = next((s for s in reversed(common) if isinstance(s, For)), None)
        if home is not None and not _fresh(accesses, common, ranges):
            return buffer, home
    return None


def _accesses(stmt: Stmt, path: tuple[Stmt, ...]) -> Iterator[_Access]:
    """In the order of the program: a statement reads before it writes."""
    here = (*path, stmt)
    yield from (_Access(region, here, False) for region in read(stmt))
    yield from (_Access(region, here, True) for region in written(stmt))
    for child in children(stmt):
        yield from _accesses(child, here)


def _common(paths: Sequence[tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
    first = paths[0] if paths else ()
    depth = len(first)
    for path in paths:
        depth = next((n for n in range(min(depth, len(path))) if path[n] is not first[n]), min(depth, len(path)))
    return first[:depth]


def _fresh(accesses: Sequence[_Access], common: tuple[Stmt, ...], ranges: Ranges) -> bool:
    """Is each element that is read written in the same iteration, before or in a loop that both are in?"""
    still = {s.var for s in common if isinstance(s, For)}
    for number, access in enumerate(accesses):
        if access.stores:
            continue
        stores = [a for n, a in enumerate(accesses) if a.stores and (n < number or _loops_together(a, access, common))]
        if not stores:
            return False
        tested = _tested(access, ranges)
        for dim, extent in enumerate(access.region.buffer.shape):
            spans = [_span(a, dim, still, ranges) for a in stores]
            if not _holds(spans, _span(access, dim, still, tested), extent, tested):
                return False
    return True


def _loops_together(a: _Access, b: _Access, common: tuple[Stmt, ...]) -> bool:
    shared = _common([a.path, b.path])
    return any(isinstance(s, For) for s in shared[len(common) :])


def _tested(access: _Access, ranges: Ranges) -> Ranges:
    """The ranges of the loops where the tests around an access hold: `i < 5` and `i >= 5`."""
    found = dict(ranges)
    for part in (p for s in access.path if isinstance(s, If) for p in conjuncts(s.condition)):
        if isinstance(part, Compare) and isinstance(part.a, Var) and isinstance(part.b, Const) and part.a in found:
            low, high = found[part.a]
            limit = int(part.b.value)
            if part.op == "lt":
                found[part.a] = low, min(high, limit - 1)
            elif part.op == "ge":
                found[part.a] = max(low, limit), high
    return found


def _span(access: _Access, dim: int, still: set[Var], ranges: Ranges) -> SymbolicInterval | None:
    running = {s.var for s in access.path if isinstance(s, For)} - still
    lo: Expr = access.region.box[dim][0]
    tests = [] if access.stores else [s.condition for s in access.path if isinstance(s, If)]
    found = interval(lo, Relaxation(running, ranges, [cap for test in tests for cap in caps_of(test, running, ranges)]))
    count = access.region.box[dim][1]
    return found if found is None or count == 1 else found.widened(count - 1)


def _holds(
    stores: Sequence[SymbolicInterval | None], wanted: SymbolicInterval | None, extent: int, ranges: Ranges
) -> bool:
    """Do the stored elements, taken together, reach from the first to the last of the wanted ones?"""
    known = [s for s in stores if s is not None]
    if any(s.lo.is_const and s.lo.const <= 0 and s.lo.const + s.width >= extent - 1 for s in known):
        return True
    hull = known[0] if known else None
    for each in known[1:]:
        hull = hull.hull(each) if hull is not None else None
    if hull is None or wanted is None:
        return hull is not None and hull.lo.is_const and hull.lo.const <= 0 and hull.lo.const + hull.width >= extent - 1
    between = linear_bounds(wanted.lo.minus(hull.lo), ranges)
    return between is not None and between[0] >= 0 and between[1] + wanted.width <= hull.width


def early_init(func: Function) -> tuple[str, Buffer] | None:
    """A block, and a buffer that its init reads and that is written in the loops around.

    Inits are done before the outermost reduce loop, so that they may not wait for what is computed in it.
    """
    tops = func.body.stmts if isinstance(func.body, Seq) else (func.body,)
    for top in tops:
        changed = {region.buffer for stmt in walk(top) for region in written(stmt)}
        for block in (realize.block for realize in realizes(top)):
            for stmt in () if block.init is None else walk(block.init):
                for region in read(stmt):
                    if region.buffer in changed:
                        return block.name, region.buffer
    return None
