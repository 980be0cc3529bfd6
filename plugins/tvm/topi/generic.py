"""`topi.generic`: one plain schedule for everything, by the names of TVM's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pegbox import te
from pegbox.compute import ExternOp


def __getattr__(name: str) -> Callable[..., te.TESchedule]:
    """Take `schedule_injective`, `schedule_reduce`, `schedule_conv2d_nchw` and others for `default_schedule`."""
    if not name.startswith("schedule_"):
        raise AttributeError(f"topi.generic has schedule_..., not {name}")
    return lambda outs, *_layouts: default_schedule(outs)


def default_schedule(outs: te.Tensor | Sequence[te.Tensor]) -> te.TESchedule:
    """Inline the stages that reduce nothing, and share the outermost loops of the outputs among cores."""
    s = te.create_schedule([t.op for t in ([outs] if isinstance(outs, te.Tensor) else outs)])
    for stage in s.stages:
        op = stage.op
        if isinstance(op, ExternOp):
            continue
        if stage.is_output and op.axis:
            stage.parallel(op.axis[0])
        elif not stage.is_output and op.reduce is None and len(op.outputs) == 1:
            stage.compute_inline()
    return s
