"""`Trace`: the steps of a schedule as plain values, which can be printed as Python, converted to JSON, and replayed."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from pegbox.checks import check_flag
from pegbox.errors import ScheduleError
from pegbox.schedule.state.handles import BlockRef, LoopRef
from pegbox.schedule.state.step import Reference, Step
from pegbox.shown import value_text

if TYPE_CHECKING:
    from pegbox.schedule.schedule import Schedule


@dataclass(frozen=True, slots=True)
class LoopAt(Reference):
    """A loop given by its place before the step: the `depth`-th loop around a block, where 0 is the outermost."""

    block: str
    depth: int

    def resolve(self, run: _Run) -> LoopRef:
        return run.schedule.get_loop(self.block, self.depth)

    def python(self, context: Mapping[Drawn, str]) -> str:
        return f"sch.get_loop({self.block!r}, {self.depth})"


@dataclass(frozen=True, slots=True)
class Drawn(Reference):
    """The result number `position` of an earlier sampling step. Steps are counted from 0."""

    step: int
    position: int = 0

    def resolve(self, run: _Run) -> Any:
        if not (0 <= self.step < len(run.results) and 0 <= self.position < len(run.results[self.step])):
            raise ScheduleError(f"step {self.step} drew no result {self.position}", "use results of earlier steps")
        return run.results[self.step][self.position]

    def python(self, context: Mapping[Drawn, str]) -> str:
        return context.get(self, f"<result {self.position} of step {self.step}>")


@dataclass(frozen=True, slots=True)
class _Run:
    """The schedule that a trace is applied to, and the results of the steps so far."""

    schedule: Schedule
    results: list[tuple[Any, ...]]


_Value = TypeVar("_Value")
_KINDS: dict[str, Callable[[Any], Any]] = {}


def trace_value(kind: str) -> Callable[[type[_Value]], type[_Value]]:
    """Register a class whose instances can be arguments of steps; JSON represents them as {kind: data}.

    The class has `trace_python()`, which returns an expression that a primitive accepts for the value, `trace_json()`,
    which returns plain data, and a class method `from_trace_json(data)` that makes an equal value; instances are
    immutable and compare by value.
    """

    def register(cls: type[_Value]) -> type[_Value]:
        cls.kind = kind  # type: ignore[attr-defined]
        _KINDS[kind] = cls.from_trace_json  # type: ignore[attr-defined]
        return cls

    return register


@dataclass(frozen=True, slots=True)
class Trace:
    """The steps that made a schedule, oldest first. `str(trace)` is Python code for a schedule called `sch`."""

    steps: tuple[Step, ...] = ()

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in self.as_python())

    def as_python(self) -> list[str]:
        """Write the lines of a Python program for a fresh schedule called `sch`."""
        names: dict[Drawn, str] = {}
        lines = []
        for number, step in enumerate(self.steps):
            call = step.python("sch", names)
            if step.primitive.startswith("sample_"):
                several = step.primitive in _TILES
                fresh = [f"v{len(names) + n}" for n in range(len(step.decision) if several else 1)]
                names |= {Drawn(number, n): name for n, name in enumerate(fresh)}
                call = f"{', '.join(fresh)}{',' if several and len(fresh) == 1 else ''} = {call}"
            lines.append(call)
        return lines

    def show(self) -> None:
        """Print the trace as Python."""
        print(self, end="")

    @property
    def decisions(self) -> dict[int, Any]:
        """The decisions of the sampling steps: {the step's index in `steps`: decision}."""
        return {n: s.decision for n, s in enumerate(self.steps) if s.primitive.startswith("sample_")}

    def with_decision(self, step: int, decision: Any) -> Trace:
        """Return the trace with another decision at a sampling step, given by its index in `steps`.

        Raises:
            ScheduleError: that is not a sampling step.
        """
        self._check_sampling([step])
        return Trace((*self.steps[:step], self.steps[step].with_decision(decision), *self.steps[step + 1 :]))

    def simplified(self, remove_postproc: bool = False) -> Trace:
        """Return the trace without the sampling steps whose results no later step uses.

        Args:
            remove_postproc: omit `enter_postproc` and all later steps, too.
        """
        used: set[int] = set()
        keep: list[int] = []
        for number in reversed(range(self._count(remove_postproc))):
            step = self.steps[number]
            if number in used or not step.primitive.startswith("sample_"):
                keep.append(number)
                step.mapped(lambda value: used.add(value.step) if isinstance(value, Drawn) else None)
        place = {old: new for new, old in enumerate(reversed(keep))}

        def renumbered(value: Any) -> Any:
            return replace(value, step=place[value.step]) if isinstance(value, Drawn) else value

        return Trace(tuple(self.steps[n].mapped(renumbered) for n in reversed(keep)))

    def apply(self, schedule: Schedule) -> Schedule:
        """Do every step on `schedule`, which starts from the same program, and return it.

        Raises:
            ScheduleError: a step does not fit the program; the message names the step.
        """
        return self.apply_to_schedule(schedule)

    def apply_to_schedule(
        self, sch: Schedule, remove_postproc: bool = False, decisions: Mapping[int, Any] | None = None
    ) -> Schedule:
        """Do every step on `sch`, which starts from the same program (its shapes may differ), and return it.

        Args:
            remove_postproc: omit `enter_postproc` and all later steps.
            decisions: {index of a sampling step in `steps`: its decision}; None lets the step draw anew. The steps that
                use its results get the new values.

        Raises:
            ScheduleError: a step does not fit the program; the message names the step. Earlier steps are not undone.
        """
        if not hasattr(sch, "primitives"):
            raise ScheduleError(f"a trace is applied to a schedule, not to {value_text(sch)}", "give a tir.Schedule")
        changed = decisions if isinstance(decisions, Mapping) else {}
        if decisions is not None and decisions is not changed:
            raise ScheduleError(f"decisions={value_text(decisions)} is not a mapping", "give {step: decision}")
        self._check_sampling(changed)
        run = _Run(sch, [])
        for number, step in enumerate(self.steps[: self._count(remove_postproc)]):
            todo = step.with_decision(changed[number]) if number in changed else step
            try:
                run.results.append(_do(todo, run))
            except ScheduleError as error:
                error.step = f"step {number + 1} of {len(self.steps)} of the trace, {step}"
                raise
        return sch

    def _count(self, remove_postproc: bool) -> int:
        """Count the steps, or only those before postprocessing."""
        remove_postproc = check_flag("remove_postproc", remove_postproc, error=ScheduleError)
        names = [step.primitive for step in self.steps]
        return names.index(_POSTPROC) if remove_postproc and _POSTPROC in names else len(names)

    def _check_sampling(self, steps: Iterable[object]) -> None:
        """Check that all of the given steps are sampling steps."""
        for step in steps:
            if not isinstance(step, int) or step not in self.decisions:
                places = ", ".join(map(str, self.decisions)) or "none"
                raise ScheduleError(
                    f"step {value_text(step)} of the trace is not a sampling step", f"the sampling steps are {places}"
                )

    def to_json(self) -> list[Any]:
        """Return plain data for JSON: a list of [primitive, arguments, options]."""
        return [[s.primitive, _encode(s.args), {k: _encode(v) for k, v in s.options}] for s in self.steps]

    as_json = to_json

    @staticmethod
    def from_json(data: object) -> Trace:
        """Read a trace from the data of `to_json`, or from such data as JSON text.

        Raises:
            ScheduleError: the data is not a trace.
        """
        try:
            raw: Any = json.loads(data) if isinstance(data, str) else data
            return Trace(tuple(_step(item) for item in raw))
        except (TypeError, ValueError, KeyError) as error:
            raise ScheduleError(
                f"not a schedule trace ({error}): {value_text(data)}", "expected what Trace.to_json gives"
            ) from error

    @staticmethod
    def apply_json_to_schedule(json_obj: object, sch: Schedule) -> Schedule:
        """Read a trace from JSON and replay its steps on `sch`.

        Raises:
            ScheduleError: the data is not a trace, or a step does not fit the program.
        """
        return Trace.from_json(json_obj).apply_to_schedule(sch)


_TILES = ("sample_perfect_tile", "sample_partitioned_tile")
_POSTPROC = "enter_postproc"


def _do(step: Step, run: _Run) -> tuple[Any, ...]:
    if step.primitive not in run.schedule.primitives():
        raise ScheduleError(f"no primitive is called {step.primitive!r}")
    signature = inspect.signature(getattr(run.schedule, step.primitive))
    try:
        signature.bind(*step.args, **dict(step.options))
    except TypeError as error:
        raise ScheduleError(str(error), f"write {step.primitive}{signature}") from None
    result = step.call(run.schedule, run)
    return tuple(result) if isinstance(result, tuple | list) else (result,)


def _step(item: Any) -> Step:
    primitive, args, options = item
    if not isinstance(primitive, str):
        raise ValueError(f"{primitive!r} is not a primitive")
    if not isinstance(args, list | tuple):
        raise ValueError(f"the arguments {args!r} are not a list")
    return Step(primitive, _decode(args), tuple((k, _decode(v)) for k, v in options.items()))


def _encode(value: Any) -> Any:
    match value:
        case LoopAt(block, depth):
            return {"loop": [block, depth]}
        case Drawn(step, position):
            return {"drawn": [step, position]}
        case BlockRef(name):
            return {"block": name}
        case tuple():
            return [_encode(v) for v in value]
        case _:
            return {value.kind: value.trace_json()} if hasattr(value, "trace_json") else value


def _decode(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_decode(v) for v in value)
    if not isinstance(value, dict):
        return value
    ((kind, data),) = value.items()
    match kind:
        case "loop":
            block, depth = data
            return LoopAt(block, depth)
        case "drawn":
            step, position = data
            return Drawn(step, position)
        case "block":
            return BlockRef(data)
        case _:
            return _KINDS[kind](data)
