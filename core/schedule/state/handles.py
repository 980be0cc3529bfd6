"""`LoopRef`, `BlockRef` and drawn values: the references that a schedule returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pegbox.expr.nodes import Var


@dataclass(frozen=True, slots=True, eq=False)
class LoopRef:
    """A loop of one program. It stays good until a primitive replaces the loop (split, fuse, compute_at ...)."""

    var: Var

    @property
    def name(self) -> str:
        return self.var.name

    def __eq__(self, other: object) -> bool:
        return self.var is other.var if isinstance(other, LoopRef) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.var)

    def __repr__(self) -> str:
        return f"LoopRef({self.var.name})"


@dataclass(frozen=True, slots=True)
class BlockRef:
    """A block of any program that has one of this name."""

    name: str

    def trace_python(self) -> str:
        """Return the name, as primitives take it."""
        return repr(self.name)


# What TVM calls them.
LoopRV: TypeAlias = LoopRef
BlockRV: TypeAlias = BlockRef


class SampledInt(int):
    """A number that a sampling step drew: the result number `position` of the step with the token `draw`.

    It is a plain number in all respects, but a trace knows where it comes from: when the step draws another number in
    a replay, the steps that use this one get that.
    """

    draw: object
    position: int

    def __new__(cls, value: int, draw: object = None, position: int = 0) -> SampledInt:
        made = super().__new__(cls, value)
        made.draw, made.position = draw, position
        return made


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SampledLoop(LoopRef):
    """A loop that `sample_compute_location` drew; equal to any other handle of the loop."""

    draw: object = None


def handles(arguments: Sequence[Any]) -> Iterator[str | Var]:
    """Yield the blocks and loops among the arguments; a string may be a block's name only in the first place."""
    for number, value in enumerate(arguments):
        if isinstance(value, LoopRef):
            yield value.var
        elif isinstance(value, BlockRef):
            yield value.name
        elif isinstance(value, str) and number == 0:
            yield value
        elif isinstance(value, tuple | list):
            # Primitives take lists of handles, never lists of lists, which may hold themselves.
            yield from handles([v for v in value if not isinstance(v, str | tuple | list)])
