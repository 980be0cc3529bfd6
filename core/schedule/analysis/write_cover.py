"""Write cover: the parameters that a program does not write completely, so a copy must start from their values."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence

from pegbox.errors import ExprError
from pegbox.expr.affine import linear
from pegbox.expr.build import TRUE, add, logical_not
from pegbox.expr.equal import same
from pegbox.expr.index_layout import covers
from pegbox.expr.index_map import IndexMap
from pegbox.expr.nodes import Buffer, Expr, Var
from pegbox.expr.visit import free_vars, substitute
from pegbox.loops.access.region import read, written
from pegbox.loops.nodes import Alloc, Block, BlockRealize, For, If, Region, Seq, Stmt
from pegbox.loops.visit import children, walk
from pegbox.schedule.tree import Tree

Domain = dict[Var, int]


def live_in(tree: Tree, buffer: Buffer, partial: Container[str]) -> str | None:
    """Find elements of a parameter that keep or use their initial values; None if all of it is computed anew.

    Blocks that write every element of a part of a buffer keep no value of that part.

    Args:
        partial: the blocks whose loops do not visit their whole domain.
    """
    writers = tree.writers(buffer)
    if buffer not in tree.func.params or not any(_writes_part(w, buffer) for w in writers):
        return None
    again = [w.block.name for w in writers if _goes_on(w.block.body, buffer) and w.block.init is None]
    fresh = [w for w in writers if w.block.name not in again and w.block.name not in partial]
    try:
        if covers([place for w in fresh for place in _places(w, buffer)], buffer.shape):
            return None
    except ExprError:  # places that are read from memory
        pass
    if again:
        return f"{again[0]} goes on from what the caller has put in {buffer.name}"
    writer = next(w.block.name for w in writers if _writes_part(w, buffer))
    return f"{writer} may leave elements of {buffer.name} as they are, with what the caller has put there"


def _writes_part(writer: BlockRealize, buffer: Buffer) -> bool:
    """Check if the block updates existing values, stores under conditions, or declares boxes that it might not fill."""
    block = writer.block
    boxes = any(n > 1 for w in block.writes if w.buffer is buffer for _, n in w.box)
    below = list(walk(block.body))
    return boxes or any(isinstance(s, If | BlockRealize) for s in below) or _goes_on(block.body, buffer)


def _goes_on(stmt: Stmt, buffer: Buffer) -> bool:
    """Check if a statement reads the buffer, other than to continue from its own start."""
    if isinstance(stmt, BlockRealize) and stmt.block.init is not None:
        return False
    if any(region.buffer is buffer for region in read(stmt)) and not isinstance(stmt, BlockRealize):
        return True
    return any(_goes_on(child, buffer) for child in children(stmt))


def _places(writer: BlockRealize, buffer: Buffer) -> Iterator[tuple[IndexMap, tuple[int, ...]]]:
    """Yield the places that a block writes under no condition."""
    domain: Domain = {it.var: it.extent for it in writer.block.iters}
    for region in _stores(writer.block.body, {}, domain):
        if region.buffer is buffer:
            yield places_of(region, domain)


def fills(block: Block, region: Region) -> bool:
    """Check if each run of a block stores every element of a box that it declares, for any data."""
    domain: Domain = {}
    places = []
    for stored in _stores(block.body, {}, domain):
        if stored.buffer is region.buffer:
            from_corner = [
                linear(at).minus(linear(lo)) for (at, _), (lo, _) in zip(stored.box, region.box, strict=True)
            ]
            box = [(form.to_expr(), n) for form, (_, n) in zip(from_corner, stored.box, strict=True)]
            if all(free_vars(lo) <= domain.keys() for lo, _ in box):
                places.append(places_of(Region(region.buffer, tuple(box)), domain))
    try:
        return covers(places, tuple(count for _, count in region.box))
    except ExprError:  # places that are read from memory
        return False


def places_of(region: Region, domain: Domain) -> tuple[IndexMap, tuple[int, ...]]:
    """Return the elements of a region over the variables of a domain in the form of `covers`: a map and its extents."""
    inside = [(Var(f"e{dim}"), n) for dim, (_, n) in enumerate(region.box)]
    indices = [add(lo, var) if n > 1 else lo for (lo, _), (var, n) in zip(region.box, inside, strict=True)]
    used = set().union(*map(free_vars, indices))
    mine = [(var, n) for var, n in (*domain.items(), *inside) if var in used]
    return IndexMap([var for var, _ in mine], indices), tuple(n for _, n in mine)


def _stores(stmt: Stmt, values: Mapping[Var, Expr], domain: Domain) -> list[Region]:
    """Return the stores that no condition guards, over the variables in `domain`, to which inner loops are added."""
    match stmt:
        case For(var, extent, body):
            domain[var] = extent
            return _stores(body, values, domain)
        case Alloc():
            return _stores(stmt.body, values, domain)
        case Seq(stmts):
            sure = [region for each in stmts for region in _stores(each, values, domain)]
            tests = [each for each in stmts if isinstance(each, If)]
            return sure + [r for n, one in enumerate(tests) for r in _in_both(one, tests[n + 1 :], values, domain)]
        case If():
            return []
        case BlockRealize(bound, block, predicate):
            inner = {it.var: substitute(v, values) for it, v in zip(block.iters, bound, strict=True)}
            return _stores(block.body, {**values, **inner}, domain) if predicate is TRUE else []
        case _:
            return [Region(r.buffer, tuple((substitute(lo, values), n) for lo, n in r.box)) for r in written(stmt)]


def _in_both(one: If, others: Sequence[If], values: Mapping[Var, Expr], domain: Domain) -> list[Region]:
    """List the regions that are stored both if the condition holds and if it does not: `else` is a separate test."""
    otherwise = logical_not(one.condition)
    branches = [other.then for other in others if same(other.condition, otherwise)]
    missed = [region for branch in branches for region in _stores(branch, values, domain)]
    return [r for r in _stores(one.then, values, domain) if any(_equal(r, other) for other in missed)]


def _equal(one: Region, other: Region) -> bool:
    pairs: Sequence[tuple[tuple[Expr, int], tuple[Expr, int]]] = list(zip(one.box, other.box, strict=False))
    return one.buffer is other.buffer and all(same(a, b) and n == m for (a, n), (b, m) in pairs)
