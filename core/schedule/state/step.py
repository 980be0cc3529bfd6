"""`Step`: one call of a primitive as a plain value, which can be recorded, replayed, and shown as Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any

import numpy as np

from pegbox.errors import ScheduleError
from pegbox.origin import line_at


class Reference:
    """A value in a step that only a run can resolve: a loop by its place, a name, or the value of a knob."""

    __slots__ = ()

    def resolve(self, run: Any) -> Any:
        """Return the value in a run of the steps."""
        raise NotImplementedError

    def python(self, context: Any) -> str:
        """Return the expression for the value in Python."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a primitive: `results = s[stage].primitive(*args, **options)`.

    Arguments are numbers, strings, booleans, None, `BlockRef`, references, values of `trace_value` classes, loops of
    stages, or tuples of those.

    Attributes:
        results: the values that the call returns, or names for them.
        stage: the tensor of the TE stage that is called; None for a call of the schedule itself.
        origin: the user's code object that made the call and the offset of the instruction, or the line as text; empty
            if no user's code did. A line takes longer to find, and most schedules are never refused.
    """

    primitive: str
    args: tuple[Any, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    results: tuple[Any, ...] = ()
    stage: Any = None
    origin: tuple[CodeType, int] | str = field(default="", compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:  # code objects cannot be pickled
        return Step, (self.primitive, self.args, self.options, self.results, self.stage, self.line)

    @property
    def line(self) -> str:
        """The file and line of the user's code that made the call; empty if it is not known."""
        return self.origin if isinstance(self.origin, str) else line_at(*self.origin)

    @property
    def decision(self) -> Any:
        """The decision that a sampling step drew; None for other steps."""
        return dict(self.options).get("decision")

    def with_decision(self, decision: Any) -> Step:
        """Return the step with another decision; None lets it draw anew."""
        rest = tuple((k, v) for k, v in self.options if k != "decision")
        return replace(self, options=rest if decision is None else (*rest, ("decision", frozen(decision))))

    def __str__(self) -> str:
        return self.python("sch", {})

    def python(self, target: str, context: Any, text: Callable[[Any], str] = repr) -> str:
        """Write the call of a method of `target` as Python.

        Args:
            context: an argument for the step's references.
            text: a function that writes plain values.
        """
        parts = [python(value, context, text) for value in self.args]
        parts += [f"{name}={python(value, context, text)}" for name, value in self.options]
        return f"{target}.{self.primitive}({', '.join(parts)})"

    def call(self, target: Any, run: Any) -> Any:
        """Call the method of `target`; the run resolves the step's references."""
        options = {name: resolved(value, run) for name, value in self.options}
        return getattr(target, self.primitive)(*resolved(self.args, run), **options)

    def mapped(self, change: Callable[[Any], Any]) -> Step:
        """Return the step with each argument, option and result mapped, including those in tuples."""
        args, options, results = (mapped(each, change) for each in (self.args, self.options, self.results))
        return Step(self.primitive, args, options, results, self.stage, self.origin)


def resolved(value: Any, run: Any) -> Any:
    """Return the value that a run of the steps has for a value of a step."""
    if isinstance(value, tuple):
        return tuple([resolved(each, run) for each in value])
    return value.resolve(run) if isinstance(value, Reference) else value


def python(value: Any, context: Any, text: Callable[[Any], str]) -> str:
    """Write a value of a step as Python; see `Step.python`."""
    match value:
        case Reference():
            return value.python(context)
        case tuple():
            return f"[{', '.join(python(each, context, text) for each in value)}]"
        case float() if not math.isfinite(value):
            return f"float({str(value)!r})"
        case _:
            return value.trace_python() if hasattr(value, "trace_python") else text(value)


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Map a value, or each entry of a tuple."""
    return tuple([mapped(each, change) for each in value]) if isinstance(value, tuple) else change(value)


_DEEPEST = 20  # the deepest nesting of lists in an argument

_PLAIN = "biufcSUO"
"""The kinds of NumPy's types whose values Python also has: numbers, text, objects."""


def frozen(value: Any, depth: int = 0) -> Any:
    """Return a value as steps store it: tuples instead of lists, Python's numbers instead of NumPy's.

    Raises:
        ScheduleError: its lists are nested too deep, or one contains itself.
    """
    if depth > _DEEPEST:
        raise ScheduleError("an argument has lists that are nested too deep", "give a list of numbers or names")
    if isinstance(value, list | tuple):
        return tuple(frozen(each, depth + 1) for each in value)
    found = plain(value)
    return found if found is value else frozen(found, depth + 1)


def plain(value: Any) -> Any:
    """Return Python's value for one of NumPy's numbers, texts or arrays; times and records are returned unchanged.

    Python accepts an array without axes as an integer, too, but cannot hash it.
    """
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in _PLAIN:
        return value.tolist()
    return value
