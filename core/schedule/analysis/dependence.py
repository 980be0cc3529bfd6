"""Loop-carried dependences: may iterations run in any order, and is each value final when it is written?

In blocks that come from a computation they may. Blocks written by hand may differ: `A[vi] = A[vi - 1]` scans, `H[X[vi]]
= vi` writes an element twice, a block may touch more than its regions say. The primitives reason from regions and from
the kinds of variables, which is right only for blocks without such dependences; other blocks keep their loops.
"""

from __future__ import annotations

from pegbox.expr.affine import Linear, linear
from pegbox.expr.bounds import Interval, Ranges
from pegbox.expr.injectivity import determined
from pegbox.expr.nodes import Binary, Buffer, Expr, Load, Logic, Var
from pegbox.expr.visit import free_vars, loads
from pegbox.loops.access.block_region import contained, uncovered
from pegbox.loops.access.region import read_below
from pegbox.loops.nodes import Block, BlockRealize, For, Store
from pegbox.loops.visit import blocks_below, iter_ranges, walk_nest
from pegbox.schedule.analysis import combiner, written_buffers

_COMMUTATIVE = frozenset({"add", "mul", "min", "max", "and", "or"})


def carried_dependence(block: Block, around: Ranges | None = None, *, own_reads: bool = True) -> str | None:
    """Return the reason that the iterations of a block must keep their order; None if they may run in any order.

    Args:
        around: the variables of the blocks around it, which are fixed.
        own_reads: also check the block's reads of its own output; reads of earlier rows are checked elsewhere.
    """
    ranges = {**(around or {}), **iter_ranges(block.iters)}
    return (
        _outside_regions(block)
        or _overlapping_writes(block, ranges)
        or (_own_reads(block, ranges) if own_reads else None)
        or _inner(block, ranges)
    )


def _outside_regions(block: Block) -> str | None:
    access = uncovered(block.iters, block.body, block.init, block.reads, block.writes)
    if access is None:
        return None
    verb = "writes" if access.stores else "reads"
    return f"it {verb} {access.buffer.name} outside the regions that it states"


def _overlapping_writes(block: Block, ranges: Ranges) -> str | None:
    """Check that each iteration of the spatial variables writes its own elements of each buffer."""
    spatial = {it.var for it in block.iters if not it.is_reduce and it.extent > 1}
    reduce = {it.var for it in block.iters if it.is_reduce}
    for region in block.writes:
        name = region.buffer.name
        if any(r is not region and r.buffer is region.buffer for r in block.writes):
            return f"it writes {name} in several places"
        if any(free_vars(lo) & reduce for lo, _ in region.box):
            return f"its reduce variables say where it writes {name}"
        if any(True for lo, _ in region.box for _ in loads(lo)):
            return f"where it writes {name} is read from memory"
        domain = dict(ranges)
        corners = [_with_digit(lo, count, domain) for lo, count in region.box]
        missing = spatial - determined(corners, ranges.keys() - {it.var for it in block.iters}, domain)
        if missing:
            names = ", ".join(sorted(v.name for v in missing))
            return f"several iterations of {names} may write the same elements of {name}"
    return None


def _with_digit(lo: Expr, count: int, domain: dict[Var, Interval]) -> Expr:
    """Return an element of `lo .. lo + count`: another one for each iteration only if boxes do not overlap."""
    if count == 1:
        return lo
    digit = Var("element")
    domain[digit] = (0, count - 1)
    return Linear({**linear(lo).terms, digit: 1}, linear(lo).const).to_expr()


def _own_reads(block: Block, ranges: Ranges) -> str | None:
    """Check that the only element of its own output that a block reads is the one that its reduction updates."""
    own = set(written_buffers(block))
    if any(r.buffer in own and not contained(r, block.writes, ranges) for r in block.reads):
        return "it reads other elements of what it writes"
    flat = not any(isinstance(s, BlockRealize | For) for s in walk_nest(block.body))
    changed = [b for b in read_below(block.body) if b in own] if flat and not block.is_reduction else []
    if changed:
        return f"it changes {changed[0].name} in place"
    if flat and block.is_reduction and combiner(block) is None:
        return _order_of_updates(block)
    return None


def _order_of_updates(block: Block) -> str | None:
    """Check that an element may be updated in any order. Several outputs are assumed to be a legal reduction."""
    stores = [s for s in walk_nest(block.body) if isinstance(s, Store)]
    if len(stores) != 1:
        return None
    store = stores[0]
    buffer = store.buffer
    if sum(load.buffer is buffer for load in loads(store.value)) == 1 and _combines(store.value, buffer, None):
        return None
    return (
        f"its update of {buffer.name} is not a sum, product, minimum or maximum, so that the order of its steps matters"
    )


def _combines(expr: Expr, buffer: Buffer, op: str | None) -> bool:
    """Check if every operation from the loaded value up to the root is the same commutative one."""
    if isinstance(expr, Load):
        return expr.buffer is buffer and op is not None
    if isinstance(expr, Binary | Logic) and expr.op in _COMMUTATIVE and op in (None, expr.op):
        return any(_combines(side, buffer, expr.op) for side in (expr.a, expr.b))
    # a - b is a + (-b).
    return isinstance(expr, Binary) and expr.op == "sub" and op in (None, "add") and _combines(expr.a, buffer, "add")


def _inner(block: Block, ranges: Ranges) -> str | None:
    for realize in blocks_below(block.body):
        why = carried_dependence(realize.block, ranges)
        if why is not None:
            return f"in its block {realize.block.name}, {why}"
    return None
