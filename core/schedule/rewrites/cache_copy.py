"""The copy blocks of cache_read and cache_write, and their places: before the first reader, after the last writer.

At the top of the program, a copy takes the whole buffer. If the buffer is computed inside loops around its readers, the
copy is in those loops, too, and takes the elements that one iteration needs or computes.
"""

from __future__ import annotations

from collections.abc import Sequence

from pegbox.errors import ScheduleError
from pegbox.expr.nodes import Buffer, Expr, Load, Var
from pegbox.loops.access.region import reads_and_writes
from pegbox.loops.nodes import Block, BlockIter, BlockRealize, For, IterKind, Seq, Stmt, Store, seq
from pegbox.loops.visit import common_path
from pegbox.schedule.analysis.checks import check_no_lanes
from pegbox.schedule.analysis.required_region import common_conditions, needed_spans
from pegbox.schedule.errors import showing
from pegbox.schedule.rewrites.placement import MOVE_FIRST, check_parallel, check_ready, first_position, insert, nest
from pegbox.schedule.rewrites.reverse_compute_at import Move
from pegbox.schedule.state.buffers import fresh_buffer_name, has_gaps, redirect
from pegbox.schedule.tree import Tree, children, with_allocs


def fresh_iters(shape: Sequence[int]) -> tuple[BlockIter, ...]:
    """Make spatial variables `v0`, `v1`, ... over a shape."""
    return tuple(BlockIter(Var(f"v{n}"), extent, IterKind.SPATIAL) for n, extent in enumerate(shape))


def store_block(name: str, iters: tuple[BlockIter, ...], target: Buffer, where: tuple[Expr, ...], value: Expr) -> Block:
    """Return the block `target[where] = value`."""
    body = Store(target, where, value)
    return Block(name, iters, *reads_and_writes(body), body)


def copy_block(name: str, extents: Sequence[int], source: Buffer, target: Buffer) -> Block:
    """Return the block `target[v] = source[v]` for each point v."""
    iters = fresh_iters(extents)
    where = tuple(it.var for it in iters)
    return store_block(name, iters, target, where, Load(source, where))


def read_through_copy(
    tree: Tree, source: Buffer, scope: str, name: str, readers: Sequence[str], *, at: Var | None = None
) -> tuple[Tree, str]:
    """Return the program in which blocks read a copy of a buffer, and the name of the block that fills the copy.

    Args:
        name: the block on which the primitive is called.
        at: a loop around all of the readers, for a copy inside it.
    """
    copy = _copy_buffer(tree, source, scope, name)
    changed = redirect(tree, readers, source, copy)
    block = copy_block(copy.name, source.shape, source, copy)
    loop = None if at is None else changed.loops[at]
    return before_readers(changed, block, source, copy, readers, at=loop), copy.name


def write_through_copy(
    tree: Tree, target: Buffer, scope: str, name: str, served: Sequence[str] = (), *, at: For | None = None
) -> tuple[Tree, str]:
    """Return the program in which the writers of a buffer write to a new one, and the copying block's name.

    Args:
        name: the block on which the primitive is called.
        served: the readers that read the new buffer.
        at: a loop around all of the writers, for a copy inside it.
    """
    copy = _copy_buffer(tree, target, scope, name)
    writers = [w.block.name for w in tree.writers(target)]
    rest = [r.block.name for r in tree.readers(target) if r.block.name not in {*served, *writers}]
    changed = redirect(tree, [*writers, *(n for n in served if n not in writers)], target, copy)
    block = copy_block(copy.name, target.shape, copy, target)
    return after_writers(changed, block, copy, target, writers, rest, at=at), copy.name


def _copy_buffer(tree: Tree, original: Buffer, scope: str, name: str) -> Buffer:
    """Return a buffer like another one, in a given scope, with a new name."""
    if has_gaps(tree, original):
        raise ScheduleError(
            f"the padding of {original.name} is never written, so the whole buffer cannot be copied",
            "make the copy before transform_layout, or give transform_layout a pad_value",
            name,
        )
    return Buffer(copy_name(tree, original, scope), original.shape, original.dtype, scope)


def copy_name(tree: Tree, original: Buffer, scope: str) -> str:
    """Return a new name for a copy of a buffer in a scope."""
    return fresh_buffer_name(tree, f"{original.name}_{scope.replace('.', '_')}")


