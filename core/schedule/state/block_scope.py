"""Block scope: the inside of a block, treated as a separate program and put back after a change.

The tree of a program ends at blocks. A primitive on something inside a block works on a function whose body is the
block's body: variables of the blocks around have ranges but no loops, buffers that are also used outside count as
parameters, and new buffers become intermediates of the whole function.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pegbox.errors import ScheduleError
from pegbox.expr.nodes import Buffer, Var
from pegbox.loops.access.block_region import contained, derived_regions
from pegbox.loops.access.region import read, written
from pegbox.loops.nodes import Block, BlockRealize, For, Function, Region, Stmt
from pegbox.loops.passes.notes import with_writes
from pegbox.loops.visit import blocks_below, children, iter_ranges, walk, walk_nest
from pegbox.schedule.analysis.region_cover import covers_reads
from pegbox.schedule.errors import showing
from pegbox.schedule.tree import BlockBody, Tree

Path = tuple[str, ...]  # the blocks around, outermost first; empty at the top


class BlockScope:
    """A function and the bodies of the blocks on a path, as nested programs."""

    def __init__(self, func: Function, path: Path) -> None:
        self.path = path
        self.functions = [func]
        for name in path:
            self.functions.append(block_body(self.functions[-1], name))

    @property
    def innermost(self) -> Function:
        return self.functions[-1]

    def rebuilt(self, changed: Function) -> Function:
        """Return the whole function with the innermost program replaced.

        Raises:
            ScheduleError: see `replace_body`.
        """
        for outer, before, name in zip(self.functions[-2::-1], self.functions[:0:-1], self.path[::-1], strict=True):
            changed = replace_body(outer, name, before, changed)
        return changed


def common_path(func: Function, tree: Tree, handles: Iterable[str | Var]) -> Path:
    """Find the path to the blocks and loops that a primitive is called on, ignoring those that do not exist.

    Raises:
        ScheduleError: they are inside different blocks.
    """
    wanted = [h for h in handles if h is not None]
    nested = [h for h in wanted if h not in tree.blocks and h not in tree.loops]
    if not nested:
        return ()
    known = nested_paths(func)
    nested = [h for h in nested if h in known]
    if not nested:
        return ()
    places = {known.get(h, ()): h for h in wanted if h in nested or h in tree.blocks or h in tree.loops}
    if len(places) > 1:
        (one, first), (other, second) = list(places.items())[:2]
        raise ScheduleError(
            f"{_label(first)} is {_inside(one)}, {_label(second)} {_inside(other)}",
            "give blocks and loops that are inside the same block",
            *one[:1],
            *other[:1],
        )
    return next(iter(places), ())


def _label(handle: str | Var) -> str:
    return handle if isinstance(handle, str) else handle.name


def _inside(path: Path) -> str:
    return f"inside block {path[-1]}" if path else "at the top of the program"


def nested_paths(func: Function) -> dict[str | Var, Path]:
    """Find the paths to blocks (by name) and loops (by variable) that are inside blocks."""
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


def block_body(func: Function, name: str) -> Function:
    """Return the body of the block `name` as a program."""
    realize = _find(func, name)
    block = realize.block
    touched = set(_touched(block.body))
    shared = set(_touched(func.body, apart_from=realize)) | set(func.params)
    if block.init is not None:
        shared |= set(_touched(block.init))
    own = tuple(b for b in func.allocs if b in touched and b not in shared)
    visible = tuple(b for b in dict.fromkeys((*func.params, *func.allocs)) if b in touched and b not in own)
    tree = Tree(func)
    return BlockBody(
        func.name,
        visible,
        tuple(b for b in visible if any(w.buffer is b for w in block.writes)),
        block.body,
        own,
        func.attrs,
        domain=tree.domain + tuple((it.var, it.extent) for it in block.iters),
        taken=tree.names,
    )


def replace_body(func: Function, name: str, before: Function, after: Function) -> Function:
    """Return the function with the block's body `before`, which `block_body` gave, replaced by `after`.

    Raises:
        ScheduleError: values that are used outside the block would change, or inputs would not be ready.
    """
    if after.params != before.params:
        raise ScheduleError(
            f"block {name} shares its buffers with statements outside it, which would change, too",
            "do this before the blocks are made",
        )
    if any(isinstance(s, For) and s.kind.is_bound for s in walk(after.body)):
        raise ScheduleError(f"block {name} is what one thread does", "bind the loops around it to thread axes instead")
    realize = _find(func, name)
    block = realize.block
    own = set(after.allocs)
    reads, writes = derived_regions(block.iters, after.body, block.init)
    ordered = _in_order(writes, block.writes)
    changed = replace(
        block,
        body=after.body,
        reads=_in_order(reads, block.reads),
        writes=ordered,
        annotations=with_writes(block, ordered),
    )
    tree = Tree(func)
    made = tree.replace(realize, BlockRealize(realize.values, changed, realize.predicate))
    gone = set(before.allocs) - own
    fresh = tuple(b for b in after.allocs if b not in before.allocs)
    result = replace(made, allocs=tuple(b for b in func.allocs if b not in gone) + fresh, attrs=after.attrs)
    with showing(tree):  # the refusal uses the names of this program, not of the whole one
        _check_seen(tree, Tree(result), name, before.params)
    return result


def _check_seen(before: Tree, after: Tree, name: str, seen: Iterable[Buffer]) -> None:
    """Check that the block behaves the same to the outside: it writes no more, and reads no more initial values.

    Additional reads must be ready: their producers may be inside the same loops.
    """
    new, old = after.blocks[name].block, before.blocks[name].block
    ranges = iter_ranges(new.iters)
    for buffer in seen:
        wider = [r for r in new.writes if r.buffer is buffer and not contained(r, old.writes, ranges)]
        if wider or (_goes_on(old.body, buffer) and not _goes_on(new.body, buffer)):
            why = "would write more of it than it does" if wider else "goes on with what is in it before"
            raise ScheduleError(
                f"{buffer.name} is used outside block {name}, which {why}",
                "do this before the block is made, or to the whole block",
                name,
            )
    more = [r.buffer for r in new.reads if not contained(r, old.reads, ranges)]
    for buffer in dict.fromkeys(more):
        for producer in after.writers(buffer):
            if producer.block is not new and not covers_reads(after, producer, buffer, after.blocks[name]):
                raise ScheduleError(
                    f"block {name} would read more of {buffer.name}, of which {producer.block.name} may have made only "
                    "a part by then",
                    "do this before the block is made, or copy the buffer outside it",
                    name,
                    producer.block.name,
                )


def _in_order(found: Iterable[Region], before: Iterable[Region]) -> tuple[Region, ...]:
    """Return the regions in their previous order, new ones last: annotations and primitives use their positions."""
    order = [r.buffer for r in before]
    return tuple(sorted(found, key=lambda r: order.index(r.buffer) if r.buffer in order else len(order)))


def _goes_on(body: Stmt, buffer: Buffer) -> bool:
    """Check if the body both reads and writes the buffer, like a reduction that is initialized elsewhere."""
    inner = [s for s in walk(body) if not isinstance(s, BlockRealize)]
    return all(any(region.buffer is buffer for s in inner for region in found(s)) for found in (read, written))


def _touched(stmt: Stmt, apart_from: BlockRealize | None = None) -> Iterator[Buffer]:
    if stmt is apart_from:
        return
    for region in (*written(stmt), *read(stmt)):
        yield region.buffer
    for child in children(stmt):
        yield from _touched(child, apart_from)


def _find(func: Function, name: str) -> BlockRealize:
    return next(r for r in blocks_below(func.body) if r.block.name == name)
