"""The schedule of a node for which no space can be derived."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pegbox.codegen.targets.target import Target
from pegbox.compute.tensor import ComputeOp, PlaceholderOp, Tensor
from pegbox.schedule.te.schedule import TESchedule, create_schedule
from pegbox.task.config_view import TemplateConfig
from pegbox.task.workload import Space


def default_schedule(tensors: Sequence[Tensor], target: Target) -> Space:
    """Make a space of one configuration: every stage in its own loops, those of the outputs in parallel."""
    return partial(_scheduled, tensors)


def _scheduled(tensors: Sequence[Tensor], cfg: TemplateConfig) -> tuple[TESchedule, Sequence[Tensor]]:
    outputs = list(dict.fromkeys(tensor.op for tensor in tensors if not isinstance(tensor.op, PlaceholderOp)))
    s = create_schedule(outputs)
    for op in outputs:
        if isinstance(op, ComputeOp) and len(op.axis) > 1:
            s[op].parallel(s[op].fuse(*op.axis[:-1]))
    return s, tensors
