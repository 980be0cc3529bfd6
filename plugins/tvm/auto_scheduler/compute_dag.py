"""`ComputeDAG`: what is computed, and the schedules that states of it mean."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from pegbox.codegen.targets.target import Target
from pegbox.compute.graph import placeholders, post_order
from pegbox.compute.tensor import ComputeOp, Operation, Tensor
from pegbox.errors import ArgumentError
from pegbox.plugins.sketch.generator import unscheduled
from pegbox.plugins.sketch.state import State as SketchState
from pegbox.plugins.tvm.auto_scheduler.loop_state import State
from pegbox.plugins.tvm.auto_scheduler.state_object import StateObject, bounded, derived
from pegbox.plugins.tvm.auto_scheduler.workload_registry import workload_key_to_tensors
from pegbox.schedule.te.schedule import TESchedule
from pegbox.task.dag import ComputeDAG as PlainDAG


class LayoutRewriteOption:
    """What happens to inputs that an operation lists in its attribute `layout_free_placeholders`."""

    NO_REWRITE = 0
    """They are read as they lie."""
    INSERT_TRANSFORM_STAGE = 1
    """The kernel may copy them first, in the order in which its tiles read them: a knob of pegbox for all inputs."""
    REWRITE_FOR_PRE_TRANSFORMED = 2
    """The kernel takes them packed, by `pegbox.templates.pack_weights`."""

    @staticmethod
    def get_target_default(target: object, in_relay_integration: bool = False) -> int:
        """What a task has that says nothing."""
        return LayoutRewriteOption.INSERT_TRANSFORM_STAGE


class ComputeDAG:
    """The operations that the arguments of a kernel need, producers first.

    Args:
        compute: the tensors of a kernel, inputs and outputs; a workload key; or a te schedule.

    Attributes:
        tensors: the kernel's arguments.
        ops: the operations, inputs before their first reader.

    Raises:
        ArgumentError: something else.
        TemplateError: nothing is computed, or an input is missing.
    """

    def __init__(self, compute: Sequence[Tensor] | str | TESchedule) -> None:
        tensors = _tensors(compute)
        self._sketch = unscheduled(tensors)
        self.tensors = list(self._sketch.arguments)
        outputs = [t.op for t in self.tensors if isinstance(t.op, ComputeOp)]
        unread = [t.op for t in self.tensors if t.op not in (read := post_order(outputs)) or not read]
        self.ops: list[Operation] = [*unread, *post_order(outputs)]

    def __str__(self) -> str:
        return str(PlainDAG(self.tensors))

    @property
    def flop_ct(self) -> float:
        """Arithmetic operations of one call."""
        return PlainDAG(self.tensors).flop

    @cached_property
    def init_state(self) -> StateObject:
        """The computation without a step."""
        core = SketchState(self._sketch.outputs, dict(self._sketch.tensors), Target.default())
        return derived(core, self._sketch.arguments)

    def get_init_state(self) -> State:
        """The computation without a step, to go on with."""
        return State(self.init_state, self)

    def apply_steps_from_state(
        self, state: State | StateObject, layout_rewrite: int = LayoutRewriteOption.NO_REWRITE
    ) -> tuple[TESchedule, list[Tensor]]:
        """The te schedule of a state, and the kernel's arguments, for `tvm.lower` and `tvm.build`.

        Raises:
            ArgumentError: the state leaves splits or other choices open.
        """
        return _object(state).schedule()

    def print_python_code_from_state(self, state: State | StateObject) -> str:
        """The steps of a state as te code for a schedule `s` of the computation that `print(dag)` shows."""
        return str(_object(state)) + "\n"

    def infer_bound_from_state(self, state: State | StateObject) -> State:
        """The state with the extents that loops have where their stages are computed, as far as nothing is open.

        Raises:
            ScheduleError: its steps are not legal together.
        """
        found = _object(state)
        return State(found if found.values is None and found.sketch.knobs else bounded(found), self)

    def rewrite_layout_from_state(self, state: State | StateObject) -> ComputeDAG:
        """Refused: a layout does not depend on a state here."""
        raise ArgumentError(
            "rewrite_layout_from_state: the layout of packed inputs is one for all states; make the task with "
            "layout_rewrite_option=LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED, and pack by "
            "pegbox.templates.pack_weights"
        )

    def hash_key(self) -> str:
        """What tells two computations apart: a checksum of their code."""
        return hashlib.md5(str(self).encode(), usedforsecurity=False).hexdigest()

    def workload_key(self) -> str:
        """A workload key for a computation without a function: its checksum and the shapes of its arguments."""
        return json.dumps([self.hash_key(), *(list(t.shape) for t in self.tensors)])


def _tensors(compute: Any) -> Sequence[Tensor]:
    if isinstance(compute, str):
        return workload_key_to_tensors(compute)
    if isinstance(compute, TESchedule):
        outputs = [op.outputs[0] for op in compute.outputs]
        return [*placeholders(outputs), *outputs]
    if isinstance(compute, list | tuple) and all(isinstance(each, Tensor) for each in compute):
        return list(compute)
    raise ArgumentError(
        f"ComputeDAG({compute!r}): give the kernel's tensors as a list, a workload key, or a te schedule"
    )


def _object(state: State | StateObject) -> StateObject:
    return state.state_object if isinstance(state, State) else state


def get_shape_from_rewritten_layout(rewritten_layout: str, axis_names: Sequence[str]) -> list[int]:
    """Refused: layouts are not written as text here."""
    raise ArgumentError(
        f"get_shape_from_rewritten_layout({rewritten_layout!r}): pegbox does not write layouts as text; the shape of a "
        "packed input is that of the task's argument: task.apply_best(log)[1][n].shape"
    )
