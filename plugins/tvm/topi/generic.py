"""`topi.generic`: a plain schedule for everything, by the names of TVM's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pegbox import te
from pegbox.plugins.tvm.topi.schedule import default_schedule as default_schedule


def __getattr__(name: str) -> Callable[..., te.TESchedule]:
    """`schedule_injective`, `schedule_reduce`, `schedule_conv2d_nchw` ...: all are `default_schedule`."""
    if not name.startswith("schedule_"):
        raise AttributeError(f"topi.generic has schedule_..., not {name}")
    return lambda outs, *_layouts: default_schedule(_listed(outs))


def _listed(outs: Any) -> list[te.Tensor]:
    return [outs] if isinstance(outs, te.Tensor) else list(outs)
