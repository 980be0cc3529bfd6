"""Expressions: their nodes, how to build, walk and rewrite them, linear forms, data types, names in printed code.

Names are imported when they are first used, because processes that run candidates need only the nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.exports import on_demand

if TYPE_CHECKING:
    from pegbox.expr.affine import Linear, linear
    from pegbox.expr.build import all_of, any_of, cast, const, floordiv, floormod, select
    from pegbox.expr.dtypes import BITS, EPSILON, EXPONENTS, INDEX, is_float, nbytes
    from pegbox.expr.intrinsics import ARITY, SLOW
    from pegbox.expr.nodes import Binary, Buffer, Call, Cast, Compare, Const, Expr, Load, Logic, Not, Select, Var
    from pegbox.expr.printer import quoted, unused_name
    from pegbox.expr.visit import children, free_vars, loads, rewrite, substitute, walk

__all__ = [
    "ARITY", "BITS", "EPSILON", "EXPONENTS", "INDEX", "SLOW", "Binary", "Buffer", "Call", "Cast", "Compare", "Const",
    "Expr", "Linear", "Load", "Logic", "Not", "Select", "Var", "all_of", "any_of", "cast", "children", "const",
    "floordiv", "floormod", "free_vars", "is_float", "linear", "loads", "nbytes", "quoted", "rewrite", "select",
    "substitute", "unused_name", "walk",
]  # fmt: skip

__getattr__ = on_demand(__name__)


def __dir__() -> list[str]:
    return __all__
