"""What is inside of a block, looked at as a program of its own, and put back after it was changed.

The tree of a program ends at blocks. A primitive on something inside of a block works on a function whose body is the
block's body: variables of the blocks around have ranges but no loops, buffers that something outside touches count as
parameters, and what is made inside joins the intermediate buffers of the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pegbox.errors import ScheduleError
from pegbox.expr.affine import constant, difference
from pegbox.expr.build import ZERO
from pegbox.expr.nodes import Buffer, Expr, Var
from pegbox.expr.visit import substitute
from pegbox.loops.nodes import Alloc, Block, BlockRealize, For, Function, Region, Stmt
from pegbox.loops.regions import read, written
from pegbox.loops.visit import blocks_below, children, walk, walk_nest
from pegbox.schedule.analysis_made import provides
from pegbox.schedule.analysis_region import Relaxation, interval
from pegbox.schedule.outline import refuse
from pegbox.schedule.tree import Tree

Path = tuple[str, ...]  # the blocks around, outermost first; empty at the top


class Focus:
    """A function, and what stands inside of the blocks of a path, as programs inside of each other."""

    def __init__(self, func: Function, path: Path) -> None:
        self.path = path
        self.functions = [func]
        for name in path:
            self.functions.append(inside(self.functions[-1], name))

    @property
    def innermost(self) -> Function:
        return self.functions[-1]

    def whole(self, changed: Function) -> Function:
        """The whole function with the innermost program exchanged.

        Raises:
            ScheduleError: see `put_back`.
        """
        for outer, before, name in zip(self.functions[-2::-1], self.functions[:0:-1], self.path[::-1], strict=True):
            changed = put_back(outer, name, before, changed)
        return changed


def common_home(func: Function, tree: Tree, handles: Iterable[str | Var]) -> Path:
    """Where the blocks and loops that a primitive is called on stand; those that are nowhere are left to it.

    Raises:
        ScheduleError: they stand inside of different blocks.
    """
    wanted = [h for h in handles if h is not None]
    nested = [h for h in wanted if h not in tree.blocks and h not in tree.loops]
    if not nested:
        return ()
    known = homes(func)
    places = {known.get(h, ()): h for h in wanted if h in known or h not in nested}
    if len(places) > 1:
        (one, first), (other, second) = list(places.items())[:2]
        raise refuse(
            tree,
            f"{_label(first)} stands {_inside(one)}, {_label(second)} {_inside(other)}",
            "give blocks and loops that stand inside of the same block",
            *one[:1],
            *other[:1],
        )
    return next(iter(places), ())


def _label(handle: str | Var) -> str:
    return handle if isinstance(handle, str) else handle.name


def _inside(path: Path) -> str:
    return f"inside of block {path[-1]}" if path else "at the top of the program"


def homes(func: Function) -> dict[str | Var, Path]:
    """Where blocks (by name) and loops (by variable) stand that are inside of blocks."""
    found: dict[str | Var, Path] = {}
    for realize in blocks_below(func.body):
        _collect(realize.block, (realize.block.name,), found)
    return found


def _collect(block: Block, path: Path, found: dict[str | Var, Path]) -> None:
    for node in walk_nest(block.body):
        if isinstance(node, For):
            found[node.var] = path
        elif isinstance(node, BlockRealize):
            found[node.block.name] = path
            _collect(node.block, (*path, node.block.name), found)


def inside(func: Function, name: str) -> Function:
    """The body of the block `name` as a program."""
    realize = _find(func, name)
    block = realize.block
    touched = set(_touched(block.body))
    shared = set(_touched(func.body, apart_from=realize)) | set(func.params)
    if block.init is not None:
        shared |= set(_touched(block.init))
    own = tuple(b for b in func.allocs if b in touched and b not in shared)
    visible = tuple(b for b in dict.fromkeys((*func.params, *func.allocs)) if b in touched and b not in own)
    return Function(
        func.name,
        visible,
        tuple(b for b in visible if any(w.buffer is b for w in block.writes)),
        block.body,
        own,
        func.attrs,
        domain=func.domain + tuple((it.var, it.extent) for it in block.iters),
        taken=Tree(func).names,
    )


def put_back(func: Function, name: str, before: Function, after: Function) -> Function:
    """The function with the body of the block exchanged; `before` is what `inside` gave, `after` what became of it.

    Raises:
        ScheduleError: what is seen outside of the block would change, or is not ready there.
    """
    if after.params != before.params:
        raise ScheduleError(
            f"block {name} shares its buffers with what is outside of it, where they would change too; "
            "do this before the blocks are made"
        )
    realize = _find(func, name)
    block = realize.block
    own = set(after.allocs)
    reads, writes = regions(block, after.body, own)
    changed = replace(block, body=after.body, reads=reads, writes=writes)
    tree = Tree(func)
    made = tree.replace(realize, BlockRealize(realize.values, changed, realize.predicate))
    gone = set(before.allocs) - own
    fresh = tuple(b for b in after.allocs if b not in before.allocs)
    result = replace(made, allocs=tuple(b for b in func.allocs if b not in gone) + fresh, attrs=after.attrs)
    _check_ready(tree, Tree(result), name)
    return result


def _check_ready(before: Tree, after: Tree, name: str) -> None:
    """What the block reads more than it did must be there: its producers may be inside of the same loops."""
    realize, old = after.blocks[name], before.blocks[name]
    known = old.block.reads
    for buffer in dict.fromkeys(r.buffer for r in realize.block.reads if not any(_same(r, k) for k in known)):
        for maker in after.writers(buffer):
            if maker is not realize and not provides(after, maker, buffer, realize):
                raise refuse(
                    before,
                    f"block {name} would read more of {buffer.name}, of which {maker.block.name} may have made only a "
                    "part by then",
                    "do this before the block is made, or copy the buffer outside of it",
                    name,
                    maker.block.name,
                )


def regions(block: Block, body: Stmt, own: set[Buffer]) -> tuple[tuple[Region, ...], tuple[Region, ...]]:
    """What a block reads and writes when it has another body, apart from buffers of its `own`.

    Regions on which nothing has changed stay as they were stated.
    """
    made = [_union(found) for found in _by_buffer(block, body, own, stores=True)]
    writes = _kept(block.writes, made)
    mine = {w.buffer for w in writes}
    wanted = [_union(found) for found in _by_buffer(block, body, own, stores=False)]
    stated = {r.buffer for r in block.reads}
    return _kept(block.reads, [r for r in wanted if r.buffer not in mine or r.buffer in stated]), writes


def _kept(old: Iterable[Region], new: list[Region]) -> tuple[Region, ...]:
    known = {r.buffer: r for r in old}
    return tuple(known[r.buffer] if r.buffer in known and _same(known[r.buffer], r) else r for r in new)


def _same(a: Region, b: Region) -> bool:
    return a.buffer is b.buffer and all(
        n == m and difference(x, y) == constant(0) for (x, n), (y, m) in zip(a.box, b.box, strict=True)
    )


def _by_buffer(block: Block, body: Stmt, own: set[Buffer], *, stores: bool) -> Iterator[list[Region]]:
    found: dict[Buffer, list[Region]] = {}
    local = own | {s.buffer for s in walk(body) if isinstance(s, Alloc)}
    ranges = {it.var: (0, it.extent - 1) for it in block.iters}
    for region in _relaxed(body, {}, ranges, set(), stores):
        if region.buffer not in local:
            found.setdefault(region.buffer, []).append(region)
    yield from found.values()


def _relaxed(
    stmt: Stmt, values: dict[Var, Expr], ranges: dict[Var, tuple[int, int]], running: set[Var], stores: bool
) -> Iterator[Region]:
    """The regions of all accesses, over all iterations of the loops inside."""
    if isinstance(stmt, For):
        ranges[stmt.var] = (0, stmt.extent - 1)
        running.add(stmt.var)
    if isinstance(stmt, BlockRealize):
        bound = {it.var: substitute(v, values) for it, v in zip(stmt.block.iters, stmt.values, strict=True)}
        values = {**values, **bound}
    for region in written(stmt) if stores else read(stmt):
        yield _region(region, values, Relaxation(set(running), ranges))
    for child in children(stmt):
        yield from _relaxed(child, values, ranges, running, stores)


def _region(region: Region, values: dict[Var, Expr], relax: Relaxation) -> Region:
    box: list[tuple[Expr, int]] = []
    for (lo, count), extent in zip(region.box, region.buffer.shape, strict=True):
        reached = interval(substitute(lo, values), relax)
        box.append(_all(extent) if reached is None else (reached.lo.to_expr(), reached.width + count))
    return Region(region.buffer, tuple(box))


def _all(extent: int) -> tuple[Expr, int]:
    return ZERO, extent


def _union(found: list[Region]) -> Region:
    """The smallest box around several; whole dimensions where their places cannot be compared."""
    result = found[0]
    for other in found[1:]:
        box = [
            _hull(a, b, extent) for a, b, extent in zip(result.box, other.box, result.buffer.shape, strict=True)
        ]
        result = Region(result.buffer, tuple(box))
    return result


def _hull(a: tuple[Expr, int], b: tuple[Expr, int], extent: int) -> tuple[Expr, int]:
    gap = difference(b[0], a[0])
    if not gap.is_const:
        return _all(extent)
    first, last = min(0, gap.const), max(a[1], gap.const + b[1])
    return (a[0] if first == 0 else b[0]), last - first


def _touched(stmt: Stmt, apart_from: BlockRealize | None = None) -> Iterator[Buffer]:
    if stmt is apart_from:
        return
    for region in (*written(stmt), *read(stmt)):
        yield region.buffer
    for child in children(stmt):
        yield from _touched(child, apart_from)


def _find(func: Function, name: str) -> BlockRealize:
    return next(r for r in blocks_below(func.body) if r.block.name == name)
