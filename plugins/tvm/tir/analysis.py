"""`tvm.tir.analysis`: questions about programs."""

from __future__ import annotations

from pegbox.errors import LoweringError
from pegbox.expr.equal import same
from pegbox.expr.nodes import Expr, Var
from pegbox.expr.visit import free_vars
from pegbox.loops.module import IRModule
from pegbox.loops.nodes import Block, BlockRealize, For, Function, Region, Stmt
from pegbox.loops.verify import verify
from pegbox.loops.visit import expressions, walk
from pegbox.plugins.tvm.absence import names

__getattr__ = names(__name__)


def verify_well_formed(obj: Function | IRModule, assert_mode: bool = True) -> bool:
    """Whether a function, or each of a module's, is well-formed.

    Raises:
        LoweringError: it is not, and `assert_mode` is set.
    """
    try:
        for func in obj.functions.values() if isinstance(obj, IRModule) else [obj]:
            verify(func)
    except LoweringError:
        if assert_mode:
            raise
        return False
    return True


def expr_deep_equal(lhs: Expr, rhs: Expr) -> bool:
    """Whether two expressions are the same, over the same variables."""
    return same(lhs, rhs)


def undefined_vars(node: Stmt | Expr, defs: list[Var] | None = None) -> list[Var]:
    """The variables that come from outside, in the order in which they are met."""
    if isinstance(node, Expr):
        parts, bound = [node], set(defs or ())
    else:
        below = list(walk(node))
        parts = [expr for stmt in below for expr in expressions(stmt)]
        bound = {*(defs or ()), *(s.var for s in below if isinstance(s, For))}
        bound |= {it.var for s in below if isinstance(s, BlockRealize) for it in s.block.iters}
    return list(dict.fromkeys(var for part in parts for var in sorted(free_vars(part), key=str) if var not in bound))


def get_block_access_region(block: Block, buffer_var_map: object = None) -> list[list[Region]]:
    """The regions that a block reads, those that it writes, and an empty list (TVM's opaque accesses)."""
    return [list(block.reads), list(block.writes), []]
