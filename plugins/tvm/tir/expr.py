"""`tvm.tir.expr`: the expressions that are one kind here and there."""

from __future__ import annotations

from pegbox.expr.nodes import Call as Call
from pegbox.expr.nodes import Cast as Cast
from pegbox.expr.nodes import Expr, Load
from pegbox.expr.nodes import Not as Not
from pegbox.expr.nodes import Var as Var

PrimExpr = Expr
BufferLoad = Load
