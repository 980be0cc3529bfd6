"""Loop-carried values: buffers that carry values from one iteration of a loop to the next.

An intermediate has its memory in the innermost loop around all of its uses, so each iteration must write the elements
that it reads. Programs made from computations do. A program written by hand may keep values from the iteration before,
or from another iteration of a loop whose iterations wait for each other.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from pegbox.expr.affine import linear
from pegbox.expr.bounds import Ranges, linear_bounds
from pegbox.expr.build import conjuncts, index
from pegbox.expr.equal import same
from pegbox.expr.nodes import Buffer, Compare, Const, Expr, Load, Var
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import free_vars, substitute, walk
from pegbox.loops.access.access import Access, accesses
from pegbox.loops.access.interval import (
    Relaxation,
    SymbolicInterval,
    caps_of,
    hull,
    interval,
    relaxation,
    tested_ranges,
)
from pegbox.loops.access.region import read_below, written_below
from pegbox.loops.nodes import For, Function, Seq, Stmt
from pegbox.loops.passes.flatten import flatten_blocks
from pegbox.loops.passes.init import lower_inits
from pegbox.loops.refusal import Refusal
from pegbox.loops.threads.barrier import cut_at_barriers, thread_conflicts, waiting_remedy
from pegbox.loops.visit import common_path, loop_ranges, realizes


def fresh(func: Function) -> Function | Refusal:
    """Show that each iteration writes the elements of intermediates that it reads; a refusal names the buffer.

    Loops whose iterations wait for each other are cut where they wait, so the function changes.
    """
    carried = _carried(func, but=thread_conflicts(func))
    cut = cut_at_barriers(func) if carried is None else func
    if isinstance(cut, Refusal):
        return cut
    if cut is not func:
        carried = _carried(cut)
    return cut if carried is None else _stale(*carried)


def _stale(buffer: Buffer, loop: For) -> Refusal:
    """Describe a buffer whose old values iterations of a loop read."""
    why = "the memory of T.alloc_buffer is made anew where its uses are"
    remedy = f"let it live longer: {buffer.name} = T.decl_buffer(...) before that loop"
    if loop.kind.is_bound:
        remedy = waiting_remedy(buffer, loop)
        why = why if loop.kind.waits else "blocks of threads do not wait for each other"
    reason = (
        f"an iteration of {loop.var.name} reads what it cannot be shown to have written to {buffer.name}, and {why}"
    )
    return Refusal(reason, remedy, (buffer.name,))


def _carried(func: Function, *, but: Container[Buffer] = ()) -> tuple[Buffer, For] | None:
    """Find an intermediate of which an iteration may read elements that it has not written, and the loop.

    Args:
        but: intermediates that do not count.
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
    """Check if each element that is read is written in the same iteration, before the read or in a loop around both."""
    still = {s.var for s in common if isinstance(s, For)}

    def together(a: Access, b: Access) -> bool:
        return any(isinstance(s, For) for s in common_path([a.path, b.path])[len(common) :])

    for number, access in enumerate(uses):
        if access.stores:
            continue
        before = [a for n, a in enumerate(uses) if a.stores and (n < number or together(a, access))]
        stores = [a for a in before if _runs(a, access, still, ranges)]
        if not stores:
            return False
        tested = tested_ranges([test.condition for test in access.tests], ranges)
        for dim, extent in enumerate(access.buffer.shape):
            spans = [_span(a, dim, still, ranges) for a in stores]
            if not _holds(spans, _span(access, dim, still, ranges), extent, tested):
                return False
    return True


def _runs(store: Access, read: Access, still: set[Var], ranges: Ranges) -> bool:
    """Decide if a store runs whenever a read does, for each element of its span."""
    known = [part for test in read.tests for part in conjuncts(test.condition)]
    return all(
        _narrows(part, store, still, ranges) or any(same(part, each) for each in known)
        for test in store.tests
        for part in conjuncts(test.condition)
    )


def _narrows(part: Expr, store: Access, still: set[Var], ranges: Ranges) -> bool:
    """Decide if a test excludes only elements that a span also excludes, or none, as `tx == 0` may."""
    names, running = free_vars(part), store.loops - still
    if isinstance(part, Compare) and part.op == "lt" and isinstance(part.b, Const):
        for (lo, _), extent in zip(store.region.box, store.buffer.shape, strict=True):
            over = linear(part.a).minus(linear(lo))
            if over.is_const and part.b.integer - over.const >= extent:  # it excludes only elements beyond the buffer
                return True
    if any(isinstance(each, Load) for each in walk(part)) or not names <= running:
        return False
    if names.isdisjoint({var for lo, _ in store.region.box for var in free_vars(lo)}):
        return _holds_first(part, names, ranges)
    caps = Relaxation(running, ranges, caps_of(part, running, ranges))
    return any(found and found.capped for found in (interval(lo, caps, n) for lo, n in store.region.box))


def _holds_first(part: Expr, names: Iterable[Var], ranges: Ranges) -> bool:
    """Decide if a test holds in the first iteration of its loops, before any read."""
    first = {var: index(ranges[var][0]) for var in names if var in ranges}
    found = simplify(substitute(part, first), ranges)
    return isinstance(found, Const) and bool(found.value)


def _span(access: Access, dim: int, still: set[Var], ranges: Ranges) -> SymbolicInterval | None:
    lo, count = access.region.box[dim]
    tests = [test.condition for test in access.tests]
    return interval(lo, relaxation(access.loops - still, tested_ranges(tests, ranges), *tests), count)


def _holds(
    stores: Sequence[SymbolicInterval | None], wanted: SymbolicInterval | None, extent: int, ranges: Ranges
) -> bool:
    """Decide if the stored elements together cover all the wanted ones."""
    spans = [s for s in stores if s is not None]
    if any(s.covers(extent) for s in spans):
        return True
    around = hull(spans)
    if around is None or wanted is None:
        return around is not None and around.covers(extent)
    between = linear_bounds(wanted.lo.minus(around.lo), ranges)
    return between is not None and between[0] >= 0 and between[1] + wanted.width <= around.width


def early_init(func: Function) -> Refusal | None:
    """Find a block whose init, which runs before all reduce loops, reads a buffer that is written in them."""
    tops = func.body.stmts if isinstance(func.body, Seq) else (func.body,)
    for top in tops:
        changed = written_below(top)
        for block in (realize.block for realize in realizes(top)):
            for buffer in () if block.init is None else read_below(block.init):
                if buffer in changed:
                    return Refusal(
                        f"the init of block {block.name!r} reads {buffer.name}, which is written in the loops around "
                        "it, and inits are done before all reduce loops",
                        "write the start as a block of its own, where its values are ready",
                        (block.name,),
                    )
    return None
