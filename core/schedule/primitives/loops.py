"""Primitives for loops: split, fuse, reorder, tile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod

from pegbox.errors import ScheduleError
from pegbox.expr.affine import Linear
from pegbox.expr.bounds import Ranges
from pegbox.expr.build import TRUE, compare, conjuncts, floordiv, floormod, index, logical_and
from pegbox.expr.dtypes import integer
from pegbox.expr.nodes import Expr, Var
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import substitute
from pegbox.loops.nodes import BlockRealize, For, ForKind, Stmt
from pegbox.schedule.analysis import reduce_values, spatial_values, variables
from pegbox.schedule.analysis.loop_kinds import check_kinds
from pegbox.schedule.state.handles import LoopRef
from pegbox.schedule.state.recording import composite, primitive
from pegbox.schedule.state.schedule_state import ScheduleState
from pegbox.schedule.tree import Tree, blocks_below, map_blocks, nested


@primitive(any_block=True)
def split(
    sch: ScheduleState,
    loop: LoopRef,
    factors: Sequence[int | None] | None = None,
    preserve_unit_iters: bool = True,
    disable_predication: bool = False,
    *,
    factor: int | None = None,
    nparts: int | None = None,
    names: Sequence[str] | None = None,
) -> tuple[LoopRef, ...]:
    """Split a loop into several nested ones; return them, outermost first.

    Args:
        factors: the extents, outermost first; one of them may be None, to be inferred.
        factor: short for `factors=[None, factor]`.
        nparts: short for `factors=[nparts, None]`.
        names: the names of the new loops; by default the old name with the suffixes _0, _1, ...

    The extents need not divide: if they make more iterations than there were, a predicate skips the rest.

    Before `split(i, factors=[None, 4])`::

        for i in range(10):
            block C:
                vi = spatial(10, i)

    After::

        for i_0 in range(3):
            for i_1 in range(4):
                block C:
                    vi = spatial(10, i_0 * 4 + i_1)
                    where i_0 * 4 + i_1 < 10

    Raises:
        ScheduleError: the extents make fewer iterations than there were, or the loop is already parallel,
            vectorized or unrolled.
    """
    old = sch.find_loop(loop)
    extents = _split_extents(old, factors, factor, nparts)
    _serial(old)
    if names is not None and len(names) != len(extents):
        raise ScheduleError(f"{len(names)} name(s) for {len(extents)} loops", "give one name for each loop")
    labels = names or [f"{old.var.name}_{n}" for n in range(len(extents))]
    fresh = [Var(label) for label in labels]
    value = Linear({v: prod(extents[n + 1 :]) for n, v in enumerate(fresh)}, 0).to_expr()
    guard = compare("lt", value, index(old.extent)) if prod(extents) > old.extent else TRUE
    ranges = {**sch.tree.ranges, **{var: (0, n - 1) for var, n in zip(fresh, extents, strict=True)}}
    body = _rebind(old.body, {old.var: value}, guard, ranges)
    sch.update(sch.tree.replace(old, _nest(fresh, extents, old.annotations, body)))
    return tuple(map(LoopRef, fresh))


@primitive(any_block=True)
def fuse(sch: ScheduleState, *loops: LoopRef, preserve_unit_iters: bool = True, name: str | None = None) -> LoopRef:
    """Fuse directly nested loops, given outermost first, into one.

    Before `fuse(i, j)`::

        for i in range(4):
            for j in range(8):
                block C:
                    vi = spatial(4, i)
                    vj = spatial(8, j)

    After::

        for i_j_fused in range(32):
            block C:
                vi = spatial(4, i_j_fused // 8)
                vj = spatial(8, i_j_fused % 8)

    Raises:
        ScheduleError: the loops are not directly nested in this order, or are not serial.
    """
    found = sch.find_loops(loops)
    if not found:
        raise ScheduleError("no loops given", "give at least one")
    for outer, inner in pairwise(found):
        if outer.body is not inner:
            raise ScheduleError(
                f"cannot fuse: {inner.var.name} is not the only statement directly inside {outer.var.name}",
                "give the loops outermost first, without gaps; reorder brings them next to each other",
                *(loop.var for loop in found),
            )
    for loop in found:
        _serial(loop)
    fused = Var(name or "_".join(loop.var.name for loop in found) + ("_fused" if len(found) > 1 else ""))
    extent = prod(loop.extent for loop in found)
    body = _rebind(found[-1].body, _digits(fused, found), TRUE, {**sch.tree.ranges, fused: (0, extent - 1)})
    notes = tuple({key: (key, value) for loop in found for key, value in loop.annotations}.values())
    sch.update(sch.tree.replace(found[0], For(fused, extent, body, ForKind.SERIAL, notes)))
    return LoopRef(fused)


@primitive(moves=False)
def reorder(sch: ScheduleState, *loops: LoopRef) -> None:
    """Reorder loops of one nest, given outermost first; loops that are not given keep their places.

    Before `reorder(k, i)`::

        for i in range(4):
            for j in range(8):
                for k in range(16):
                    block C: ...

    After::

        for k in range(16):
            for j in range(8):
                for i in range(4):
                    block C: ...

    Reductions may be reordered: their combination is assumed to be associative and commutative.

    Raises:
        ScheduleError: the loops are not on one chain without branches, or a reduction would start again after its first
            update.
    """
    given = sch.find_loops(loops)
    chain = _chain(sch.tree, given)
    chosen = {id(loop) for loop in given}
    successors = iter(given)
    order = [next(successors) if id(loop) in chosen else loop for loop in chain]
    if all(a is b for a, b in zip(order, chain, strict=True)):
        return
    for realize in blocks_below(chain[-1].body):
        _check_order(realize, chain, order)
    func = sch.tree.replace(chain[0], nested(chain[-1].body, order))
    marked = [loop.var for loop in chain if not loop.kind.in_order]
    if marked:
        check_kinds(Tree(func), marked)
    sch.update(func)


@composite
def tile(sch: ScheduleState, loops: Sequence[LoopRef], factors: Sequence[int]) -> tuple[LoopRef, ...]:
    """Split each loop by its factor and put the inner parts inside all outer ones.

    `tile([y, x], [8, 32])` returns `(y_0, x_0, y_1, x_1)`, nested in this order. The trace records splits and a
    reorder.

    Raises:
        ScheduleError: as for `split` and `reorder`, or the numbers of loops and factors differ.
    """
    if len(loops) != len(factors):
        raise ScheduleError(f"{len(loops)} loop(s) but {len(factors)} factor(s)", "give one factor for each")
    parts = [split(sch, loop, factor=factor) for loop, factor in zip(loops, factors, strict=True)]
    order = [p[0] for p in parts] + [p[1] for p in parts]
    reorder(sch, *order)
    return tuple(order)


def _split_extents(
    loop: For, factors: Sequence[int | None] | None, factor: int | None, nparts: int | None
) -> list[int]:
    if sum(x is not None for x in (factors, factor, nparts)) != 1:
        raise ScheduleError("the extents are not given once", "give exactly one of factors, factor and nparts")
    given = list(factors) if factors is not None else [None, factor] if factor is not None else [nparts, None]
    numbers = [None if f is None else _positive(f) for f in given]
    holes = [n for n, f in enumerate(numbers) if f is None]
    if not numbers or len(holes) > 1:
        raise ScheduleError(
            f"factors={given} do not determine the extents", "give at least one extent, at most one of them None"
        )
    known = [f for f in numbers if f is not None]
    if holes:
        known.insert(holes[0], -(-loop.extent // prod(known)))
    if prod(known) < loop.extent:
        raise ScheduleError(
            f"{' * '.join(map(str, known))} = {prod(known)} iterations "
            f"cannot cover the {loop.extent} of {loop.var.name}",
            "use larger factors, or None for one of them",
            loop.var,
        )
    return known


def _positive(value: object) -> int:
    number = integer(value)
    if number is None or number < 1:
        raise ScheduleError(f"extent {value!r} is not a number of iterations", "give integers from 1 up")
    return number


def _serial(loop: For) -> None:
    if loop.kind is not ForKind.SERIAL:
        raise ScheduleError(
            f"{loop.var.name} is {loop.kind.in_words} already",
            f"do this first, then let the resulting loop be {loop.kind.in_words}",
            loop.var,
        )


def _nest(fresh: list[Var], extents: list[int], notes: tuple[tuple[str, object], ...], body: Stmt) -> Stmt:
    """Put loops around `body`; annotations apply to a whole nest and stay outermost."""
    for n in reversed(range(len(fresh))):
        body = For(fresh[n], extents[n], body, ForKind.SERIAL, notes if n == 0 else ())
    return body


def _digits(fused: Var, loops: list[For]) -> dict[Var, Expr]:
    values: dict[Var, Expr] = {}
    stride = 1
    for position, loop in reversed(list(enumerate(loops))):
        digit = floordiv(fused, index(stride))
        values[loop.var] = floormod(digit, index(loop.extent)) if position else digit
        stride *= loop.extent
    return values


def _rebind(body: Stmt, mapping: Mapping[Var, Expr], guard: Expr, ranges: Ranges) -> Stmt:
    """Replace loop variables in the bindings and predicates below, and add a guard to the predicates."""
    guard = simplify(guard, ranges)
    plain = {var: simplify(value, ranges) for var, value in mapping.items()}

    def value_of(expr: Expr) -> Expr:
        if isinstance(expr, Var):
            return plain.get(expr, expr)
        new = substitute(expr, mapping)
        return expr if new is expr else simplify(new, ranges)

    def change(realize: BlockRealize) -> BlockRealize:
        values = tuple(map(value_of, realize.values))
        predicate = guard
        if realize.predicate is not TRUE:
            predicate = value_of(realize.predicate)
            for part in conjuncts(guard):
                predicate = logical_and(predicate, part)
        return BlockRealize(values, realize.block, predicate)

    return map_blocks(body, change)


def _chain(tree: Tree, given: list[For]) -> list[For]:
    """Return the loops from the outermost given one to the innermost; all must be directly nested."""
    if not given:
        raise ScheduleError("no loops given", "give at least one")
    depths = {id(loop): len(tree.ancestors(loop)) for loop in given}
    top = min(given, key=lambda loop: depths[id(loop)])
    chain, waiting = [top], {id(loop) for loop in given} - {id(top)}
    while waiting:
        below = chain[-1].body
        if not isinstance(below, For):
            raise ScheduleError(
                f"cannot reorder {', '.join(loop.var.name for loop in given)}: below {chain[-1].var.name} the program "
                "branches before all of them are reached",
                "reorder only loops of one straight nest; reorder before compute_at and decompose_reduction",
                *(loop.var for loop in given),
            )
        waiting.discard(id(below))
        chain.append(below)
    return chain


def _check_order(realize: BlockRealize, chain: list[For], order: list[For]) -> None:
    """Check that a reduction still starts (init), with its reduce variables at zero, at the first visit of an element.

    Loops that bind only spatial or only reduce variables move freely. A loop that binds both, or none (which repeats
    the whole reduction), must keep its place among the reduce loops.
    """
    if realize.block.init is None or not realize.block.is_reduction:
        return
    spatial, reduce = variables(spatial_values(realize)), variables(reduce_values(realize))
    fixed = [x for x in chain if x.extent > 1 and ((x.var in reduce) == (x.var in spatial))]
    if not fixed:
        return
    new_place = {id(loop): n for n, loop in enumerate(order)}
    for loop in fixed:
        for n, other in enumerate(chain):
            if other is loop or other.extent == 1 or not (other.var in reduce or other in fixed):
                continue
            if (chain.index(loop) < n) != (new_place[id(loop)] < new_place[id(other)]):
                kind = "both spatial and reduce variables" if loop.var in reduce else "no variable"
                raise ScheduleError(
                    f"cannot reorder {loop.var.name} and {other.var.name}: {loop.var.name} binds {kind} of the "
                    f"reduction {realize.block.name}, which would start again after it has begun to add up",
                    "do not fuse spatial with reduce loops before reordering, or use decompose_reduction first",
                    loop.var,
                    other.var,
                )
