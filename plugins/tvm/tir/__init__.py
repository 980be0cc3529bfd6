"""`tvm.tir`: schedules, programs and functions of expressions, by TVM's names."""

from pegbox.expr.nodes import Buffer as Buffer
from pegbox.expr.nodes import Call as Call
from pegbox.expr.nodes import Cast as Cast
from pegbox.expr.nodes import Expr as PrimExpr
from pegbox.expr.nodes import Load as BufferLoad
from pegbox.expr.nodes import Not as Not
from pegbox.expr.nodes import Var as Var
from pegbox.loops.nodes import Block as Block
from pegbox.loops.nodes import BlockRealize as BlockRealize
from pegbox.loops.nodes import Evaluate as Evaluate
from pegbox.loops.nodes import For as For
from pegbox.loops.nodes import If as IfThenElse
from pegbox.loops.nodes import Region as BufferRegion
from pegbox.loops.nodes import Seq as SeqStmt
from pegbox.loops.nodes import Stmt as Stmt
from pegbox.loops.nodes import Store as BufferStore
from pegbox.plugins.tvm.tir import analysis as analysis
from pegbox.plugins.tvm.tir import schedule as schedule
from pegbox.plugins.tvm.tir import stmt_functor as stmt_functor
from pegbox.tir import *  # noqa: F403  (TVM's names are pegbox's)
