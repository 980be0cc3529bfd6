"""Primitive decompose_padding: separate blocks write the constant of a padding and the values inside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pegbox.errors import ScheduleError
from pegbox.expr.affine import linear
from pegbox.expr.bounds import Interval
from pegbox.expr.build import TRUE, add, conjuncts, index
from pegbox.expr.equal import same
from pegbox.expr.nodes import Compare, Const, Expr, Select, Var
from pegbox.expr.printer import unused_name
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import substitute
from pegbox.loops.access.interval import SymbolicInterval
from pegbox.loops.copy import fresh_copy
from pegbox.loops.nodes import BlockIter, BlockRealize, For, Stmt, Store, seq
from pegbox.loops.visit import iter_ranges, map_blocks, straight_nest, substitute_vars
from pegbox.schedule.analysis.checks import check_serial
from pegbox.schedule.analysis.region_cover import written_box
from pegbox.schedule.analysis.required_region import Span, span
from pegbox.schedule.rewrites.cache_copy import store_block
from pegbox.schedule.rewrites.inline import plain_store
from pegbox.schedule.rewrites.placement import nest
from pegbox.schedule.state.handles import BlockRef, LoopRef
from pegbox.schedule.state.recording import primitive
from pegbox.schedule.state.schedule_state import ScheduleState
from pegbox.schedule.tree import Tree, nested

_SHAPE = "give a block that stores T.if_then_else(0 <= i - 1 and i - 1 < n, value, constant) at its own variables"


@primitive(moves=False)
def decompose_padding(sch: ScheduleState, block: BlockRef | str, loop: LoopRef) -> BlockRef:
    """Write the constant of a padding before a loop, and then the values inside it, without tests.

    Returns the block of the constant, `NAME_pad_const`.

    Before `decompose_padding("P", i)`::

        for i in range(10):
            block P:
                P[vi] = A[vi - 1] if 1 <= vi < 9 else 0.0

    After::

        for i_1 in range(10):
            block P_pad_const:
                P[vi] = 0.0
        for i in range(8):
            block P:
                P[vi + 1] = A[vi]

    Raises:
        ScheduleError: the block does not choose between a value and a constant by bounds of its variables; the loop is
            not around the block, or is around other blocks, too; or that loop or one inside it is not serial, or is
            annotated.
    """
    realize, target = sch.find_block(block), sch.find_loop(loop)
    name = unused_name(f"{realize.block.name}_pad_const", sch.tree.names)
    sch.update(_decomposed(sch.tree, realize, target, name))
    return BlockRef(name)


def can_decompose_padding(sch: ScheduleState, block: BlockRef | str, loop: LoopRef) -> bool:
    """Check if `decompose_padding` would accept the block and the loop."""
    try:
        decompose_padding(sch.copy(), block, loop)
    except ScheduleError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Padding:
    """A padding: `store` writes `value` if each variable is inside its interval, and `constant` elsewhere."""

    store: Store
    inside: Mapping[Var, Interval]
    value: Expr
    constant: Const


def _decomposed(tree: Tree, realize: BlockRealize, loop: For, name: str) -> Tree:
    """Return the program in which a block `name` writes the constant before `loop`, and the block writes the rest."""
    padding = _padding(realize)
    chain = _chain(realize, loop)
    update = _update(tree, realize, loop, padding)
    block = store_block(name, realize.block.iters, padding.store.buffer, padding.store.indices, padding.constant)
    constant = fresh_copy(map_blocks(loop, lambda _: replace(realize, block=block)), str)
    return Tree(tree.replace(loop, seq(constant, _with_own_loops(update, chain, realize))))


def _refuse(realize: BlockRealize, problem: str, remedy: str = _SHAPE) -> ScheduleError:
    return ScheduleError(problem, remedy, realize.block.name)


def _padding(realize: BlockRealize) -> _Padding:
    block = realize.block
    store = plain_store(block)
    if isinstance(store, str):
        raise _refuse(realize, store)
    if not isinstance(store.value, Select) or not isinstance(store.value.b, Const):
        raise _refuse(realize, f"{block.name} does not choose between a value and a constant")
    domains = {it.var: it.extent for it in block.iters}
    places = [i for i in store.indices if isinstance(i, Var)]
    if len(set(places)) < len(store.indices) or any(n > 1 and v not in places for v, n in domains.items()):
        raise _refuse(realize, f"{block.name} does not write an element for each of its variables")
    inside = {it.var: (0, it.extent - 1) for it in block.iters}
    for part in conjuncts(store.value.cond):
        simple = simplify(part, iter_ranges(block.iters))
        if same(simple, TRUE):
            continue
        found = _bound(simple)
        if found is None:
            raise _refuse(realize, f"the condition {part} is not a bound of one variable")
        var, (first, last) = found
        inside[var] = (max(first, inside[var][0]), min(last, inside[var][1]))
    empty = next((var.name for var, (first, last) in inside.items() if first > last), None)
    if empty is not None:
        raise _refuse(realize, f"no {empty} is inside: all of {block.name} is padding")
    return _Padding(store, inside, store.value.a, store.value.b)


def _bound(condition: Expr) -> tuple[Var, Interval] | None:
    """Return the variable that a condition bounds, and its interval; None for conditions of other kinds."""
    most = 2**62
    if not isinstance(condition, Compare) or not isinstance(condition.b, Const):
        return None
    form, limit = linear(condition.a), condition.b.integer
    if len(form.terms) != 1 or condition.op not in ("lt", "le", "gt", "ge"):
        return None
    ((term, factor),) = form.terms.items()
    if not isinstance(term, Var) or abs(factor) != 1:
        return None
    limit -= form.const
    below = condition.op in ("lt", "le")
    edge = limit - (condition.op == "lt") + (condition.op == "gt")
    if factor == 1:
        return term, (-most, edge) if below else (edge, most)
    return term, (-edge, most) if below else (-most, -edge)


def _chain(realize: BlockRealize, loop: For) -> list[For]:
    """Return the loops from `loop` down to the block."""
    loops, body = straight_nest(loop)
    if body is not realize:
        problem = f"{loop.var.name} is not around {realize.block.name} alone"
        raise ScheduleError(problem, "give a loop that contains nothing else", loop.var, realize.block.name)
    for each in loops:
        check_serial(each, "decompose first, then say how the loops run")
    return loops


def _update(tree: Tree, realize: BlockRealize, loop: For, padding: _Padding) -> Stmt:
    """Return the nest for the values inside the padding, over the part that the loop's nest writes."""
    block, store = realize.block, padding.store
    made = written_box(tree, realize, store.buffer, {x.var for x in tree.ancestors(loop)})
    if made is None:
        problem = f"what {block.name} makes in one run of {loop.var.name} is not a box"
        raise _refuse(realize, problem, "give an outer loop, or split by factors that divide")
    iters: dict[Var, BlockIter] = {}
    spans: dict[Var, Span] = {}
    for it in block.iters:
        first, last = padding.inside[it.var]
        own = BlockIter(it.var.copy(), last - first + 1, it.kind)
        iters[it.var] = own
        place = next((n for n, i in enumerate(store.indices) if i is it.var), None)
        if place is not None:
            found = made.intervals[place]
            lo = found.lo.add(linear(index(-first)))
            if lo.is_const and not 0 <= lo.const + found.width < own.extent + found.width:
                raise _refuse(realize, f"{loop.var.name} writes only padding")
            spans[own.var] = span(SymbolicInterval(lo, found.width), own.extent, tree.ranges, most=True)
    shifted: dict[Var, Expr] = {old: add(it.var, index(padding.inside[old][0])) for old, it in iters.items()}
    ranges = iter_ranges(iters.values())
    where = tuple(simplify(substitute(i, shifted), ranges) for i in store.indices)
    value = simplify(substitute(padding.value, shifted), ranges)
    changed = store_block(block.name, tuple(iters.values()), store.buffer, where, value)
    return nest(replace(changed, annotations=block.annotations), spans, made.conditions)


def _with_own_loops(stmt: Stmt, chain: list[For], realize: BlockRealize) -> Stmt:
    """Return the nest with those old loops that run over one variable each, so that references to them stay valid."""
    own = {x.var for x in chain}
    loops, body = straight_nest(stmt)
    kept = {x.var: v for x, v in zip(loops, realize.values, strict=True) if isinstance(v, Var) and v in own}
    return nested(substitute_vars(body, kept), loops, kept)
