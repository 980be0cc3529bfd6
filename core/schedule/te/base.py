"""Base class of TE schedules: their stages, for rewrites of the graph and for groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, TypeVar

from pegbox.checks import check_list
from pegbox.compute.axis import IterVar
from pegbox.compute.graph import post_order
from pegbox.compute.scan_op import ScanOp
from pegbox.compute.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from pegbox.errors import ScheduleError
from pegbox.expr.printer import unused_name
from pegbox.schedule.te.stage import At, Stage
from pegbox.schedule.te.stage_base import PLACE, Group, Scheduled, moved, record
from pegbox.shown import value_text

_Schedule = TypeVar("_Schedule", bound="TEScheduleBase")


class TEScheduleBase:
    """`s[tensor]` is a tensor's stage. Stages are in an order in which they can run."""

    def __init__(self, outputs: Sequence[Operation]) -> None:
        given = "operations, as C.op"
        outputs = check_list("TESchedule: outputs", outputs, given, error=ScheduleError, of=Operation)
        order = post_order(outputs)
        computed = [op for op in order if isinstance(op, ComputeOp)]
        if not computed:
            raise ScheduleError(f"create_schedule: nothing to compute in {[op.name for op in outputs]}")
        wanted = {id(op) for op in outputs}
        self.stages = [Stage(op=op, is_output=id(op) in wanted) for op in computed]
        for stage in self.stages:
            self._attach_to_rows(stage)
        self.placeholders = [op.outputs[0] for op in order if isinstance(op, PlaceholderOp)]

    @property
    def outputs(self) -> list[Operation]:
        """The operations for which the schedule was made."""
        return [stage.op for stage in self.stages if stage.is_output]

    @property
    def stage_map(self) -> dict[Operation, Stage]:
        """The stages by their operations."""
        return {stage.op: stage for stage in self.stages}

    def copy(self: _Schedule) -> _Schedule:
        """Copy the schedule, to continue it independently. Operations and loops are shared."""
        other = copy(self)
        other.stages, other.placeholders = [stage.copy() for stage in self.stages], list(self.placeholders)
        mine: dict[int, Any] = dict(zip(map(id, self.stages), other.stages, strict=True))
        for group in self.groups:  # surrounding groups first
            around = None if group.group is None else mine[id(group.group)]
            members = [mine[id(stage)] for stage in group.stages]
            mine[id(group)] = replace(group, stages=members, group=around, steps=group.steps.copy())
        for each in [*other.stages, *(mine[id(group)] for group in self.groups)]:
            each.steps = moved(each.steps, lambda value: mine.get(id(value), value))
        for stage in other.stages:
            stage.group = None if stage.group is None else mine[id(stage.group)]
        return other

    @property
    def groups(self) -> list[Group]:
        """All groups, each after those around it."""
        found: list[Group] = []
        for stage in self.stages:
            chain: list[Group] = []
            group = stage.group
            while group is not None and group not in found:
                chain.insert(0, group)
                group = group.group
            found += chain
        return found

    def normalize(self: _Schedule) -> _Schedule:
        """Return the schedule itself, which needs no preparation; for scripts written for TVM."""
        return self

    def __getitem__(self, key: Tensor | Operation) -> Stage:
        """Find the stage that computes a tensor.

        Raises:
            ScheduleError: it is an input, or not computed by this schedule.
        """
        if not isinstance(key, Tensor | Operation):
            raise ScheduleError(
                f"s[{value_text(key)}]: a stage is found by its tensor",
                f"give one of {', '.join(s.op.name for s in self.stages)}",
            )
        buffers = [t.buffer for t in key.outputs] if isinstance(key, Operation) else [key.buffer]
        made = [(stage, tensor) for stage in self.stages for tensor in stage.op.outputs]
        updates = [(stage, t) for stage in self.stages if isinstance(stage.op, ScanOp) for t in stage.op.updates]
        for stage, tensor in (*made, *updates):
            if tensor.buffer in buffers:
                return stage
        name = key.name
        if any(t.buffer in buffers for t in self.placeholders):
            raise ScheduleError(
                f"{name} is a placeholder: there is nothing to schedule", "cache_read makes a stage of it"
            )
        raise ScheduleError(
            f"{name} is not a stage of this schedule", f"it has {', '.join(s.op.name for s in self.stages)}"
        )

    def _name(self, base: str) -> str:
        """Number `base` if a stage already has that name."""
        return unused_name(base, {s.op.name for s in self.stages})

    def _insert_before(self, stage: Stage, op: ComputeOp) -> Stage:
        """Add a stage for a new operation, in the same group as the stage that needs it."""
        made = Stage(op=op)
        made.group = stage.group
        self.stages.insert(self.stages.index(stage), made)
        self._attach_to_rows(made)
        return made

    def _attach_to_rows(self, stage: Stage) -> None:
        """Compute a stage that depends on rows of a later scan in the loop over the rows."""
        for later in self.stages[self.stages.index(stage) + 1 :]:
            if isinstance(later.op, ScanOp):
                of_rows = {t.buffer for op in (later.op, *later.op.cells) for t in op.outputs}
                if any(tensor.buffer in of_rows for tensor in stage.op.inputs):
                    record(stage, PLACE, "compute_at", later, later.op.scan_axis)

    def _attached_to(self, new: Stage, old: Stage, moved: Mapping[IterVar, IterVar]) -> None:
        """Attach the stages that move from loops of `old` to the loops of `new`."""
        placed: list[Scheduled] = [*self.stages, *self.groups]
        for other in placed:
            place = other.attach
            if isinstance(place, At) and place.stage is old and place.loop in moved:
                other.steps[PLACE] = replace(other.steps[PLACE], args=(new, moved[place.loop]))