def before_readers(
    tree: Tree, block: Block, source: Buffer, target: Buffer, readers: Sequence[str], *, at: For | None = None
) -> Tree:
    """Add a block that fills `target` from `source` before the readers, which already read `target`.

    Args:
        tree: the program in which the readers read `target`.
        at: a loop around all of the readers, for the block inside it.
    """
    nodes = [tree.blocks[name] for name in readers]
    writers = tree.writers(source)
    loop = _shared_loop(tree, source, nodes, writers) if at is None else at
    check_no_lanes(tree, loop, MOVE_FIRST, block.name)
    ranks = {name: n for n, name in enumerate(tree.blocks)}
    late = [w.block.name for w in writers if ranks[w.block.name] > ranks[readers[0]]]
    if late:
        raise ScheduleError(
            f"{late[0]} writes {source.name} after {readers[0]} has read it",
            "copy it for the later readers only: name them in consumer_blocks",
            late[0],
            readers[0],
        )
    added = Tree(with_allocs(tree.func, add=(target,)))
    if loop is None:
        # A copy inside a block takes only the part that the block needs, as the block's variables are fixed there.
        around = {var for var, _ in tree.domain}
        filled = nest(block, needed_spans(added, block, nodes, around) if around else {})
        return insert_at_top(added, tree.top_of(nodes[0]), filled, after=False)
    place = added.loops[loop.var]
    first = added.child_of(place, nodes[0])
    position = next(n for n, child in enumerate(children(place)) if child is first)
    if position < first_position(added, place, block):
        raise ScheduleError(
            f"{writers[0].block.name} computes {source.name} in loops inside {loop.var.name}, where it is also read",
            "give an inner loop",
            loop.var,
            writers[0].block.name,
        )
    fixed = {x.var for x in (*tree.ancestors(loop), loop)}
    filled = nest(block, needed_spans(added, block, nodes, fixed), common_conditions(nodes, fixed, added.ranges))
    after = insert(added, place, filled, position)
    check_ready(after, block.name, loop)
    check_parallel(tree, after, block.name)
    return after


def after_writers(
    tree: Tree,
    block: Block,
    cached: Buffer,
    original: Buffer,
    writers: Sequence[str],
    readers: Sequence[str],
    *,
    at: For | None = None,
) -> Tree:
    """Add a block that copies `cached` to `original` after the writers, which already write `cached`.

    Args:
        tree: the program in which the writers write `cached`.
        readers: the blocks that still read `original`.
        at: a loop around all of the writers, for the block inside it.
    """
    producers = [tree.blocks[name] for name in writers]
    users = [tree.blocks[name] for name in readers]
    ranks = {name: n for n, name in enumerate(tree.blocks)}
    early = [r for r in readers if ranks[r] < max(ranks[w] for w in writers)]
    if early:
        raise ScheduleError(
            f"{early[0]} reads {original.name} before {writers[-1]} has written it",
            "let it read the new buffer: name it in consumer_blocks",
            early[0],
            writers[-1],
        )
    loop = _shared_loop(tree, original, producers, users) if at is None else at
    added = Tree(with_allocs(tree.func, add=(cached,)))
    placed = insert_at_top(added, tree.top_of(producers[-1]), nest(block), after=True)
    if loop is not None:
        with showing(placed):
            return Move(placed, placed.blocks[block.name], placed.loops[loop.var]).done(is_copy=True)
    for name in writers:
        # A buffer of which each iteration of a parallel loop had its own may now be read outside the loop.
        check_parallel(tree, placed, name)
    return placed


def insert_at_top(tree: Tree, top: Stmt, new: Stmt, *, after: bool) -> Tree:
    """Return the program with a statement before or after a top-level one."""
    body = tree.func.body
    stmts = body.stmts if isinstance(body, Seq) else (body,)
    place = next(n for n, s in enumerate(stmts) if s is top) + after
    return Tree(tree.func.with_body(seq(*stmts[:place], new, *stmts[place:])))


def _shared_loop(
    tree: Tree, buffer: Buffer, served: Sequence[BlockRealize], others: Sequence[BlockRealize]
) -> For | None:
    """Return the innermost loop around all of the `served` blocks and one of the `others`."""
    around = [tree.ancestors(node) for node in served]
    meeting = [x for x in common_path(around) if any(tree.is_under(other, x) for other in others)]
    found = meeting[-1] if meeting else None
    for node, loops in zip(served, around, strict=True):
        for other in others:
            deeper = [x for x in loops if tree.is_under(other, x)]
            if deeper and deeper[-1] is not found and (found is None or tree.is_under(deeper[-1], found)):
                far = [n.block.name for n in served if not tree.is_under(n, deeper[-1])]
                raise ScheduleError(
                    f"{node.block.name} and {other.block.name} meet in {deeper[-1].var.name}, but {', '.join(far)}, "
                    f"which uses {buffer.name} too, is not inside it",
                    "name the blocks that meet there in consumer_blocks, or make the copy first and move blocks after",
                    deeper[-1].var,
                    node.block.name,
                    *far,
                )
    return found
