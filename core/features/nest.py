"""Loop nests for features: statements below loops, and the buffers that they access."""

from __future__ import annotations

from dataclasses import dataclass

from pegbox.expr.nodes import Buffer
from pegbox.features.index import Loop, Sum
from pegbox.features.symbol import Quantity


@dataclass(frozen=True, eq=False)
class Reference:
    """One place of a statement that reads or writes a buffer, with an index per dimension."""

    buffer: Buffer
    indices: tuple[Sum, ...]
    is_write: bool


@dataclass(frozen=True, eq=False)
class Statement:
    """What runs in the innermost of some loops.

    Attributes:
        loops: those around, outermost first; statements share loops.
        domain: how many different points there are to compute.
        iters: the variables that tell points apart: their values, and how many they have.
        operations: arithmetic operations of one iteration.
    """

    name: str
    loops: tuple[Loop, ...]
    domain: Quantity
    iters: tuple[tuple[Sum, Quantity], ...]
    operations: int
    accesses: tuple[Reference, ...]
    is_reduction: bool

    @property
    def written(self) -> list[Buffer]:
        return [access.buffer for access in self.accesses if access.is_write]


@dataclass(frozen=True, eq=False)
class Nest:
    """All statements in program order (for stages: the order of the schedule); `params` are the arguments' buffers."""

    statements: tuple[Statement, ...]
    params: tuple[Buffer, ...]
