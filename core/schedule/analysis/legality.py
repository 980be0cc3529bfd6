"""Which blocks of a program that people wrote must keep their order, and which their place?

The survey is made once, of the program that a schedule starts from: primitives keep orderly programs orderly. What
comes from a computation needs none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from pegbox.expr.build import TRUE, ZERO, conjuncts
from pegbox.expr.injectivity import determined
from pegbox.expr.nodes import Buffer, Compare, Const, Expr, Var
from pegbox.expr.simplify import simplified_linear, simplify
from pegbox.expr.visit import free_vars, substitute
from pegbox.loops.access.interval import Relaxation, interval, relaxation
from pegbox.loops.nodes import BlockRealize
from pegbox.schedule.analysis import reduce_values, spatial_values, variables, written_buffers
from pegbox.schedule.analysis.dependence import disorder
from pegbox.schedule.analysis.region_cover import provides
from pegbox.schedule.analysis.write_cover import kept
from pegbox.schedule.errors import refuse
from pegbox.schedule.tree import Tree


@dataclass(frozen=True)
class Survey:
    """Why blocks keep their order (`odd`), or their place and the buffers they use (`tied`), by name."""

    odd: Mapping[str, str]
    tied: Mapping[str, str]

    def with_tied(self, more: Mapping[str, str]) -> Survey:
        return replace(self, tied={**self.tied, **more})

    def check(self, tree: Tree, name: str, *, moves: bool) -> None:
        """Raises ScheduleError: the block may not be reordered, or not be moved."""
        if name in self.odd:
            raise refuse(
                tree,
                f"the iterations of block {name} have to keep their order: {self.odd[name]}",
                "split, fuse, unroll and annotate it only, or write it so that each iteration stands alone",
                name,
            )
        if moves and name in self.tied:
            raise refuse(
                tree,
                f"block {name} has to stay where it is: {self.tied[name]}",
                "its own loops can be scheduled; to move it, write the program with a buffer for each value",
                name,
            )


CLEAN = Survey({}, {})


def survey(tree: Tree) -> Survey:
    """Look at all blocks, and at all pairs of blocks that use a buffer."""
    odd: dict[str, str] = {}
    tied: dict[str, str] = {}
    for name, realize in tree.blocks.items():
        why = disorder(realize.block)
        if why is not None:
            odd[name] = why
    for buffer in dict.fromkeys(b for r in tree.blocks.values() for b in written_buffers(r.block)):
        _Uses(tree, buffer).judge(odd, tied)
    found = {name: _not_covering(tree, realize) for name, realize in tree.blocks.items()}
    partial = {name: why for name, why in found.items() if why is not None}
    for buffer in tree.func.params:
        why = kept(tree, buffer, partial)
        for writer in tree.writers(buffer) if why is not None else ():
            tied.setdefault(writer.block.name, why or "")
    for name, why in partial.items():
        tied.setdefault(name, why)
    return Survey(odd, tied) if odd or tied else CLEAN


class _Uses:
    """The blocks that write and read one buffer."""

    def __init__(self, tree: Tree, buffer: Buffer) -> None:
        self.tree = tree
        self.buffer = buffer
        self.rank = {name: n for n, name in enumerate(tree.blocks)}
        self.writers = tree.writers(buffer)
        self.readers = tree.readers(buffer)

    def judge(self, odd: dict[str, str], tied: dict[str, str]) -> None:
        for writer in self.writers:
            for reader in self.readers:
                if reader is not writer:
                    self._pair(writer, reader, odd, tied)
        for n, first in enumerate(self.writers):
            for second in self.writers[n + 1 :]:
                self._written_twice(first, second, odd, tied)

    def _pair(self, writer: BlockRealize, reader: BlockRealize, odd: dict[str, str], tied: dict[str, str]) -> None:
        w, r = writer.block.name, reader.block.name
        early = self.rank[r] < self.rank[w]
        if self._share_loops(writer, reader) and (early or w in odd or not self._provides(writer, reader)):
            why = f"{r} reads {self.buffer.name} in loops in which {w} goes on writing it"
            odd.setdefault(w, why)
            odd.setdefault(r, why)
        elif early:
            for user in (*self.writers, *self.readers):
                tied.setdefault(user.block.name, f"{r} reads {self.buffer.name} before {w} writes it anew")

    def _written_twice(
        self, first: BlockRealize, second: BlockRealize, odd: dict[str, str], tied: dict[str, str]
    ) -> None:
        a, b = first.block.name, second.block.name
        start = second.block.is_reduction and second.block.init is None and not first.block.is_reduction
        same = self._makes_what_it_writes(first, second) and self._makes_what_it_writes(second, first)
        if self._share_loops(first, second) and not same:
            why = f"{a} and {b} take turns in writing {self.buffer.name}"
            odd.setdefault(a, why)
            odd.setdefault(b, why)
        if not start:
            tied.setdefault(a, f"{b} writes {self.buffer.name} too")
            tied.setdefault(b, f"{a} writes {self.buffer.name} too")

    def _provides(self, writer: BlockRealize, reader: BlockRealize) -> bool:
        return provides(self.tree, writer, self.buffer, reader)

    def _makes_what_it_writes(self, maker: BlockRealize, other: BlockRealize) -> bool:
        """In each iteration of the loops that both are in: does the maker write all elements that the other writes?"""
        regions = tuple(w for w in other.block.writes if w.buffer is self.buffer)
        user = replace(other, block=replace(other.block, reads=regions))
        tree = Tree(self.tree.replace(other, user))
        return provides(tree, tree.blocks[maker.block.name], self.buffer, user)

    def _share_loops(self, one: BlockRealize, other: BlockRealize) -> bool:
        mine = {x.var for x in self.tree.ancestors(one) if x.extent > 1}
        return any(x.var in mine for x in self.tree.ancestors(other))


def _not_covering(tree: Tree, realize: BlockRealize) -> str | None:
    """Moving a block gives it new loops over its whole domain: are the old ones the same iterations?"""
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
        if reached is None or not reached.exact or not _covers(reached.lo.const, reached.width, it.extent):
            return f"its loops do not run over the whole domain of {it.var.name}"
        if it.is_reduce and not own <= determined([value], set(), tree.ranges):
            return f"its loops visit values of {it.var.name} again"
    return _more_than_borders(tree, realize, relax)


def _covers(first: int, width: int, extent: int) -> bool:
    return first <= 0 and first + width >= extent - 1


def _reduction_again(tree: Tree, realize: BlockRealize, unused: set[Var]) -> str | None:
    """A loop that a reduction does not depend on makes it add everything up again, unless it starts again too."""
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
    """A predicate that only keeps variables in their domains belongs to the loops; another one to the program."""
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
        limit = part.b.whole
        form = simplified_linear(part.a, tree.ranges)
        upper = any(form.terms == f.terms and limit - form.const == n - f.const for f, n in borders)
        lower = any(form.terms == f.terms and limit - form.const <= -f.const for f, _ in borders)
        digit = part.op == "lt" and any(dict(form.terms) == dict(terms) for terms, _ in relax.caps)
        if not ((part.op == "lt" and (upper or digit)) or (part.op == "ge" and lower)):
            return "its predicate leaves out iterations of its domain"
    return None
