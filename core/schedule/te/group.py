"""Groups of TE stages that are computed in one place."""

from __future__ import annotations

from collections.abc import Sequence

from pegbox.checks import check_flag, check_list
from pegbox.compute.tensor import Tensor
from pegbox.errors import ScheduleError
from pegbox.schedule.te.base import TEScheduleBase
from pegbox.schedule.te.stage import Stage
from pegbox.schedule.te.stage_base import Group, te_method


class Groups(TEScheduleBase):
    """Several stages at once."""

    @te_method
    def create_group(
        self, outputs: Tensor | Sequence[Tensor], inputs: Tensor | Sequence[Tensor], include_inputs: bool = False
    ) -> Group:
        """Group the stages between `inputs` and `outputs`, which can then be placed together.

        Args:
            include_inputs: include the stages of the inputs in the group.

        A stage keeps its own place if it has one.

        Raises:
            ScheduleError: a tensor is not in the schedule, nothing lies between inputs and outputs, or a stage
                between them belongs to another group.
        """
        include_inputs = check_flag("include_inputs", include_inputs, error=ScheduleError)
        ends = [self[t] for t in _listed(outputs)]
        starts = {id(stage) for t in _listed(inputs) for stage in self._stage_or_input(t)}
        borders = {t.buffer for t in _listed(inputs)}
        reached: dict[int, bool] = {}

        def reaches(stage: Stage) -> bool:
            """Check if the stage needs one of the inputs."""
            if id(stage) not in reached:
                needed = [t for t in stage.op.inputs if t.buffer not in borders]
                direct = len(needed) < len(stage.op.inputs)
                reached[id(stage)] = id(stage) in starts or direct  # cells of a scan need it, and it needs them
                # Visit all inputs, so that every stage in between is found.
                below = [reaches(s) for t in needed for s in self._stage_or_input(t)]
                reached[id(stage)] |= any(below)
            return reached[id(stage)]

        for stage in ends:
            reaches(stage)
        members = [s for s in self.stages if reached.get(id(s)) and id(s) not in starts]
        if include_inputs:
            members = [s for s in self.stages if s in members or id(s) in starts]
        if not members:
            raise ScheduleError("no stage lies between them")
        return _grouped(members)

    def _stage_or_input(self, tensor: Tensor) -> list[Stage]:
        return [] if any(tensor.buffer is t.buffer for t in self.placeholders) else [self[tensor]]


def _listed(tensors: Tensor | Sequence[Tensor]) -> list[Tensor]:
    return (
        [tensors]
        if isinstance(tensors, Tensor)
        else check_list("tensors", tensors, "a tensor or a list of tensors", error=ScheduleError, of=Tensor)
    )


def _grouped(members: list[Stage]) -> Group:
    """Make a group inside the one that all members share, if any; groups of some of the members come into it."""
    if len({id(s.group) for s in members}) == 1:
        parts: list[Stage | Group] = [*members]
    else:
        parts = [_outermost(s, members) for s in members]
    around = {id(part.group): part.group for part in parts}
    if len(around) > 1:
        inside = ", ".join(s.op.name for s in members if s.group is not None)
        raise ScheduleError(f"{inside} belong(s) to another group, the rest does not")
    group = Group(next(iter(around.values())), stages=list(members))
    for part in parts:
        part.group = group
    return group


def _outermost(stage: Stage, members: list[Stage]) -> Stage | Group:
    """Return the stage, or the largest group around it that contains only these stages."""
    part: Stage | Group = stage
    while part.group is not None and all(each in members for each in part.group.stages):
        part = part.group
    return part
