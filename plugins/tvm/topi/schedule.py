"""Schedules that are not here, and the plain one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from pegbox import te
from pegbox.compute.tensor import ExternOp
from pegbox.errors import ScheduleError
from pegbox.plugins.tvm.te.schedule import is_injective


class Schedules:
    """A module of TVM's schedules for one kind of processor: each name is refused with the way that there is."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ScheduleError(
            f"{self._name}.{name}: TVM's schedules of single processors are not in pegbox",
            "topi.generic.schedule_... gives a plain schedule; pb.create_task(workload, space='sketch') searches a "
            "fast one, and pb.tune(pb.create_task('conv2d', ...)) the built-in templates",
        )


def default_schedule(outs: te.Tensor | Sequence[te.Tensor]) -> te.TESchedule:
    """Elementwise stages inlined, outermost loops on several cores, innermost ones as vectors where they are plain."""
    tensors = [outs] if isinstance(outs, te.Tensor) else list(outs)
    s = te.create_schedule([t.op for t in tensors])
    for stage in s.stages:
        op = stage.op
        if stage.is_output:
            if op.axis and not isinstance(op, ExternOp):
                stage.parallel(op.axis[0])
        elif is_injective(op):
            stage.compute_inline()
    return s
