"""Drafts: programs that are only shown. What is not legal in them stays, and is marked."""

from __future__ import annotations

from dataclasses import dataclass, field

from pegbox.errors import ScheduleError
from pegbox.loops.nodes import For, ForKind, Function
from pegbox.loops.visit import walk
from pegbox.schedule.schedule import LoopRef, Schedule

ILLEGAL = "illegal"
"""The annotation of a loop of a draft that says why no such program is built."""


@dataclass
class Draft:
    """What was refused while a program was made, and the loops that shall be shown as they were wanted."""

    refusals: list[ScheduleError] = field(default_factory=list)
    _loops: list[tuple[LoopRef, ForKind | None, str]] = field(default_factory=list)

    def add(self, error: ScheduleError, loop: LoopRef | None, kind: ForKind | None = None) -> None:
        """Mark a loop, which is of that kind in the end; without a kind it stays what it is."""
        self.refusals.append(error)
        if loop is not None:
            self._loops.append((loop, kind, error.reason))

    def finish(self, sch: Schedule) -> None:
        """Change the loops, when nothing else will be asked of the program."""
        for ref, kind, reason in self._loops:
            old = sch.tree.loops[ref.var]
            notes = [note for note in old.annotations if note[0] != ILLEGAL]
            marked = For(old.var, old.extent, old.body, kind or old.kind, (*notes, (ILLEGAL, reason)))
            sch.update(sch.tree.replace(old, marked))


def check_legal(func: Function) -> None:
    """Raises ScheduleError: the program is a draft with an illegal place."""
    for stmt in walk(func.body):
        if isinstance(stmt, For) and (reason := dict(stmt.annotations).get(ILLEGAL)):
            raise ScheduleError(
                f"{func.name} was lowered to be shown, with a loop {stmt.var.name} that is not legal: {reason}",
                "build what is shown without a mark",
            )
