"""`ReplayState`: the program that a replay has made so far, and what becomes of a refusal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pegbox.compute.axis import IterVar
from pegbox.errors import ScheduleError
from pegbox.loops.nodes import ForKind
from pegbox.schedule.schedule import BlockRef, LoopRef, Schedule
from pegbox.schedule.state.step import Step
from pegbox.schedule.te.draft import Draft
from pegbox.schedule.te.stage_base import StageBase


@dataclass
class ReplayState:
    """The program that a replay has made so far.

    Attributes:
        draft: for a program that is only shown; it gets what would be refused otherwise.
        loops: the loops of the stages that have their place, by the ids of the stages.
        step: the step that is being replayed.
    """

    sch: Schedule
    stages: Sequence[StageBase]
    blocks: Mapping[int, BlockRef]
    draft: Draft | None = None
    loops: dict[int, dict[IterVar, LoopRef]] = field(default_factory=dict)
    step: Step | None = None

    def block(self, stage: StageBase) -> BlockRef:
        """The block of a stage."""
        return self.blocks[id(stage)]

    def live(self, stage: StageBase) -> dict[IterVar, LoopRef]:
        """The present loops of a stage."""
        return self.loops[id(stage)]

    def refuse(self, error: ScheduleError, loop: LoopRef | None, kind: ForKind | None = None) -> None:
        """Note the refusal in the draft, see `Draft.add`; raises it where there is none."""
        if self.draft is None:
            raise error
        self.locate(error)
        self.draft.add(error, loop, kind)

    def locate(self, error: ScheduleError) -> None:
        """Let the error name the line of the user's code that asked for the step."""
        if self.step is not None:
            error.source = error.source or self.step.line
