"""Legality: the blocks of a program written by hand that may be reordered, and those that may be moved.

It is computed once, for the program that a schedule starts from: primitives preserve it. Programs that come from a
computation are not analyzed, as all of their blocks may be reordered and moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import prod

from pegbox.errors import ScheduleError
from pegbox.expr.build import TRUE, ZERO, conjuncts
from pegbox.expr.injectivity import determined
from pegbox.expr.nodes import Buffer, Compare, Const, Expr, Var
from pegbox.expr.simplify import simplified_linear, simplify
from pegbox.expr.visit import free_vars, substitute
from pegbox.loops.access.interval import Relaxation, interval, relaxation
from pegbox.loops.nodes import BlockRealize
from pegbox.schedule.analysis import reduce_values, spatial_values, variables, written_buffers
from pegbox.schedule.analysis.dependence import carried_dependence
from pegbox.schedule.analysis.recurrence import free_of_rows, read_rows
from pegbox.schedule.analysis.region_cover import covers_reads
from pegbox.schedule.analysis.write_cover import live_in
from pegbox.schedule.tree import Tree


@dataclass(frozen=True)
class Legality:
    """The reasons that blocks must keep their order (`sequential`) or their place (`immovable`), by block name."""

    sequential: Mapping[str, str]
    immovable: Mapping[str, str]

    def with_immovable(self, more: Mapping[str, str]) -> Legality:
        return replace(self, immovable={**self.immovable, **more})

    def check(self, tree: Tree, name: str, *, moves: bool) -> None:
        """Check that the block may be reordered and, with `moves`, moved."""
        if name in self.sequential:
            raise ScheduleError(
                f"the iterations of block {name} have to keep their order: {self.sequential[name]}",
                "split, fuse, unroll and annotate it only, or write it so that the iterations are independent",
                name,
            )
        if moves and name in self.immovable:
            raise ScheduleError(
                f"block {name} has to stay where it is: {self.immovable[name]}",
                "its own loops can be scheduled; to move it, write the program with a buffer for each value",
                name,
            )


UNRESTRICTED = Legality({}, {})


def legality(tree: Tree) -> Legality:
    """Analyze all blocks, and all pairs of blocks that use a buffer."""
    sequential: dict[str, str] = {}
    immovable: dict[str, str] = {}
    rows = free_of_rows(tree)
    for name, realize in tree.blocks.items():
        why = carried_dependence(realize.block, own_reads=name not in rows)
        if why is not None:
            sequential[name] = why
    for buffer in dict.fromkeys(b for r in tree.blocks.values() for b in written_buffers(r.block)):
        _restrict(tree, buffer, sequential, immovable)
    found = {name: _domain_gap(tree, realize) for name, realize in tree.blocks.items()}
    partial = {name: why for name, why in found.items() if why is not None}
    for buffer in tree.func.params:
        why = live_in(tree, buffer, partial)
        for writer in tree.writers(buffer) if why is not None else ():
            immovable.setdefault(writer.block.name, why or "")
    for name, why in partial.items():
        immovable.setdefault(name, why)
    return Legality(sequential, immovable) if sequential or immovable else UNRESTRICTED


def _restrict(tree: Tree, buffer: Buffer, sequential: dict[str, str], immovable: dict[str, str]) -> None:
    """Add the blocks that must keep their order or place because of the uses of a buffer."""
    rank = {name: n for n, name in enumerate(tree.blocks)}
    writers, readers = tree.writers(buffer), tree.readers(buffer)
    carried = [c for c in tree.carried if c.buffer is buffer]
    rows = {(c.writer.block.name, c.reader.block.name) for c in carried if read_rows(tree, c) is not None}
    for writer, reader in product(writers, readers):
        w, r = writer.block.name, reader.block.name
        if reader is writer or (w, r) in rows:
            continue
        early = rank[r] < rank[w]
        if _share_loops(tree, writer, reader) and (
            early or w in sequential or not covers_reads(tree, writer, buffer, reader)
        ):
            for name in (w, r):
                sequential.setdefault(name, f"{r} reads {buffer.name} in loops in which {w} goes on writing it")
        elif early:
            for user in (*writers, *readers):
                immovable.setdefault(user.block.name, f"{r} reads {buffer.name} before {w} writes it anew")
    for first, second in combinations(writers, 2):
        _restrict_writers(tree, buffer, first, second, sequential, immovable)


def _restrict_writers(
    tree: Tree,
    buffer: Buffer,
    first: BlockRealize,
    second: BlockRealize,
    sequential: dict[str, str],
    immovable: dict[str, str],
) -> None:
    a, b = first.block.name, second.block.name
    same = _covers_writes(tree, buffer, first, second) and _covers_writes(tree, buffer, second, first)
    if _share_loops(tree, first, second) and not same:
        for name in (a, b):
            sequential.setdefault(name, f"{a} and {b} take turns in writing {buffer.name}")
    starts = second.block.is_reduction and second.block.init is None and not first.block.is_reduction
    if not starts:
        immovable.setdefault(a, f"{b} writes {buffer.name} too")
        immovable.setdefault(b, f"{a} writes {buffer.name} too")


def _covers_writes(tree: Tree, buffer: Buffer, maker: BlockRealize, other: BlockRealize) -> bool:
    """Decide if the maker writes all elements that the other block writes, in each iteration of the common loops."""
    regions = tuple(w for w in other.block.writes if w.buffer is buffer)
    user = replace(other, block=replace(other.block, reads=regions))
    changed = Tree(tree.replace(other, user))
    return covers_reads(changed, changed.blocks[maker.block.name], buffer, user)


def _share_loops(tree: Tree, one: BlockRealize, other: BlockRealize) -> bool:
    mine = {x.var for x in tree.ancestors(one) if x.extent > 1}
    return any(x.var in mine for x in tree.ancestors(other))


def _domain_gap(tree: Tree, realize: BlockRealize) -> str | None:
    """Find a difference between the block's loops and its whole domain, over which its loops run once it is moved."""
    block = realize.block
    loops = {x.var for x in tree.ancestors(realize) if x.extent > 1}
    used = variables(realize.values) & loops
    if block.is_reduction:
        why = _reduction_again(tree, realize, loops - used)
        if why is not None:
            return why
    if realize.predicate is TRUE and used <= determined(realize.values, set(), tree.ranges):
        points = prod(it.extent for it in block.iters)
        if prod(tree.loops[v].extent for v in used) == points:
            return None
    seen: set[Var] = set()
    relax = relaxation(loops, tree.ranges, realize.predicate)
    for it, value in zip(block.iters, realize.values, strict=True):
        own = free_vars(value) & loops
        if own & seen:
            return f"its loops do not run over the domains of its variables one by one ({it.var.name})"
        seen |= own
        reached = interval(value, relax)
        if reached is None or not reached.exact or not reached.covers(it.extent):
            return f"its loops do not run over the whole domain of {it.var.name}"
        if it.is_reduce and not own <= determined([value], set(), tree.ranges):
            return f"its loops visit values of {it.var.name} again"
    return _more_than_borders(tree, realize, relax)


