"""What was done to a program, as plain values: it can be printed as Python, pickled, stored as JSON and done again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pegbox.errors import ScheduleError
from pegbox.schedule.handles import BlockRef, LoopRef

if TYPE_CHECKING:
    from pegbox.schedule.schedule import Schedule


@dataclass(frozen=True, slots=True)
class LoopAt:
    """A loop told by its place, at the moment of the step: the `depth`-th loop around a block, 0 the outermost."""

    block: str
    depth: int


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a primitive. Arguments are numbers, strings, booleans, None, BlockRef, LoopAt, or tuples of those."""

    primitive: str
    args: tuple[Any, ...]
    options: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        parts = [*map(_python, self.args), *(f"{k}={_python(v)}" for k, v in self.options)]
        return f"sch.{self.primitive}({', '.join(parts)})"


@dataclass(frozen=True, slots=True)
class Trace:
    """The steps that made a schedule, oldest first. `str(trace)` is Python code for a schedule called `sch`."""

    steps: tuple[Step, ...] = ()

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __str__(self) -> str:
        return "".join(f"{step}\n" for step in self.steps)

    def apply(self, schedule: Schedule) -> Schedule:
        """Do every step on `schedule`, which starts from the same program, and return it.

        Raises:
            ScheduleError: a step does not fit the program; the message says which.
        """
        for number, step in enumerate(self.steps, 1):
            try:
                if step.primitive not in schedule.primitives():
                    raise ScheduleError(f"no primitive is called {step.primitive!r}")
                call = getattr(schedule, step.primitive)
                call(*_resolve(schedule, step.args), **{k: _resolve(schedule, v) for k, v in step.options})
            except ScheduleError as error:
                raise ScheduleError(f"step {number} of {len(self.steps)} of the trace, {step}: {error}") from error
        return schedule

    def to_json(self) -> list[Any]:
        """JSON-able: a list of [primitive, arguments, options]."""
        return [[s.primitive, _encode(s.args), {k: _encode(v) for k, v in s.options}] for s in self.steps]

    @staticmethod
    def from_json(data: object) -> Trace:
        """The inverse of `to_json`; a string is read as JSON text.

        Raises:
            ScheduleError: the data is no trace.
        """
        raw: Any = json.loads(data) if isinstance(data, str) else data
        try:
            return Trace(tuple(_step(item) for item in raw))
        except (TypeError, ValueError, KeyError) as error:
            raise ScheduleError(
                f"not a schedule trace ({error}): {raw!r}; expected what Trace.to_json gives"
            ) from error


def _step(item: Any) -> Step:
    primitive, args, options = item
    if not isinstance(primitive, str):
        raise ValueError(f"{primitive!r} is no primitive")
    return Step(primitive, _decode(args), tuple((k, _decode(v)) for k, v in options.items()))


def _resolve(schedule: Schedule, value: Any) -> Any:
    if isinstance(value, LoopAt):
        return schedule.get_loop(value.block, value.depth)
    return tuple(_resolve(schedule, v) for v in value) if isinstance(value, tuple) else value


def _python(value: Any) -> str:
    if isinstance(value, LoopAt):
        return f"sch.get_loop({value.block!r}, {value.depth})"
    if isinstance(value, BlockRef):
        return repr(value.name)
    return f"[{', '.join(map(_python, value))}]" if isinstance(value, tuple) else repr(value)


def _encode(value: Any) -> Any:
    if isinstance(value, LoopAt):
        return {"loop": [value.block, value.depth]}
    if isinstance(value, BlockRef):
        return {"block": value.name}
    return [_encode(v) for v in value] if isinstance(value, tuple) else value


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        if "loop" in value:
            block, depth = value["loop"]
            return LoopAt(block, depth)
        return BlockRef(value["block"])
    return tuple(_decode(v) for v in value) if isinstance(value, list) else value


def plain(value: Any, place: dict[LoopRef, LoopAt]) -> Any:
    """An argument as the trace keeps it."""
    if isinstance(value, LoopRef):
        return place[value]
    return tuple(plain(v, place) for v in value) if isinstance(value, tuple | list) else value
