"""What every family of stage methods stands on: the operation, its loops, and the relations between them.

Nothing happens to a program here. Relations are recorded and replayed on the loop IR when the schedule is lowered
(`pegbox.schedule.te_replay`), which is what makes their meaning independent of the order of calls across stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pegbox.compute.tensor import ComputeOp, IterVar
from pegbox.errors import ScheduleError
from pegbox.loops.nodes import ForKind


@dataclass(frozen=True)
class SplitRelation:
    """`parent` becomes `outer`, `inner`; one of `factor` (extent of inner), `nparts` (extent of outer) is set."""

    parent: IterVar
    outer: IterVar
    inner: IterVar
    factor: int | None
    nparts: int | None


@dataclass(frozen=True)
class FuseRelation:
    """`outer` and `inner` become `fused`, inner running fastest; `order` are the stage's loops just before."""

    outer: IterVar
    inner: IterVar
    fused: IterVar
    order: tuple[IterVar, ...]


Relation: TypeAlias = SplitRelation | FuseRelation


@dataclass(frozen=True)
class Root:
    """Computed in a nest of its own, whole, before its consumers."""


@dataclass(frozen=True)
class Inline:
    """Computed wherever a consumer needs an element."""


@dataclass(frozen=True)
class At:
    """Computed inside a consumer's loop, as much as one iteration of it needs."""

    stage: StageBase
    loop: IterVar


@dataclass(eq=False)
class GroupBase:
    """Stages with a place in common; a group may stand inside of another one."""

    stages: list[StageBase]
    group: GroupBase | None = None
    attach: Root | At = field(default_factory=Root)

    def __repr__(self) -> str:
        return f"Group({', '.join(stage.op.name for stage in self.stages)})"


@dataclass(eq=False)
class StageBase:
    """The schedule of one operation; `leaf_iter_vars` are its loops, outermost first."""

    op: ComputeOp
    is_output: bool
    leaf_iter_vars: list[IterVar] = field(default_factory=list)
    relations: list[Relation] = field(default_factory=list)
    kinds: dict[IterVar, ForKind] = field(default_factory=dict)
    pragmas: dict[IterVar, dict[str, Any]] = field(default_factory=dict)
    attach: Root | Inline | At = field(default_factory=Root)
    group: GroupBase | None = None

    @property
    def place(self) -> Root | Inline | At:
        """Where the stage is computed: where it is attached itself, or else where its group is."""
        place, group = self.attach, self.group
        while isinstance(place, Root) and group is not None:
            place, group = group.attach, group.group
        return place

    def __post_init__(self) -> None:
        if not self.leaf_iter_vars:
            self.leaf_iter_vars = [*self.op.axis, *self.op.reduce_axis]

    def __repr__(self) -> str:
        return f"Stage({self.op.name}: {', '.join(iv.name for iv in self.leaf_iter_vars)})"

    def _check_serial(self, what: str, *loops: IterVar) -> None:
        for loop in loops:
            if loop in self.kinds:
                verb = what.partition("(")[0]
                raise ScheduleError(
                    f"{what} of {self.op.name}: {loop.name} is {self.kinds[loop]} already; {verb} first, then make the "
                    f"resulting loop {self.kinds[loop]}"
                )

    def _position(self, loop: IterVar, what: str) -> int:
        for position, iv in enumerate(self.leaf_iter_vars):
            if iv is loop:
                return position
        name = getattr(loop, "name", repr(loop))
        known = [iv for r in self.relations for iv in _parents(r)]
        gone = any(iv is loop for iv in known)
        why = "was split or fused already" if gone else "is not a loop of this stage"
        raise ScheduleError(f"{what}: {name} {why}; the loops of {self.op.name} are {self._loops()}")

    def _loops(self) -> str:
        return ", ".join(iv.name for iv in self.leaf_iter_vars)


def _parents(relation: Relation) -> Sequence[IterVar]:
    return (relation.parent,) if isinstance(relation, SplitRelation) else (relation.outer, relation.inner)
