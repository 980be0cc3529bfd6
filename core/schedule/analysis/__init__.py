"""Analyses of blocks and loops that the checks of primitives use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from pegbox.expr import dtypes
from pegbox.expr.nodes import Binary, Buffer, Const, Expr, Var
from pegbox.expr.visit import free_vars
from pegbox.loops.access.interval import SymbolicInterval, index_interval, relaxation
from pegbox.loops.nodes import Block, BlockRealize, Evaluate, For, Region, Stmt
from pegbox.loops.reductions.combiner import ORDERED
from pegbox.loops.visit import expressions, walk
from pegbox.schedule.tree import Tree

# Reductions that processors can do across the lanes of a vector.
LANE_COMBINERS = frozenset({"sum", "prod", "max", "min"})


def variables(exprs: Iterable[Expr]) -> set[Var]:
    """Return the variables in several expressions."""
    found: set[Var] = set()
    for expr in exprs:
        if isinstance(expr, Var):
            found.add(expr)
        elif not isinstance(expr, Const):
            found |= free_vars(expr)
    return found


def mentions(expr: Expr, var: Var) -> bool:
    """Check if the expression contains the variable."""
    if isinstance(expr, Binary):
        return mentions(expr.a, var) or mentions(expr.b, var)
    return expr is var if isinstance(expr, Var | Const) else var in free_vars(expr)


def spatial_values(realize: BlockRealize) -> list[Expr]:
    return [v for it, v in zip(realize.block.iters, realize.values, strict=True) if not it.is_reduce]


def reduce_values(realize: BlockRealize) -> list[Expr]:
    return [v for it, v in zip(realize.block.iters, realize.values, strict=True) if it.is_reduce]


def read_buffers(block: Block) -> list[Buffer]:
    """List the buffers that the block reads, each once, in order."""
    return list(dict.fromkeys(region.buffer for region in block.reads))


def written_buffers(block: Block) -> list[Buffer]:
    """List the buffers that the block writes, each once, in order."""
    return list(dict.fromkeys(region.buffer for region in block.writes))


def boxes(
    tree: Tree, realize: BlockRealize, regions: Iterable[Region], buffer: Buffer, fixed: Set[Var]
) -> Iterator[list[SymbolicInterval | None]]:
    """Yield the intervals of each of the block's regions of a buffer, in one iteration of the `fixed` loops."""
    running = {x.var for x in tree.ancestors(realize)} - fixed
    relax = relaxation(running, tree.ranges, realize.predicate)
    for region in regions:
        if region.buffer is buffer:
            yield [index_interval(lo, realize, relax, count) for lo, count in region.box]


def combiner(block: Block) -> str | None:
    """Return the name of the reduction's combiner, if the block has one."""
    return next((value for key, value in block.annotations if key == "combiner"), None)


def is_ordered(block: Block) -> bool:
    """Check if the steps of the block's reduction keep their order."""
    return ORDERED in block.annotations


def is_private(tree: Tree, realize: BlockRealize, scope: Stmt) -> bool:
    """Check if nothing outside `scope` sees the block's writes. Each iteration of `scope` then has its own copy.

    Lowering allocates an intermediate buffer inside the innermost loop that holds all of its uses.
    """
    return all(is_inside(tree, buffer, scope) for buffer in written_buffers(realize.block))


def is_inside(tree: Tree, buffer: Buffer, scope: Stmt) -> bool:
    """Check if the buffer is an intermediate that only blocks inside `scope` use."""
    if buffer in tree.func.params:
        return False
    return all(tree.is_under(user, scope) for user in (*tree.writers(buffer), *tree.readers(buffer)))


def has_machine_code(block: Block) -> bool:
    """Check if the block contains calls or vectors, which a vectorized loop around it cannot widen."""
    return any(
        isinstance(stmt, Evaluate) or dtypes.lanes(expr.dtype) > 0
        for stmt in walk(block.body)
        for expr in expressions(stmt)
    )


def is_composed(block: Block) -> bool:
    """Check if the body contains more than stores of single elements: loops, blocks or machine code."""
    return has_machine_code(block) or any(isinstance(s, For | BlockRealize) for s in walk(block.body))
