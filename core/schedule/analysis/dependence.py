"""Is a block orderly: may its iterations run in any order, and is each value that it writes final at once?

Blocks that come from a computation are. Blocks that people wrote by hand need not be: `A[vi] = A[vi - 1]` scans,
`H[X[vi]] = vi` writes an element twice, a block may touch more than its regions tell. The primitives reason from
regions and from the kinds of variables, so that they are right for orderly blocks only; others keep their loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pegbox.expr.affine import Linear, linear
from pegbox.expr.bounds import Interval, Ranges, linear_bounds
from pegbox.expr.distinct import determined
from pegbox.expr.nodes import Binary, Buffer, Expr, Load, Logic, Var
from pegbox.expr.simplify import simplified_linear
from pegbox.expr.visit import free_vars, loads, substitute
from pegbox.loops.access.region import read, written
from pegbox.loops.nodes import Alloc, Block, BlockRealize, For, If, Region, Seq, Stmt, Store
from pegbox.loops.visit import iter_ranges
from pegbox.schedule.analysis import combiner, written_buffers

_COMMUTATIVE = frozenset({"add", "mul", "min", "max", "and", "or"})


@dataclass(frozen=True, slots=True)
class _Access:
    """One access of a block's body, over the block's variables and those of the loops inside of it."""

    region: Region
    stores: bool


def disorder(block: Block) -> str | None:
    """Why the iterations of a block have to keep their order; None for an orderly block."""
    ranges = iter_ranges(block.iters)
    accesses = [a for part in (block.init, block.body) if part is not None for a in _accesses(part, {}, ranges)]
    return (
        _outside_regions(block, accesses, ranges)
        or _unpinned(block, ranges)
        or _own_reads(block, accesses, ranges)
        or _inner(block)
    )


def _accesses(stmt: Stmt, values: Mapping[Var, Expr], ranges: dict[Var, Interval]) -> Iterator[_Access]:
    """What the body touches, apart from buffers of its own; fills in the ranges of the loops inside."""
    for region, stores in (*((r, False) for r in read(_own(stmt))), *((w, True) for w in written(_own(stmt)))):
        box = tuple((substitute(lo, values), count) for lo, count in region.box)
        yield _Access(Region(region.buffer, box), stores)
    match stmt:
        case For(var, extent, body):
            ranges[var] = (0, extent - 1)
            yield from _accesses(body, values, ranges)
        case Seq(stmts):
            for each in stmts:
                yield from _accesses(each, values, ranges)
        case If():
            yield from _accesses(stmt.then, values, ranges)
        case Alloc(buffer, body):
            yield from (a for a in _accesses(body, values, ranges) if a.region.buffer is not buffer)
        case BlockRealize(bound, block):
            inner = {it.var: substitute(v, values) for it, v in zip(block.iters, bound, strict=True)}
            for part in (block.init, block.body):
                if part is not None:
                    yield from _accesses(part, {**values, **inner}, ranges)
        case _:
            return


def _own(stmt: Stmt) -> Stmt:
    """The statement as it is asked for accesses of its own; a block realize has none besides those of its block."""
    return Seq(()) if isinstance(stmt, BlockRealize) else stmt


def _outside_regions(block: Block, accesses: Sequence[_Access], ranges: Ranges) -> str | None:
    for access in accesses:
        region, buffer = access.region, access.region.buffer
        declared = [r for r in block.writes if r.buffer is buffer]
        if not access.stores:
            declared += [r for r in block.reads if r.buffer is buffer]
        if not any(_contains(outer, region, ranges) for outer in declared):
            verb = "writes" if access.stores else "reads"
            return f"it {verb} {buffer.name} outside of the regions that it states"
    return None


def _contains(outer: Region, inner: Region, ranges: Ranges) -> bool:
    """Does the box `outer` hold the box `inner`, as far as can be shown?"""
    for (lo, count), (at, width), extent in zip(outer.box, inner.box, outer.buffer.shape, strict=True):
        start = linear(lo)
        if start.is_const and start.const <= 0 and start.const + count >= extent:
            continue
        gap = simplified_linear(at, ranges).minus(simplified_linear(lo, ranges))
        between = linear_bounds(gap, ranges)
        if between is None or between[0] < 0 or between[1] + width > count:
            return False
    return True


def _unpinned(block: Block, ranges: Ranges) -> str | None:
    """Each iteration of the spatial variables has elements of its own in everything that is written."""
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
        missing = spatial - determined(corners, set(), domain)
        if missing:
            names = ", ".join(sorted(v.name for v in missing))
            return f"several iterations of {names} may write the same elements of {name}"
    return None


def _with_digit(lo: Expr, count: int, domain: dict[Var, Interval]) -> Expr:
    """Any element of `lo .. lo + count`: another one for each iteration only if boxes do not overlap."""
    if count == 1:
        return lo
    digit = Var("element")
    domain[digit] = (0, count - 1)
    return Linear({**linear(lo).terms, digit: 1}, linear(lo).const).to_expr()


def _own_reads(block: Block, accesses: Sequence[_Access], ranges: Ranges) -> str | None:
    """What a block reads of its own output is what its reduction has made of the element so far."""
    own = set(written_buffers(block))
    if any(r.buffer in own and not any(_contains(w, r, ranges) for w in block.writes) for r in block.reads):
        return "it reads other elements of what it writes"
    flat = not any(isinstance(s, BlockRealize | For) for s in _statements(block.body))
    reads = [a for a in accesses if not a.stores and a.region.buffer in own]
    if flat and not block.is_reduction and reads:
        return f"it changes {reads[0].region.buffer.name} in place"
    if flat and block.is_reduction and combiner(block) is None:
        return _no_reduction(block)
    return None


def _no_reduction(block: Block) -> str | None:
    """Updates of one element are taken in any order: is that right? Tuples of outputs are trusted to be reductions."""
    stores = [s for s in _statements(block.body) if isinstance(s, Store)]
    if len(stores) != 1:
        return None
    store = stores[0]
    buffer = store.buffer
    if sum(load.buffer is buffer for load in loads(store.value)) == 1 and _combines(store.value, buffer, None):
        return None
    return f"its update of {buffer.name} is no sum, product, minimum or maximum, so that the order of its steps counts"


def _combines(expr: Expr, buffer: Buffer, op: str | None) -> bool:
    """Is the loaded value combined by one commutative operation on the whole way up?"""
    if isinstance(expr, Load):
        return expr.buffer is buffer and op is not None
    if isinstance(expr, Binary | Logic) and expr.op in _COMMUTATIVE and op in (None, expr.op):
        return any(_combines(side, buffer, expr.op) for side in (expr.a, expr.b))
    # a - b is a + (-b).
    return isinstance(expr, Binary) and expr.op == "sub" and op in (None, "add") and _combines(expr.a, buffer, "add")


def _inner(block: Block) -> str | None:
    for stmt in _statements(block.body):
        if isinstance(stmt, BlockRealize):
            why = disorder(stmt.block)
            if why is not None:
                return f"in its block {stmt.block.name}, {why}"
    return None


def _statements(stmt: Stmt) -> Iterator[Stmt]:
    """The statements of a body, without those inside of inner blocks."""
    yield stmt
    below: tuple[Stmt, ...] = ()
    match stmt:
        case For() | Alloc():
            below = (stmt.body,)
        case Seq(stmts):
            below = stmts
        case If():
            below = (stmt.then,)
        case _:
            pass
    for each in below:
        yield from _statements(each)
