"""Expressions: their nodes, how to build, walk and rewrite them, bounds, simplification, names in printed code.

Loading `build` gives expressions their operators.
"""

from pegbox.expr.affine import Linear, linear
from pegbox.expr.build import all_of, any_of, cast, const, floordiv, floormod, select
from pegbox.expr.dtypes import BITS, INDEX, is_float, nbytes
from pegbox.expr.intrinsics import SLOW
from pegbox.expr.nodes import Binary, Buffer, Call, Cast, Compare, Const, Expr, Load, Logic, Not, Select, Var
from pegbox.expr.printer import quoted, unused_name
from pegbox.expr.visit import children, free_vars, loads, rewrite, substitute, walk

__all__ = [
    "BITS", "INDEX", "SLOW", "Binary", "Buffer", "Call", "Cast", "Compare", "Const", "Expr", "Linear", "Load",
    "Logic", "Not", "Select", "Var", "all_of", "any_of", "cast", "children", "const", "floordiv", "floormod",
    "free_vars", "is_float", "linear", "loads", "nbytes", "quoted", "rewrite", "select", "substitute",
    "unused_name", "walk",
]  # fmt: skip
