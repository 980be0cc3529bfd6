"""`ComputeDAG`: what a task computes; `State`: a configuration of its sketches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pegbox.plugins.tvm.auto_scheduler.workload_registry import workload_of
from pegbox.task import ComputeDAG as Graph
from pegbox.te import Tensor, TESchedule

if TYPE_CHECKING:
    from pegbox import Config, Task


@dataclass(frozen=True)
class State:
    """A configuration of a task of pegbox, which a search tries and a record holds. `str(state)` is its te code."""

    task: Task = field(compare=False)
    config: Config

    def schedule(self) -> tuple[TESchedule, list[Tensor]]:
        """Make the te schedule, and the arguments of the kernel."""
        made, arguments = self.task.instantiate(self.config)
        assert isinstance(made, TESchedule)  # sketches are te
        return made, list(arguments)

    def __str__(self) -> str:
        return self.task.schedule_code(self.config)


class ComputeDAG(Graph):
    """The operations of the tensors of a kernel, or of a workload key, producers first; `str(dag)` is te code."""

    def __init__(self, compute: Sequence[Tensor] | str) -> None:
        if isinstance(compute, str):
            workload, args = workload_of(compute)
            compute = workload.tensors(*args)
        super().__init__(compute)

    @property
    def flop_ct(self) -> float:
        return self.flop

    def apply_steps_from_state(self, state: State) -> tuple[TESchedule, list[Tensor]]:
        """Make the te schedule of a state, and the arguments of the kernel, for `tvm.lower` and `tvm.build`."""
        return state.schedule()

    def print_python_code_from_state(self, state: State) -> str:
        """Write the computation and the schedule of a state as te code."""
        return str(state)
