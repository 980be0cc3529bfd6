"""The scopes of a script: loops, block variables, buffers, and names from around the function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pegbox.expr.bounds import Interval
from pegbox.expr.nodes import Expr, Var
from pegbox.expr.visit import free_vars

MISSING: Any = object()


@dataclass
class SuiteNames:
    """The names of one suite; `domains` maps loops or block variables to (first value, number of values)."""

    names: dict[str, Any] = field(default_factory=dict)
    domains: dict[str, tuple[int, int]] = field(default_factory=dict)
    variables: dict[Var, int] = field(default_factory=dict)
    is_block: bool = False
    heading: bool = False  # True while the head of a block is read: names mean the loops around it


class ScriptScope:
    """A stack of frames, innermost last, over the names of the Python scope around."""

    def __init__(self, outer: Mapping[str, Any]) -> None:
        self.outer = outer
        self.frames: list[SuiteNames] = []

    @contextmanager
    def frame(self, *, is_block: bool = False) -> Iterator[SuiteNames]:
        self.frames.append(SuiteNames(is_block=is_block))
        yield self.frames[-1]
        self.frames.pop()

    def find(self, name: str) -> Any:
        """Return the innermost meaning of a name, or MISSING."""
        for frame in reversed(self.frames):
            if name in frame.names:
                return frame.names[name]
        return self.outer.get(name, MISSING)

    def is_local(self, name: str) -> bool:
        return any(name in frame.names for frame in self.frames)

    def domain(self, name: str) -> tuple[int, int] | None:
        """Return the first value and the number of values of a loop or block variable."""
        for frame in reversed(self.frames):
            if name in frame.names:
                return frame.domains.get(name)
        return None

    def bind(self, name: str, value: Any) -> None:
        self.frames[-1].names[name] = value

    def bind_variable(self, name: str, var: Var, value: Expr, first: int, extent: int) -> None:
        """Bind the name of a loop or block variable to `value`, which is `var` shifted to its first value."""
        frame = self.frames[-1]
        frame.names[name] = value
        frame.domains[name] = (first, extent)
        frame.variables[var] = extent

    def ranges(self) -> dict[Var, Interval]:
        return {var: (0, extent - 1) for frame in self.frames for var, extent in frame.variables.items()}

    def hidden(self, value: Expr) -> Var | None:
        """Find a loop in a value that a block's body cannot use, because it is outside the outermost block."""
        place = next((n for n, frame in enumerate(self.frames) if frame.is_block), None)
        if place is None or self.frames[place].heading:
            return None
        outside = {var for frame in self.frames[:place] for var in frame.variables}
        return next((var for var in free_vars(value) if var in outside), None)
