"""`pegbox.tir`: schedules, programs and modules on the loop IR, as users import them."""

from pegbox.errors import ScheduleError as ScheduleError
from pegbox.expr.index_map import IndexMap as IndexMap
from pegbox.loops.module import IRModule as IRModule
from pegbox.loops.nodes import Function
from pegbox.schedule import BlockRef as BlockRef
from pegbox.schedule import BlockRV as BlockRV
from pegbox.schedule import LoopRef as LoopRef
from pegbox.schedule import LoopRV as LoopRV
from pegbox.schedule import Schedule as Schedule
from pegbox.schedule import Trace as Trace
from pegbox.schedule import ir_builder as ir_builder
from pegbox.schedule.intrinsics.intrinsic import TensorIntrin as TensorIntrin
from pegbox.schedule.te.intrinsic import decl_buffer as decl_buffer
from pegbox.tir import op as op
from pegbox.tir.op import *  # noqa: F403  (TVM's names for functions of expressions)

__all__ = [
    "BlockRV", "BlockRef", "IRModule", "IndexMap", "LoopRV", "LoopRef", "PrimFunc", "Schedule", "ScheduleError",
    "TensorIntrin", "Trace", "decl_buffer", "ir_builder", "op",
]  # fmt: skip
__all__ += op.__all__

PrimFunc = Function


def __dir__() -> list[str]:
    return __all__
