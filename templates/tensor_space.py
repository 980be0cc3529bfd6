"""`TensorSpace`: the space of a computation whose analysis decides its knobs and its schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import pegbox as pb
from pegbox import te
from pegbox.compute import Tensor
from pegbox.task import ComputeDAG

Found = TypeVar("Found")


@dataclass(frozen=True)
class TensorSpace(Generic[Found]):
    """The space of a computation; see `pegbox.task.Space`.

    Attributes:
        tensors: the kernel's arguments in call order.
        found: the result of the analysis.
        declare: the function that declares the knobs.
        schedule: the function that makes the schedule of a configuration.
    """

    tensors: tuple[Tensor, ...]
    found: Found
    declare: Callable[[pb.TemplateConfig, Found], None]
    schedule: Callable[[pb.TemplateConfig, Found], te.TESchedule]

    @property
    def source(self) -> str:
        """The text of the computation, by which records of another one are refused."""
        return str(ComputeDAG(self.tensors))

    def __call__(self, cfg: pb.TemplateConfig) -> tuple[te.TESchedule, Sequence[Tensor]]:
        self.declare(cfg, self.found)
        return self.schedule(cfg, self.found), self.tensors
