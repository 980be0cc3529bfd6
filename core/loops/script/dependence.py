"""Loop-carried values: whether a buffer carries values from one iteration of a loop to the next.

An intermediate has its memory in the innermost loop around all of its uses, so each iteration must write what it reads
there. Programs that come from computations do. In one that somebody wrote by hand a buffer may hold what the iteration
before has left.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from pegbox.expr.bounds import Ranges, linear_bounds
from pegbox.expr.build import conjuncts
from pegbox.expr.nodes import Buffer, Compare, Const, Var
from pegbox.loops.access.access import Access, accesses
from pegbox.loops.access.interval import SymbolicInterval, hull, interval, relaxation
from pegbox.loops.access.region import read_below, written_below
from pegbox.loops.nodes import For, Function, Seq, Stmt
from pegbox.loops.passes.flatten import flatten_blocks
from pegbox.loops.passes.init import lower_inits
from pegbox.loops.visit import common_path, loop_ranges, realizes


def loop_carried_dependence(func: Function, *, but: Container[Buffer] = ()) -> tuple[Buffer, For] | None:
    """An intermediate of which an iteration reads what it cannot be shown to have written, and the loop.

    Args:
        but: intermediates that are not asked for.
    """
    if not func.allocs:
        return None
    flat = flatten_blocks(lower_inits(func))
    ranges = loop_ranges(flat.body)
    uses: dict[Buffer, list[Access]] = {buffer: [] for buffer in func.allocs if buffer not in but}
    for access in accesses(flat.body):
        if access.buffer in uses:
            uses[access.buffer].append(access)
    for buffer, found in uses.items():
        common = common_path([access.path for access in found])
        home = next((s for s in reversed(common) if isinstance(s, For)), None)
        if home is not None and not _fresh(found, common, ranges):
            return buffer, home
    return None


def _fresh(uses: Sequence[Access], common: Sequence[Stmt], ranges: Ranges) -> bool:
    """Is each element that is read written in the same iteration, before or in a loop that both are in?"""
    still = {s.var for s in common if isinstance(s, For)}
    for number, access in enumerate(uses):
        if access.stores:
            continue
        stores = [a for n, a in enumerate(uses) if a.stores and (n < number or _loops_together(a, access, common))]
        if not stores:
            return False
        tested = tested_ranges(access, ranges)
        for dim, extent in enumerate(access.buffer.shape):
            spans = [_span(a, dim, still, ranges) for a in stores]
            if not _holds(spans, _span(access, dim, still, tested), extent, tested):
                return False
    return True


def _loops_together(a: Access, b: Access, common: Sequence[Stmt]) -> bool:
    shared = common_path([a.path, b.path])
    return any(isinstance(s, For) for s in shared[len(common) :])


def tested_ranges(access: Access, ranges: Ranges) -> Ranges:
    """The ranges of the loops where the tests around an access hold: `i < 5`, `i >= 5` and `i == 5`."""
    found = dict(ranges)
    for part in (p for s in access.tests for p in conjuncts(s.condition)):
        if isinstance(part, Compare) and isinstance(part.a, Var) and isinstance(part.b, Const) and part.a in found:
            low, high = found[part.a]
            limit = int(part.b.value)
            if part.op == "lt":
                found[part.a] = low, min(high, limit - 1)
            elif part.op == "ge":
                found[part.a] = max(low, limit), high
            elif part.op == "eq":
                found[part.a] = limit, limit
    return found


def _span(access: Access, dim: int, still: set[Var], ranges: Ranges) -> SymbolicInterval | None:
    lo, count = access.region.box[dim]
    tests = [] if access.stores else [s.condition for s in access.tests]
    return interval(lo, relaxation(access.loops - still, ranges, *tests), count)


def _holds(
    stores: Sequence[SymbolicInterval | None], wanted: SymbolicInterval | None, extent: int, ranges: Ranges
) -> bool:
    """Do the stored elements, taken together, reach from the first to the last of the wanted ones?"""
    spans = [s for s in stores if s is not None]
    if any(_is_whole(s, extent) for s in spans):
        return True
    around = hull(spans)
    if around is None or wanted is None:
        return around is not None and _is_whole(around, extent)
    between = linear_bounds(wanted.lo.minus(around.lo), ranges)
    return between is not None and between[0] >= 0 and between[1] + wanted.width <= around.width


def _is_whole(found: SymbolicInterval, extent: int) -> bool:
    return found.lo.is_const and found.lo.const <= 0 and found.lo.const + found.width >= extent - 1


def early_init(func: Function) -> tuple[str, Buffer] | None:
    """A block, and a buffer that its init reads and that is written in the loops around.

    Inits are done before the outermost reduce loop, so that they may not wait for what is computed in it.
    """
    tops = func.body.stmts if isinstance(func.body, Seq) else (func.body,)
    for top in tops:
        changed = written_below(top)
        for block in (realize.block for realize in realizes(top)):
            for buffer in () if block.init is None else read_below(block.init):
                if buffer in changed:
                    return block.name, buffer
    return None
