"""Pass: place each reduction's init before the outermost reduce loop."""

from __future__ import annotations

from dataclasses import replace

from pegbox.expr.build import ZERO, all_of, compare, conjuncts
from pegbox.expr.equal import same
from pegbox.expr.nodes import Expr, Var
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import substitute
from pegbox.loops.nodes import Block, BlockRealize, For, ForKind, Function, If, IterKind, Stmt, seq
from pegbox.loops.visit import blocks_below, bound_vars, exchange, map_blocks, path_to, realizes, substitute_vars


def lower_inits(func: Function) -> Function:
    """Split every `init` off into a separate nest, over the spatial loops inside the outermost reduce loop."""
    if any(realize.block.init is not None for realize in realizes(func.body)):
        return func.with_body(_lower(func.body))
    return func


def _lower(body: Stmt) -> Stmt:
    """Split inits off in the body of a function or of a block, and in the blocks inside blocks."""
    for realize in list(blocks_below(body)):
        if realize.block.init is not None:
            body = _split(body, realize)
    return map_blocks(body, _inside)


def _inside(realize: BlockRealize) -> BlockRealize:
    block = realize.block
    if not any(True for _ in realizes(block.body)):
        return realize
    return BlockRealize(realize.values, replace(block, body=_lower(block.body)), realize.predicate)


def _split(body: Stmt, realize: BlockRealize) -> Stmt:
    path = path_to(body, realize)
    loops = [node for node in path if isinstance(node, For)]
    reducing = bound_vars(realize, IterKind.REDUCE)
    mixed = reducing & bound_vars(realize, IterKind.SPATIAL) or reducing - {loop.var for loop in loops}
    block = realize.block
    assert block.init is not None
    if mixed or not _starts_first(realize, loops, reducing):
        # A loop runs over spatial and reduce variables, a block around determines the first visit together with the
        # loops, or the reduction does not start at the first visit. Then an init nest has no loops of its own: a test
        # replaces it.
        start = all_of([compare("eq", it.var, ZERO) for it in block.iters if it.is_reduce])
        plain = replace(block, init=None, body=seq(If(start, block.init), block.body))
        return exchange(path, BlockRealize(realize.values, plain, realize.predicate))
    first = next((n for n, node in enumerate(path) if isinstance(node, For) and node.var in reducing), len(path) - 1)
    nest = init_nest(realize, [x for x in path[first:] if isinstance(x, For) and x.var not in reducing])
    update = exchange(path[first:], BlockRealize(realize.values, replace(block, init=None), realize.predicate))
    return exchange(path[: first + 1], seq(nest, update))


def _starts_first(realize: BlockRealize, loops: list[For], reducing: set[Var]) -> bool:
    """Check if a reduction starts at the first visit of its reduce loops, and only there."""
    start: dict[Var, Expr] = dict.fromkeys(reducing, ZERO)
    for it, value in zip(realize.block.iters, realize.values, strict=True):
        if it.is_reduce and not isinstance(value, Var) and not same(simplify(substitute(value, start), {}), ZERO):
            return False
    first = next((i for i, loop in enumerate(loops) if loop.var in reducing), len(loops))
    used = bound_vars(realize, IterKind.SPATIAL) | reducing
    return all(loop.var in used or loop.extent == 1 for loop in loops[first:])


def init_nest(realize: BlockRealize, loops: list[For]) -> Stmt:
    """Return the init block under fresh copies of `loops`, once for each element."""
    block = realize.block
    assert block.init is not None
    reducing = bound_vars(realize, IterKind.REDUCE)
    keep = [(it, value) for it, value in zip(block.iters, realize.values, strict=True) if not it.is_reduce]
    fresh = {loop.var: loop.var.copy() for loop in loops}
    mapping: dict[Var, Expr] = {old: new for old, new in fresh.items()}  # noqa: C416  (widens the value type)
    iter_vars = {it.var: it.var.copy() for it, _ in keep}
    # An init runs where the reduction starts.
    renamed: dict[Var, Expr] = {it.var: iter_vars.get(it.var, ZERO) for it in block.iters}
    # A condition on reduce loops may limit spatial ones as well: its value on the first visit counts.
    first_visit: dict[Var, Expr] = {**mapping, **dict.fromkeys(reducing, ZERO)}
    predicate = all_of([simplify(substitute(c, first_visit), {}) for c in conjuncts(realize.predicate)])
    init_block = Block(
        name=f"{block.name}_init",
        iters=tuple(replace(it, var=iter_vars[it.var], kind=IterKind.SPATIAL) for it, _ in keep),
        reads=(),
        writes=tuple(
            replace(w, box=tuple((substitute(lo, renamed), extent) for lo, extent in w.box)) for w in block.writes
        ),
        body=substitute_vars(block.init, renamed),
    )
    nest: Stmt = BlockRealize(tuple(substitute(value, mapping) for _, value in keep), init_block, predicate)
    for loop in reversed(loops):
        # Threads are started for the update, not for its small init.
        kind = ForKind.SERIAL if loop.kind is ForKind.PARALLEL else loop.kind
        nest = For(fresh[loop.var], loop.extent, nest, kind, loop.annotations)
    return nest
