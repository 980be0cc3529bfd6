"""Rewrite of blockize: a loop nest becomes a block.

Each variable of the block inside is `outer part + inner part`: the inner part counts the elements of a tile, and the
outer part moves in steps of whole tiles (the division of iteration spaces in TensorIR, Feng et al., ASPLOS 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pegbox.errors import ScheduleError
from pegbox.expr.affine import Linear, constant
from pegbox.expr.bounds import Ranges
from pegbox.expr.build import TRUE, conjuncts, index, logical_and
from pegbox.expr.injectivity import determined
from pegbox.expr.nodes import Expr, Var
from pegbox.expr.printer import unused_name
from pegbox.expr.simplify import simplified_linear
from pegbox.expr.visit import free_vars, substitute
from pegbox.loops.access.interval import Relaxation, interval
from pegbox.loops.nodes import Block, BlockIter, BlockRealize, For, Region, Stmt
from pegbox.loops.visit import iter_ranges, straight_nest
from pegbox.schedule.analysis.recurrence import carried_variables
from pegbox.schedule.primitives.decompose_reduction import init_block
from pegbox.schedule.state.handles import BlockRef, LoopRef
from pegbox.schedule.state.recording import primitive
from pegbox.schedule.state.schedule_state import ScheduleState
from pegbox.schedule.tree import Tree, nested


@primitive(moves=False)
def blockize(sch: ScheduleState, target: LoopRef, preserve_unit_iters: bool = True) -> BlockRef:
    """Make one block of a loop and everything inside it; return the new block, `NAME_o`.

    The loops outside now move whole tiles. The old block keeps its name inside the new one; primitives still work
    there, on the block and on its loops. A reduction is initialized in a separate nest, `NAME_init`.

    Before `blockize(i_1)`::

        for i_0 in range(4):
            for j_0 in range(2):
                for i_1 in range(8):
                    for j_1 in range(16):
                        block C:
                            vi = spatial(32, i_0 * 8 + i_1)
                            vj = spatial(32, j_0 * 16 + j_1)
                            C[vi, vj] = A[vi, vj] * 2.0

    After::

        for i_0 in range(4):
            for j_0 in range(2):
                block C_o:
                    vi_o = spatial(4, i_0)
                    vj_o = spatial(2, j_0)
                    reads A[vi_o * 8:vi_o * 8 + 8, vj_o * 16:vj_o * 16 + 16]
                    writes C[vi_o * 8:vi_o * 8 + 8, vj_o * 16:vj_o * 16 + 16]
                    for i_1 in range(8):
                        for j_1 in range(16):
                            block C:
                                vi = spatial(32, vi_o * 8 + i_1)
                                vj = spatial(32, vj_o * 16 + j_1)
                                C[vi, vj] = A[vi, vj] * 2.0

    Args:
        preserve_unit_iters: accepted as in TVM; blocks always keep their variables of one iteration.

    Raises:
        ScheduleError: several blocks are below the loop, the loops inside do not cover whole tiles of the block's
            variables, a predicate depends on them, or one of them binds spatial and reduce variables at once.
    """
    loop = sch.find_loop(target)
    made = block_of_nest(sch.tree, loop)
    sch.update(sch.tree.replace(loop, made))
    return BlockRef(made.block.name)


@dataclass(frozen=True)
class _Division:
    """A variable of the block inside: `outer * tile + inner`, with `0 <= inner < tile`."""

    it: BlockIter
    outer: Linear  # in tiles
    inner: Linear
    tile: int


def _nest_below(loop: For) -> tuple[list[For], BlockRealize]:
    """Return the loops from `loop` down to the one block below it.

    Raises:
        ScheduleError: there is more than one block, or another statement in between.
    """
    loops, node = straight_nest(loop)
    if not isinstance(node, BlockRealize):
        raise ScheduleError(
            f"below {loops[-1].var.name} the program branches, but a single nest around one block is required",
            "give an inner loop, or compute the other blocks elsewhere",
            loop.var,
        )
    return loops, node


def block_of_nest(tree: Tree, loop: For) -> BlockRealize:
    """Return the block `NAME_o` that replaces `loop` and everything inside it.

    Raises:
        ScheduleError: the loops do not divide into whole tiles.
    """
    loops, realize = _nest_below(loop)
    if carried_variables(realize.block):
        raise ScheduleError(
            f"{realize.block.name} computes elements from elements that it computed before, which a block around them "
            "would hide",
            "leave its loops outside blocks",
            loop.var,
            realize.block.name,
        )
    inside = {x.var for x in loops}
    for x in loops:
        if x.kind.is_bound:
            raise ScheduleError(
                f"{x.var.name} is bound to a thread axis, and a block is what one thread does",
                "make the block of the loops inside the threads",
                x.var,
            )
    divisions = [
        _divide(tree, realize, it, value, inside) for it, value in zip(realize.block.iters, realize.values, strict=True)
    ]
    predicate = _outer_predicate(realize, inside)
    block = realize.block
    outer_iters = tuple(BlockIter(Var(f"{d.it.var.name}_o"), d.it.extent // d.tile, d.it.kind) for d in divisions)
    pairs = zip(divisions, outer_iters, strict=True)
    values = tuple(Linear({it.var: d.tile, **d.inner.terms}, 0).to_expr() for d, it in pairs)
    ranges = {**tree.ranges, **iter_ranges(outer_iters)}
    bound = dict(zip((it.var for it in block.iters), values, strict=True))
    relax = Relaxation(inside, ranges)
    body = nested(BlockRealize(values, replace(block, init=None)), loops)
    init = None if block.init is None else _init(tree, realize, loops, values, ranges)
    reads = tuple(_region(r, bound, relax) for r in block.reads)
    writes = tuple(_region(w, bound, relax) for w in block.writes)
    outer = Block(unused_name(f"{block.name}_o", tree.names), outer_iters, reads, writes, body, init)
    return BlockRealize(tuple(d.outer.to_expr() for d in divisions), outer, predicate)


def _divide(tree: Tree, realize: BlockRealize, it: BlockIter, value: Expr, inside: set[Var]) -> _Division:
    form = simplified_linear(value, tree.ranges)
    mixed = [t for t in form.terms if free_vars(t) & inside and free_vars(t) - inside]
    if mixed:
        raise _indivisible(realize, f"{it.var.name} = {value}: {mixed[0]} joins loops inside and outside")
    inner = Linear({t: c for t, c in form.terms.items() if free_vars(t) & inside}, 0)
    outer = Linear({t: c for t, c in form.terms.items() if t not in inner.terms}, form.const)
    reached = interval(inner.to_expr(), Relaxation(inside, tree.ranges))
    # Digits (from fused loops) may not occur in all combinations; sums of loops must leave no gaps.
    gaps = reached is not None and not reached.exact and all(isinstance(t, Var) for t in inner.terms)
    if reached is None or gaps or reached.lo != constant(0):
        raise _indivisible(
            realize,
            f"{it.var.name} = {value}: the loops inside do not count the elements of a tile from 0 on",
        )
    tile = reached.width + 1
    steps = (outer.const, *outer.terms.values())
    if it.extent % tile or any(step % tile for step in steps):
        raise _indivisible(
            realize,
            f"{it.var.name} = {value}, of {it.extent}: the loops inside cover {tile}, which does not divide it",
        )
    whole = Linear({t: c // tile for t, c in outer.terms.items()}, outer.const // tile)
    return _Division(it, whole, inner, tile)


def _indivisible(realize: BlockRealize, why: str) -> ScheduleError:
    remedy = "split by factors that divide (pad_einsum makes them), and reorder the parts of each tile inside"
    return ScheduleError(why, remedy, realize.block.name)


def _outer_predicate(realize: BlockRealize, inside: set[Var]) -> Expr:
    predicate: Expr = TRUE
    for part in conjuncts(realize.predicate):
        if free_vars(part) & inside:
            raise ScheduleError(
                f"where {part}, which loops inside decide: not every tile is whole",
                "split by factors that divide, or pad the computation (pad_einsum)",
                realize.block.name,
            )
        predicate = logical_and(predicate, part)
    return predicate


def _region(region: Region, bound: dict[Var, Expr], relax: Relaxation) -> Region:
    """Compute the region that the inner loops touch together; a whole dimension if its part is not an interval."""
    box: list[tuple[Expr, int]] = []
    for (lo, count), extent in zip(region.box, region.buffer.shape, strict=True):
        reached = interval(substitute(lo, bound), relax)
        box.append((index(0), extent) if reached is None else (reached.lo.to_expr(), reached.width + count))
    return Region(region.buffer, tuple(box))


def _init(tree: Tree, realize: BlockRealize, loops: Sequence[For], values: Sequence[Expr], ranges: Ranges) -> Stmt:
    """Return a nest that initializes the elements, over those inner loops that select elements."""
    block = realize.block
    spatial = [(it, v) for it, v in zip(block.iters, values, strict=True) if not it.is_reduce]
    reduce = {var for it, v in zip(block.iters, values, strict=True) if it.is_reduce for var in free_vars(v)}
    used = {var for _, v in spatial for var in free_vars(v)}
    for x in loops:
        if x.var in used & reduce:
            raise ScheduleError(
                f"{x.var.name} binds spatial and reduce variables at once, so that no nest starts the elements",
                "do not fuse spatial with reduce loops, or use decompose_reduction first",
                x.var,
                block.name,
            )
        if x.extent > 1 and x.var not in used | reduce:
            raise ScheduleError(
                f"{x.var.name} binds no variable of {block.name}, which sums anew in each of its iterations",
                "make the block of the loops inside it",
                x.var,
                block.name,
            )
    distinct = determined([v for _, v in spatial], used - {x.var for x in loops}, ranges)
    twice = next((x for x in loops if x.extent > 1 and x.var in used - distinct), None)
    if twice is not None:
        raise ScheduleError(
            f"iterations of {twice.var.name} may add to the same element of {block.name}, as where windows "
            "overlap; the block would start it once and add to it again",
            "make the block of the loops inside it, or use decompose_reduction first",
            twice.var,
            block.name,
        )
    fresh = {x.var: x.var.copy() for x in loops if x.var in used}
    start = init_block(block, unused_name(f"{block.name}_init", tree.names))
    values = tuple(substitute(v, fresh) for _, v in spatial)
    return nested(BlockRealize(values, start), [x for x in loops if x.var in fresh], fresh)
