"""Calls of a TE stage's methods, with the places in the user's code that made them.

Relations are recorded first and replayed later: a refusal then is about a call that has long returned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from pegbox.compute.axis import IterVar
from pegbox.errors import ScheduleError
from pegbox.origin import Place, line_at

if TYPE_CHECKING:
    from pegbox.schedule.te.stage_base import GroupBase, StageBase

Call: TypeAlias = tuple[str, tuple[Any, ...], Mapping[str, Any], Place | None]
"""A method, its arguments, its options, and where it was called; None where no user's code did."""


def moved_calls(calls: list[Call], loops: Mapping[IterVar, IterVar]) -> list[Call]:
    """Those calls that mention one of the loops, with the loops that these have become."""

    def new(each: Any) -> Any:
        return loops.get(each, each) if isinstance(each, IterVar) else each

    return [
        (method, tuple(map(new, args)), {name: new(each) for name, each in options.items()}, place)
        for method, args, options, place in (call for call in calls if any(_mentions(call, loop) for loop in loops))
    ]


def _mentions(call: Call, loop: IterVar) -> bool:
    _, args, options, _ = call
    return any(each is loop for each in (*args, *options.values()))


class Step:
    """What a replay is doing: which methods of a stage asked for it, and for which loop."""

    def __init__(self) -> None:
        self._stage: StageBase | None = None
        self._methods: tuple[str, ...] = ()
        self._loop: IterVar | None = None

    def is_for(self, stage: StageBase, *methods: str, loop: IterVar | None = None) -> None:
        self._stage, self._methods, self._loop = stage, methods, loop

    def locate(self, error: ScheduleError) -> None:
        """Let the error name the line of the last call that asked for this step; that about the loop, if any is."""
        calls = [call for call in self._calls() if call[0] in self._methods]
        about = [call for call in calls if self._loop is not None and _mentions(call, self._loop)]
        place = next((call[3] for call in reversed(about or calls)), None)
        if not error.source and place is not None:
            error.source = line_at(place)

    def _calls(self) -> Iterator[Call]:
        """Those of the groups around come first: what a stage says itself goes before."""
        around: list[StageBase | GroupBase] = []
        each: StageBase | GroupBase | None = self._stage
        while each is not None:
            around.append(each)
            each = each.group
        for each in reversed(around):
            yield from each.calls
