"""Legal places and new loops of a moved block, for compute_at and reverse_compute_at."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from pegbox.errors import ScheduleError
from pegbox.expr.affine import Linear
from pegbox.expr.build import TRUE, ZERO, compare, conjuncts, index, logical_and
from pegbox.expr.equal import same
from pegbox.expr.nodes import Buffer, Expr, Var
from pegbox.loops.nodes import Block, BlockIter, BlockRealize, For, Stmt, seq
from pegbox.schedule.analysis import read_buffers, written_buffers
from pegbox.schedule.analysis.loop_kinds import check_kinds
from pegbox.schedule.analysis.recurrence import later_writers
from pegbox.schedule.analysis.region_cover import covers_reads
from pegbox.schedule.analysis.required_region import Span
from pegbox.schedule.tree import Tree, children
from pegbox.shown import value_text

_WHOLE: Mapping[Var, Span] = {}
MOVE_FIRST = "move blocks first, then vectorize the loops of each"


def nest(
    block: Block, spans: Mapping[Var, Span] = _WHOLE, conditions: Iterable[Expr] = (), *, unit_loops: bool = True
) -> Stmt:
    """Put fresh loops around a block, one for each of its variables: first the spatial ones in order, then the others.

    Variables without a span run over their whole domain; `conditions` join the guards in the predicate. Without
    `unit_loops`, loops of a single iteration are omitted.
    """
    values: list[Expr] = []
    predicate: Expr = TRUE
    loops: list[tuple[BlockIter, Var, int]] = []
    for it in block.iters:
        var, found = Var(loop_name(it)), spans.get(it.var)
        if found is None:
            values.append(var if it.extent > 1 or unit_loops else ZERO)
            loops.append((it, var, it.extent))
            continue
        value = Linear({**found.lo.terms, var: 1} if found.extent > 1 else found.lo.terms, found.lo.const)
        values.append(value.to_expr())
        loops.append((it, var, found.extent))
        predicate = logical_and(predicate, _guard(value, found, it))
    for condition in conditions:
        if not any(same(condition, known) for known in conjuncts(predicate)):
            predicate = logical_and(predicate, condition)
    body: Stmt = BlockRealize(tuple(values), block, predicate)
    loops.sort(key=lambda entry: entry[0].is_reduce)
    for _, var, extent in reversed(loops):
        body = For(var, extent, body) if extent > 1 or unit_loops else body
    return body


def loop_name(it: BlockIter) -> str:
    """Return the name of a loop for a block variable: `i` for `vi`."""
    name = it.var.name
    if len(name) < 2 or not name.startswith("v"):
        return name
    return f"ax{name[1:]}" if name[1].isdigit() else name[1:]


def _guard(value: Linear, found: Span, it: BlockIter) -> Expr:
    """Return the conditions that keep the value in its domain, with loops on the left and the constant on the right."""
    guard: Expr = TRUE
    if found.guard_low or found.guard_high:
        loops = Linear(value.terms, 0).to_expr()
        if found.guard_low:
            guard = compare("ge", loops, index(-value.const))
        if found.guard_high:
            guard = logical_and(guard, compare("lt", loops, index(it.extent - value.const)))
    return guard


def moved(
    tree: Tree,
    rest: Tree,
    realize: BlockRealize,
    loop: For,
    new: Stmt,
    index: int,
    *,
    apart_from: Collection[str] = (),
) -> Tree:
    """Return the program with a block in a loop.

    Args:
        rest: the program without the block.
        new: the block in its new nest.
        index: its position among the children of the loop: -1 for the last legal one, -2 for the first.
        apart_from: the producers known to compute enough in each iteration; the block comes after them.

    Raises:
        ScheduleError: an input of the block is not ready there, or a consumer of the block comes earlier.
    """
    name, target = realize.block.name, rest.loops[loop.var]
    buffers = read_buffers(realize.block)
    later = later_writers(tree, realize, buffers)
    last = last_position(rest, target, realize.block)
    ranks = {block: n for n, block in enumerate(rest.blocks)}
    place = rank(rest, target, last, ranks)
    for buffer in buffers:
        for producer in rest.writers(buffer):
            if producer.block.name not in later and ranks[producer.block.name] >= place:
                raise _not_ready(name, loop, buffer, producer.block.name, "runs later")
    first = first_position(rest, target, realize.block, later=set(later).difference(apart_from))
    position = {-1: last, -2: first}.get(index, index)
    if not first <= position <= last and index not in (-1, -2):
        raise ScheduleError(
            f"at position {value_text(index)} of the {len(children(target))} "
            f"statement(s) of {loop.var.name}, {name} would lack inputs, or come after its consumers",
            f"give a position from {first} to {last}, -1 for the last or -2 for the first of them",
            loop.var,
            name,
        )
    result = insert(rest, target, new, position)
    check_ready(result, name, loop, apart_from=apart_from)
    check_parallel(tree, result, name)
    return result


def first_position(tree: Tree, loop: For, block: Block, *, later: Collection[str] = ()) -> int:
    """Return the first position among the children of the loop after all producers of the block in it.

    Args:
        later: the producers that need not come first, because their values come from earlier iterations.
    """
    producers = [
        w for b in read_buffers(block) for w in tree.writers(b) if w.block.name not in later and tree.is_under(w, loop)
    ]
    kids = [tree.child_of(loop, w) for w in producers]
    return 1 + max((n for n, child in enumerate(children(loop)) if any(child is k for k in kids)), default=-1)


def last_position(tree: Tree, loop: For, block: Block) -> int:
    """Return the last position among the loop's children that comes before all readers of the block's results."""
    readers = [r for b in written_buffers(block) for r in tree.readers(b) if tree.is_under(r, loop)]
    kids = [tree.child_of(loop, r) for r in readers]
    body = children(loop)
    return min((n for n, child in enumerate(body) if any(child is k for k in kids)), default=len(body))


def insert(tree: Tree, loop: For, new: Stmt, position: int) -> Tree:
    """Return the program with another statement in the body of a loop."""
    body = list(children(loop))
    body.insert(position, new)
    return Tree(tree.replace(loop, loop.with_body(seq(*body))))


def check_ready(after: Tree, name: str, loop: For, *, apart_from: Collection[str] = ()) -> None:
    """Check that the producers that share loops with block `name` at its new place compute enough in each iteration.

    `after` has the block at its new place. Producers in `apart_from` have been checked already.

    Raises:
        ScheduleError: it cannot be shown that a producer computes all that is needed.
    """
    moved = after.blocks[name]
    later = later_writers(after, moved, read_buffers(moved.block))
    shared = {c.writer.block.name for c in after.carried if c.reader is moved and c.shared} if later else ()
    for buffer in read_buffers(moved.block):
        for producer in after.writers(buffer):
            if producer.block.name in shared or producer.block.name in apart_from:
                continue  # `check_rows` checks reads of earlier rows, after each step
            if producer.block.name in later or not covers_reads(after, producer, buffer, moved):
                why = "may have made only a part of it by then"
                raise _not_ready(name, loop, buffer, producer.block.name, why)


def _not_ready(name: str, loop: For, buffer: Buffer, producer: str, why: str) -> ScheduleError:
    return ScheduleError(
        f"{name} reads {buffer.name}, but {producer}, which makes it, {why}",
        "attach from the output back to the inputs, or attach to another loop",
        loop.var,
        name,
        producer,
    )


def rank(tree: Tree, loop: For, position: int, ranks: Mapping[str, int]) -> int:
    """Return the place in program order of a statement inserted as child `position` of the loop."""
    kids = children(loop)
    if position < len(kids):
        following = kids[position]
        return min(ranks[n] for n, r in tree.blocks.items() if tree.is_under(r, following))
    return max(ranks[n] for n, r in tree.blocks.items() if tree.is_under(r, loop)) + 1


def check_parallel(before: Tree, after: Tree, moved: str) -> None:
    """Check that parallel and thread loops around the new and the old place of a block stay sound.

    Buffers of which each iteration of a loop had its own may now be used outside the loop. An inlined block has no new
    place.
    """
    places = [tree.ancestors(tree.blocks[moved]) for tree in (before, after) if moved in tree.blocks]
    above = {x.var: None for place in places for x in place if x.kind.is_concurrent and x.var in after.loops}
    if above:
        check_kinds(after, above)
