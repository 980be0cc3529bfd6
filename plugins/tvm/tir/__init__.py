"""`tvm.tir`: schedules, programs and functions of expressions, by TVM's names."""

from pegbox.expr.nodes import Buffer as Buffer
from pegbox.plugins.tvm.absence import names
from pegbox.plugins.tvm.packed import call_cpacked as call_cpacked
from pegbox.plugins.tvm.packed import call_packed as call_packed
from pegbox.plugins.tvm.tir import analysis as analysis
from pegbox.plugins.tvm.tir import expr as expr
from pegbox.plugins.tvm.tir import schedule as schedule
from pegbox.plugins.tvm.tir import stmt as stmt
from pegbox.plugins.tvm.tir import stmt_functor as stmt_functor
from pegbox.plugins.tvm.tir.expr import *  # noqa: F403
from pegbox.plugins.tvm.tir.intrin import *  # noqa: F403
from pegbox.plugins.tvm.tir.stmt import *  # noqa: F403
from pegbox.tir import *  # noqa: F403  (TVM's names are pegbox's, but for those below)

from pegbox.plugins.tvm.tir.schedule import Schedule as Schedule  # isort: skip

__getattr__ = names(__name__)