def _reduction_again(tree: Tree, realize: BlockRealize, unused: set[Var]) -> str | None:
    """Find a loop that repeats a reduction without initializing it again."""
    order = [x.var for x in tree.ancestors(realize)]
    reduce = variables(reduce_values(realize))
    first = next((n for n, var in enumerate(order) if var in reduce), len(order))
    again = [v for v in unused if realize.block.init is None or order.index(v) > first]
    if again:
        return f"it adds up again in each iteration of {again[0].name}"
    if variables(spatial_values(realize)) & reduce:
        return None
    start: dict[Var, Expr] = dict.fromkeys(reduce, ZERO)
    firsts = [simplified_linear(substitute(v, start), tree.ranges) for v in reduce_values(realize)]
    if realize.block.init is not None and any(f.terms or f.const for f in firsts):
        return "its first iteration is not where its reduction starts"
    return None


def _more_than_borders(tree: Tree, realize: BlockRealize, relax: Relaxation) -> str | None:
    """Find conditions that do more than keep variables in their domains."""
    borders = [
        (simplified_linear(v, tree.ranges), it.extent)
        for it, v in zip(realize.block.iters, realize.values, strict=True)
    ]
    for part in conjuncts(realize.predicate):
        simple = simplify(part, tree.ranges)
        if isinstance(simple, Const) and simple.value:
            continue
        if not isinstance(part, Compare) or not isinstance(part.b, Const):
            return "its predicate leaves out iterations of its domain"
        limit = part.b.integer
        form = simplified_linear(part.a, tree.ranges)
        upper = any(form.terms == f.terms and limit - form.const == n - f.const for f, n in borders)
        lower = any(form.terms == f.terms and limit - form.const <= -f.const for f, _ in borders)
        digit = part.op == "lt" and any(dict(form.terms) == dict(terms) for terms, _ in relax.caps)
        if not ((part.op == "lt" and (upper or digit)) or (part.op == "ge" and lower)):
            return "its predicate leaves out iterations of its domain"
    return None
