"""`tvm.te.schedule`: TE schedules, their stages and the relations of loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pegbox.compute.tensor import ComputeOp, ExternOp
from pegbox.expr.nodes import Const, Load
from pegbox.expr.visit import loads
from pegbox.plugins.tvm.absence import names
from pegbox.plugins.tvm.notice import means_nothing
from pegbox.schedule.te.stage_base import FuseRelation as Fuse
from pegbox.schedule.te.stage_base import SplitRelation as Split
from pegbox.schedule.te.stage_base import UnitRelation as Singleton
from pegbox.te import IterVar as IterVar
from pegbox.te import Stage as Stage
from pegbox.te import TESchedule as Schedule
from pegbox.te import create_schedule as create_schedule
from pegbox.tir import IndexMap

__all__ = [
    "AXIS_SEPARATOR",
    "AutoInlineBroadcast",
    "AutoInlineElemWise",
    "AutoInlineInjective",
    "Fuse",
    "IterVar",
    "Schedule",
    "Singleton",
    "SpecializedCondition",
    "Split",
    "Stage",
    "create_schedule",
    "is_injective",
]

AXIS_SEPARATOR = IndexMap.AXIS_SEPARATOR

__getattr__ = names(__name__)


def AutoInlineElemWise(sch: Schedule) -> None:
    """Inline the stages that are not scheduled yet and read only elements at their own indices."""
    _inline(sch, lambda op, load: load.indices == op.axis)


def AutoInlineBroadcast(sch: Schedule) -> None:
    """Inline the stages that are not scheduled yet and whose reads leave out, or repeat, some of their indices."""
    _inline(sch, _is_broadcast)


def AutoInlineInjective(sch: Schedule) -> None:
    """Inline the stages that are not scheduled yet and reduce nothing."""
    _inline(sch, lambda op, load: True)


def _inline(sch: Schedule, allowed: Callable[[ComputeOp, Load], bool]) -> None:
    for stage in sch.stages:
        fresh = not stage.is_output and tuple(stage.leaf_iter_vars) == stage.op.axis
        if fresh and is_injective(stage.op) and all(allowed(stage.op, load) for load in loads(stage.op.body[0])):
            stage.compute_inline()


def is_injective(op: ComputeOp) -> bool:
    """Whether each element is an expression of other elements."""
    return op.reduce is None and len(op.outputs) == 1 and not isinstance(op, ExternOp)


def _is_broadcast(op: ComputeOp, load: Load) -> bool:
    own = [index for index in load.indices if not isinstance(index, Const)]
    places = [op.axis.index(index) if index in op.axis else -1 for index in own]
    return -1 not in places and places == sorted(set(places))


class SpecializedCondition:
    """Conditions on sizes: kernels are compiled for each set of sizes anyway, so they change nothing."""

    def __init__(self, conditions: Any) -> None:
        self.clauses = list(conditions) if isinstance(conditions, list | tuple) else [conditions]

    @staticmethod
    def current() -> None:
        """None: nothing asks for them."""

    def __enter__(self) -> SpecializedCondition:
        means_nothing("te.SpecializedCondition", "a kernel is compiled for each set of sizes that it is called with")
        return self

    def __exit__(self, *error: object) -> None:
        pass
