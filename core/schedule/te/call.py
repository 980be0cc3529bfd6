"""Calls of a TE stage's methods, with the places in the user's code that made them.

Relations are recorded first and replayed later: a refusal then is about a call that has long returned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, Any, TypeAlias

from pegbox.compute.axis import IterVar
from pegbox.errors import ScheduleError
from pegbox.loops.nodes import ForKind
from pegbox.origin import line_at
from pegbox.schedule.schedule import LoopRef
from pegbox.schedule.te.draft import Draft

if TYPE_CHECKING:
    from pegbox.schedule.te.stage_base import GroupBase, StageBase

Call: TypeAlias = tuple[Any, ...]
"""A method's name; the code that called it, and the byte of it that ran (None and 0 where no user's code did: a line
takes longer to find; see `settled`); the values that it was given."""


def settled(calls: list[Call]) -> list[Call]:
    """The calls with their lines as text: code does not go to other processes."""
    return [(name, _line(code, running), 0, *values) for name, code, running, *values in calls]


def _line(code: CodeType | str | None, running: int) -> str:
    return line_at(code, running) if isinstance(code, CodeType) else code or ""


def moved_calls(calls: list[Call], loops: Mapping[IterVar, IterVar]) -> list[Call]:
    """Select the calls that mention one of the loops, and replace it by the loop that it has become."""
    moved = [call for call in calls if any(_mentions(call, loop) for loop in loops)]
    return [tuple(loops.get(each, each) if isinstance(each, IterVar) else each for each in call) for call in moved]


def _mentions(call: Call, loop: IterVar) -> bool:
    return any(each is loop for each in call[3:])


Asked: TypeAlias = "tuple[StageBase, tuple[str, ...], IterVar | None]"
"""What a replay does: for a stage, because of a call of one of these methods, of a loop if any."""


@dataclass
class ReplayStep:
    """The step that a replay is at, and what becomes of a refusal."""

    draft: Draft | None = None
    """For a program that is only shown; it gets what would be refused otherwise."""
    asked: Asked | None = None

    def refuse(self, error: ScheduleError, loop: LoopRef | None, kind: ForKind | None = None) -> None:
        """Note the refusal in the draft, see `Draft.add`; raises it where there is none."""
        if self.draft is None:
            raise error
        self.locate(error)
        self.draft.add(error, loop, kind)

    def locate(self, error: ScheduleError) -> None:
        """Let the error name the line of the last call that asked for this step; that about the loop, if any is."""
        if self.asked is None:
            return
        stage, methods, loop = self.asked
        calls = [call for call in _calls(stage) if call[0] in methods]
        about = [call for call in calls if loop is not None and _mentions(call, loop)]
        _, code, running, *_ = (about or calls or [("", "", 0)])[-1]
        error.source = error.source or _line(code, running)


def _calls(stage: StageBase) -> Iterator[Call]:
    """Yield the calls of a stage: first those of the groups around it, then its own."""
    around: list[StageBase | GroupBase] = []
    each: StageBase | GroupBase | None = stage
    while each is not None:
        around.append(each)
        each = each.group
    for each in reversed(around):
        yield from each.calls
