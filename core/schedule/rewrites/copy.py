"""Copy blocks of cache_read and cache_write, and their places: before the first reader, after the last writer.

At the top of the program a copy takes the whole buffer. Where the buffer is made inside of loops around its readers,
the copy stands in those loops too, and takes what one iteration needs or makes.
"""

from __future__ import annotations

from collections.abc import Sequence

from pegbox.errors import ScheduleError
from pegbox.expr.nodes import Buffer, Expr, Load, Var
from pegbox.loops.access.region import point
from pegbox.loops.nodes import Block, BlockIter, BlockRealize, For, IterKind, Seq, Stmt, Store, seq
from pegbox.loops.visit import common_path
from pegbox.schedule.analysis.required_region import common_conditions, needed_spans
from pegbox.schedule.errors import refuse
from pegbox.schedule.rewrites.placement import check_parallel, check_ready, check_target, first_position, insert, nest
from pegbox.schedule.rewrites.reverse_compute_at import Move
from pegbox.schedule.tree import Tree, children, with_allocs


def copy_block(name: str, extents: Sequence[int], source: Buffer, target: Buffer) -> Block:
    """`target[v] = source[v]` for each point v."""
    iters = tuple(BlockIter(Var(f"v{n}"), extent, IterKind.SPATIAL) for n, extent in enumerate(extents))
    where = tuple(it.var for it in iters)
    return assign_block(name, iters, target, where, Load(source, where))


def assign_block(
    name: str, iters: tuple[BlockIter, ...], target: Buffer, where: tuple[Expr, ...], value: Load
) -> Block:
    """`target[where] = value`."""
    body = Store(target, where, value)
    return Block(name, iters, (point(value.buffer, value.indices),), (point(target, where),), body)


def whole_nest(block: Block) -> Stmt:
    """Loops around a block, over all of its domain: `v0` gets a loop `ax0`."""
    return nest(block, {})


def before_readers(
    tree: Tree, block: Block, source: Buffer, target: Buffer, readers: Sequence[str], *, at: For | None = None
) -> Tree:
    """The program with a block that fills `target` from `source` before the readers, which read `target` already.

    Args:
        tree: the program in which the readers read `target`.
        at: a loop around all of the readers in which it is to stand.
    """
    nodes = [tree.blocks[name] for name in readers]
    writers = tree.writers(source)
    loop = _shared_loop(tree, source, nodes, writers) if at is None else at
    added = Tree(with_allocs(tree.func, add=(target,)))
    if loop is None:
        top = tree.top_of(nodes[0])
        _check_sequence(tree, source, writers, nodes[0])
        # Inside of a block, whose variables stand still there: what the block needs.
        around = {var for var, _ in tree.domain}
        made = nest(block, needed_spans(added, block, nodes, around) if around else {})
        return insert_at_top(added, top, made, after=False)
    check_target(tree, block.name, loop)
    place = added.loops[loop.var]
    first = added.child_of(place, nodes[0])
    position = next(n for n, child in enumerate(children(place)) if child is first)
    _check_sequence(tree, source, writers, nodes[0])
    if position < first_position(added, place, block):
        raise refuse(
            tree,
            f"{writers[0].block.name} makes {source.name} in loops inside of {loop.var.name}, in which it is read too",
            "give a loop further inside",
            loop.var,
            writers[0].block.name,
        )
    standing = {x.var for x in (*tree.ancestors(loop), loop)}
    made = nest(block, needed_spans(added, block, nodes, standing), common_conditions(nodes, standing))
    after = insert(added, place, made, position)
    check_ready(tree, after, block.name, loop)
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
    """The program with a block that copies `cached` to `original`, once the writers (of `cached` already) are done.

    Args:
        tree: the program in which the writers write `cached`.
        readers: the blocks that go on reading `original`.
        at: a loop around all of the writers in which it is to stand.
    """
    producers = [tree.blocks[name] for name in writers]
    users = [tree.blocks[name] for name in readers]
    ranks = {name: n for n, name in enumerate(tree.blocks)}
    early = [r for r in readers if ranks[r] < max(ranks[w] for w in writers)]
    if early:
        raise refuse(
            tree,
            f"{early[0]} reads {original.name} before {writers[-1]} has written it",
            "let it read the new buffer: name it in consumer_blocks",
            early[0],
            writers[-1],
        )
    loop = _shared_loop(tree, original, producers, users) if at is None else at
    added = Tree(with_allocs(tree.func, add=(cached,)))
    placed = insert_at_top(added, tree.top_of(producers[-1]), whole_nest(block), after=True)
    if loop is not None:
        return Move(placed, placed.blocks[block.name], placed.loops[loop.var]).done(is_copy=True)
    for name in writers:
        # What each iteration of a parallel loop had for itself may now be read outside of it.
        check_parallel(tree, placed, name)
    return placed


def insert_at_top(tree: Tree, top: Stmt, new: Stmt, *, after: bool) -> Tree:
    """The program with a statement before or after a top-level one."""
    body = tree.func.body
    stmts = body.stmts if isinstance(body, Seq) else (body,)
    place = next(n for n, s in enumerate(stmts) if s is top) + after
    return Tree(tree.func.with_body(seq(*stmts[:place], new, *stmts[place:])))


def _shared_loop(
    tree: Tree,
    buffer: Buffer,
    served: Sequence[BlockRealize],
    others: Sequence[BlockRealize],
) -> For | None:
    """The innermost loop around all of the `served` blocks in which one of the `others` stands too."""
    around = [tree.ancestors(node) for node in served]
    meeting = [x for x in common_path(around) if any(tree.is_under(other, x) for other in others)]
    found = meeting[-1] if meeting else None
    for node, loops in zip(served, around, strict=True):
        for other in others:
            deeper = [x for x in loops if tree.is_under(other, x)]
            if deeper and deeper[-1] is not found and (found is None or tree.is_under(deeper[-1], found)):
                raise _apart(tree, buffer, served, node, other, deeper[-1])
    return found


def _apart(
    tree: Tree,
    buffer: Buffer,
    served: Sequence[BlockRealize],
    near: BlockRealize,
    other: BlockRealize,
    loop: For,
) -> ScheduleError:
    far = [n.block.name for n in served if not tree.is_under(n, loop)]
    return refuse(
        tree,
        f"{near.block.name} and {other.block.name} meet in {loop.var.name}, but {', '.join(far)}, by which "
        f"{buffer.name} is used too, is not inside of it",
        "name the blocks that meet there in consumer_blocks, or make the copy first and move blocks after",
        loop.var,
        near.block.name,
        *far,
    )


def _check_sequence(tree: Tree, source: Buffer, writers: Sequence[BlockRealize], first: BlockRealize) -> None:
    ranks = {name: n for n, name in enumerate(tree.blocks)}
    late = [w.block.name for w in writers if ranks[w.block.name] > ranks[first.block.name]]
    if late:
        raise refuse(
            tree,
            f"{late[0]} writes {source.name} after {first.block.name} has read it",
            "copy it for the later readers only: name them in consumer_blocks",
            late[0],
            first.block.name,
        )
