"""`LoopRef`, `BlockRef` and drawn values: the references that a schedule returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pegbox.expr.nodes import Var


@dataclass(frozen=True, slots=True, eq=False)
class LoopRef:
    """A reference to a loop of one program.

    It is valid until a primitive replaces the loop (split, fuse, compute_at ...).
    """

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
    """A reference to a block by name, for any program that has one of this name."""

    name: str

    def trace_python(self) -> str:
        """Return the name as Python text, which primitives accept."""
        return repr(self.name)


# TVM's names for them.
LoopRV: TypeAlias = LoopRef
BlockRV: TypeAlias = BlockRef


class SampledInt(int):
    """A number that a sampling step drew: the result number `position` of the step with the token `draw`.

    It behaves as a plain number, but a trace records its origin: if the step draws another number in a replay, the
    steps that use this one get that number.
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
    """Yield the blocks and loops among the arguments; only the first argument may be a block's name."""
    for number, value in enumerate(arguments):
        if isinstance(value, LoopRef):
            yield value.var
        elif isinstance(value, BlockRef):
            yield value.name
        elif isinstance(value, str) and number == 0:
            yield value
        elif isinstance(value, tuple | list):
            # Primitives accept lists of handles, but never lists of lists, which might contain themselves.
            yield from handles([v for v in value if not isinstance(v, str | tuple | list)])
