"""Region cover: tests if the part of a buffer that a block writes covers the part that another block reads."""

from __future__ import annotations

from collections.abc import Iterator, Set

from pegbox.expr.affine import constant
from pegbox.expr.bounds import Ranges
from pegbox.expr.build import add, conjuncts
from pegbox.expr.digits import join, split
from pegbox.expr.equal import same
from pegbox.expr.nodes import Buffer, Expr, Var
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import loads, substitute
from pegbox.loops.access.interval import SymbolicInterval
from pegbox.loops.access.region import read
from pegbox.loops.access.written_box import Box, box_of
from pegbox.loops.nodes import BlockRealize, If, Region
from pegbox.loops.visit import walk
from pegbox.schedule.analysis import boxes, reduce_values, variables
from pegbox.schedule.analysis.write_cover import fills
from pegbox.schedule.tree import Tree


def written_box(tree: Tree, producer: BlockRealize, buffer: Buffer, fixed: Set[Var]) -> Box | None:
    """Compute the box of `buffer` that `producer` writes in one iteration of the `fixed` loops, or None."""
    running = {x.var for x in tree.ancestors(producer)} - fixed
    found = _written_box(producer, buffer, running, tree.ranges)
    digits = _digit_loops(producer, running, tree.ranges) if found is None else None
    return found if digits is None else _written_box(digits[0], buffer, *digits[1:])


def _digit_loops(
    realize: BlockRealize, running: Set[Var], ranges: Ranges
) -> tuple[BlockRealize, Set[Var], Ranges] | None:
    """Return the same iterations with a loop for each digit `f // 6`, `f % 6` of a running loop; None without digits.

    The digits of a loop take all combinations of their values, so bounds that a predicate puts on one digit can be
    distinguished from bounds of the others.
    """
    nests = {var: split(var, ranges[var][1] + 1, (*realize.values, realize.predicate)) for var in running}
    nests = {var: digits for var, digits in nests.items() if digits}
    if not nests:
        return None
    fresh = {digit: (0, n - 1) for digits in nests.values() for digit, n in digits}
    values = {var: join(digits) for var, digits in nests.items()}

    def change(expr: Expr) -> Expr:
        return simplify(substitute(expr, values), {**ranges, **fresh})

    changed = BlockRealize(tuple(map(change, realize.values)), realize.block, change(realize.predicate))
    return changed, (running - nests.keys()) | fresh.keys(), {**ranges, **fresh}


def _written_box(producer: BlockRealize, buffer: Buffer, running: Set[Var], ranges: Ranges) -> Box | None:
    region = next(w for w in producer.block.writes if w.buffer is buffer)
    digits = {dim: Var("element") for dim, (_, count) in enumerate(region.box) if count > 1}
    if digits and not fills(producer.block, region):
        return None
    running = running | set(digits.values())
    ranges = {**ranges, **{var: (0, region.box[dim][1] - 1) for dim, var in digits.items()}}
    box = tuple((add(lo, digits[dim]) if dim in digits else lo, 1) for dim, (lo, _) in enumerate(region.box))
    return box_of(producer, Region(buffer, box), running, ranges)


def covers_reads(tree: Tree, producer: BlockRealize, buffer: Buffer, user: BlockRealize) -> bool:
    """Decide if the producer writes all elements that the user reads, in one iteration of the loops around both.

    The result is also False if that cannot be shown.
    """
    around = {x.var for x in tree.ancestors(user)}
    shared = {x.var for x in tree.ancestors(producer) if x.var in around}
    if not any(tree.ranges[v][1] > 0 for v in shared):
        return True
    if any(tree.ranges[v][1] > 0 for v in variables(reduce_values(producer)) & shared):
        return False
    return makes_all(tree, producer, buffer, user, shared)


def makes_all(
    tree: Tree, producer: BlockRealize, buffer: Buffer, user: BlockRealize, fixed: Set[Var] = frozenset()
) -> bool:
    """Decide if the producer writes all elements that the user reads, in one iteration of the `fixed` loops.

    The result is also False if that cannot be shown.
    """
    written = written_box(tree, producer, buffer, fixed)
    return written is not None and reads_inside(tree, user, buffer, written, fixed)


def misses_reads(tree: Tree, producer: BlockRealize, buffer: Buffer, user: BlockRealize) -> bool:
    """Decide if the user may read elements that the producer writes in none of its iterations.

    For loops that both share, `covers_reads` has answered this already, for each iteration.
    """
    around = {x.var for x in tree.ancestors(user) if x.extent > 1}
    share = any(x.var in around for x in tree.ancestors(producer))
    return not share and not makes_all(tree, producer, buffer, user)


def reads_inside(
    tree: Tree, user: BlockRealize, buffer: Buffer, written: Box, fixed: Set[Var], *, apart_from: int | None = None
) -> bool:
    """Decide if the elements that the user reads are in the `written` box, in all dimensions but one."""
    known = list(read_conditions(user, tree.ranges))
    return all(any(same(c, k) for k in known) for c in written.conditions) and all(
        dim == apart_from or within(needed, written.intervals[dim], extent)
        for box in boxes(tree, user, user.block.reads, buffer, fixed)
        for dim, (needed, extent) in enumerate(zip(box, buffer.shape, strict=True))
    )


def read_conditions(reader: BlockRealize, ranges: Ranges) -> Iterator[Expr]:
    """Yield the conditions on loops under which a block reads: its predicate, and a test around its whole body."""
    yield from conjuncts(reader.predicate)
    block = reader.block
    starts = block.init is not None and any(True for stmt in walk(block.init) for _ in read(stmt))
    if isinstance(block.body, If) and not starts and not any(True for _ in loads(block.body.condition)):
        yield from conjuncts(simplify(substitute(block.body.condition, reader.bindings), ranges))


def within(needed: SymbolicInterval | None, written: SymbolicInterval, extent: int) -> bool:
    """Decide if all needed indices that lie in the buffer are among those `written`."""
    if written.covers(extent):
        return True
    if needed is None:
        return False
    lo, width = needed.lo, needed.width
    if lo.is_const:
        # Reads outside the buffer are guarded in the body.
        first, last = max(lo.const, 0), min(lo.const + width, extent - 1)
        lo, width = constant(first), max(last - first, 0)
    gap = lo.minus(written.lo)
    return gap.is_const and gap.const >= 0 and gap.const + width <= written.width
