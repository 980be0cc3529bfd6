"""`ReplayState`, the program that a replay has made so far, and `Draft`, the refusals of a program only shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pegbox.compute.axis import IterVar
from pegbox.errors import ScheduleError
from pegbox.loops.nodes import For, ForKind, Function
from pegbox.loops.visit import walk
from pegbox.schedule.schedule import BlockRef, LoopRef, Schedule
from pegbox.schedule.state.step import Step
from pegbox.schedule.te.stage_base import StageBase

ILLEGAL = "illegal"
"""The annotation of a loop of a draft: the reason why no such program is built."""


@dataclass
class Draft:
    """The refusals during the replay of a program that is only shown, and the loops to show as requested."""

    refusals: list[ScheduleError] = field(default_factory=list)
    _loops: list[tuple[LoopRef, ForKind | None, str]] = field(default_factory=list)

    def add(self, error: ScheduleError, loop: LoopRef | None, kind: ForKind | None = None) -> None:
        """Mark a loop, which finally gets that kind; without a kind it keeps its own."""
        self.refusals.append(error)
        if loop is not None:
            self._loops.append((loop, kind, error.reason))

    def finish(self, sch: Schedule) -> None:
        """Change the loops, as the last step on the program."""
        for ref, kind, reason in self._loops:
            old = sch.tree.loops[ref.var]
            notes = [note for note in old.annotations if note[0] != ILLEGAL]
            marked = For(old.var, old.extent, old.body, kind or old.kind, (*notes, (ILLEGAL, reason)))
            sch.update(sch.tree.replace(old, marked))


def check_legal(func: Function) -> None:
    """Raise ScheduleError if the program is a draft with an illegal place."""
    for stmt in walk(func.body):
        if isinstance(stmt, For) and (reason := dict(stmt.annotations).get(ILLEGAL)):
            raise ScheduleError(
                f"{func.name} was lowered to be shown, with a loop {stmt.var.name} that is not legal: {reason}",
                "build what is shown without a mark",
            )


@dataclass
class ReplayState:
    """The program that a replay has made so far.

    Attributes:
        draft: the draft of a program that is only shown, which collects refusals.
        loops: the loops of the placed stages, by the ids of the stages.
        step: the step that is being replayed.
    """

    sch: Schedule
    stages: Sequence[StageBase]
    blocks: Mapping[int, BlockRef]
    draft: Draft | None = None
    loops: dict[int, dict[IterVar, LoopRef]] = field(default_factory=dict)
    step: Step | None = None

    def block(self, stage: StageBase) -> BlockRef:
        """Return the block of a stage."""
        return self.blocks[id(stage)]

    def live(self, stage: StageBase) -> dict[IterVar, LoopRef]:
        """Return the present loops of a stage."""
        return self.loops[id(stage)]

    def refuse(self, error: ScheduleError, loop: LoopRef | None, kind: ForKind | None = None) -> None:
        """Note the refusal in the draft, see `Draft.add`; raise it without a draft."""
        if self.draft is None:
            raise error
        self.locate(error)
        self.draft.add(error, loop, kind)

    def locate(self, error: ScheduleError) -> None:
        """Let the error name the line of the user's code with the step."""
        if self.step is not None:
            error.source = error.source or self.step.line
