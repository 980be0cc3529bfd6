"""A stage of a TE schedule: one operation, the relations its loops are to have, and where it is computed.

Nothing happens to a program here. Relations are recorded and replayed on the loop IR when the schedule is lowered
(`pegbox.schedule.te_replay`), which is what makes their meaning independent of the order of calls across stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pegbox.compute.tensor import ComputeOp, IterVar, Range
from pegbox.errors import ScheduleError
from pegbox.expr.dtypes import integer
from pegbox.loops.nodes import ForKind
from pegbox.schedule.primitives.kinds import pragma_value


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

    stage: Stage
    loop: IterVar


@dataclass(eq=False)
class Stage:
    """The schedule of one operation; `leaf_iter_vars` are its loops, outermost first."""

    op: ComputeOp
    is_output: bool
    leaf_iter_vars: list[IterVar] = field(default_factory=list)
    relations: list[Relation] = field(default_factory=list)
    kinds: dict[IterVar, ForKind] = field(default_factory=dict)
    pragmas: dict[IterVar, dict[str, Any]] = field(default_factory=dict)
    attach: Root | Inline | At = field(default_factory=Root)

    def __post_init__(self) -> None:
        if not self.leaf_iter_vars:
            self.leaf_iter_vars = [*self.op.axis, *self.op.reduce_axis]

    def __repr__(self) -> str:
        return f"Stage({self.op.name}: {', '.join(iv.name for iv in self.leaf_iter_vars)})"

    def split(self, parent: IterVar, factor: int | None = None, nparts: int | None = None) -> tuple[IterVar, IterVar]:
        """Split a loop in two; `factor` is the inner extent, `nparts` the outer one. It need not divide.

        Raises:
            ScheduleError: not a loop of this stage, or not exactly one positive number given.
        """
        position = self._position(parent, "split")
        self._check_serial(f"split({parent.name})", parent)
        given = [x for x in (factor, nparts) if x is not None]
        number = _positive(given[0]) if len(given) == 1 else None
        if number is None:
            raise ScheduleError(
                f"split({parent.name}) of {self.op.name}: factor={factor}, nparts={nparts}; "
                "give exactly one of them, a positive integer"
            )
        small = min(number, parent.extent)
        large = -(-parent.extent // small)
        outer_extent, inner_extent = (large, small) if factor is not None else (small, large)
        outer = IterVar(f"{parent.name}_outer", Range(0, outer_extent), parent.kind)
        inner = IterVar(f"{parent.name}_inner", Range(0, inner_extent), parent.kind)
        self.relations.append(
            SplitRelation(parent, outer, inner, number if nparts is None else None, number if factor is None else None)
        )
        self._hand_on_pragmas(parent, outer)
        self.leaf_iter_vars[position : position + 1] = [outer, inner]
        return outer, inner

    def fuse(self, *loops: IterVar) -> IterVar:
        """Make one loop of several adjacent ones.

        Raises:
            ScheduleError: they are not loops of this stage directly inside one another, in that order.
        """
        if not loops:
            raise ScheduleError(f"fuse of {self.op.name}: no loops given")
        fused = loops[0]
        for inner in loops[1:]:
            fused = self._fuse_two(fused, inner)
        return fused

    def _fuse_two(self, outer: IterVar, inner: IterVar) -> IterVar:
        position = self._position(outer, "fuse")
        if self._position(inner, "fuse") != position + 1:
            raise ScheduleError(
                f"fuse({outer.name}, {inner.name}) of {self.op.name}: {inner.name} is not directly inside "
                f"{outer.name}; loops are {self._loops()}: reorder them first"
            )
        self._check_serial(f"fuse({outer.name}, {inner.name})", outer, inner)
        kind = "reduce" if "reduce" in (outer.kind, inner.kind) else "spatial"
        fused = IterVar(f"{outer.name}_{inner.name}_fused", Range(0, outer.extent * inner.extent), kind)
        self.relations.append(FuseRelation(outer, inner, fused, tuple(self.leaf_iter_vars)))
        self.leaf_iter_vars[position : position + 2] = [fused]
        self._hand_on_pragmas(inner, fused)
        self._hand_on_pragmas(outer, fused)
        return fused

    def reorder(self, *loops: IterVar) -> None:
        """Put the loops in this order, in the places that they hold now.

        Raises:
            ScheduleError: one is not a loop of this stage or stands twice.
        """
        places = [self._position(iv, "reorder") for iv in loops]
        if len(set(places)) != len(places):
            raise ScheduleError(f"reorder of {self.op.name}: a loop stands twice in {[iv.name for iv in loops]}")
        for place, iv in zip(sorted(places), loops, strict=True):
            self.leaf_iter_vars[place] = iv

    def tile(self, x: IterVar, y: IterVar, x_factor: int, y_factor: int) -> tuple[IterVar, IterVar, IterVar, IterVar]:
        """Split both and order them (x outer, y outer, x inner, y inner)."""
        xo, xi = self.split(x, factor=x_factor)
        yo, yi = self.split(y, factor=y_factor)
        self.reorder(xo, yo, xi, yi)
        return xo, yo, xi, yi

    def vectorize(self, loop: IterVar) -> None:
        """Run the iterations of a loop as the lanes of vectors."""
        self._annotate(loop, ForKind.VECTORIZED, "vectorize")

    def unroll(self, loop: IterVar) -> None:
        """Write the iterations of a loop out."""
        self._annotate(loop, ForKind.UNROLLED, "unroll")

    def parallel(self, loop: IterVar) -> None:
        """Share the iterations of a loop among threads."""
        self._annotate(loop, ForKind.PARALLEL, "parallel")

    def _annotate(self, loop: IterVar, kind: ForKind, what: str) -> None:
        self._position(loop, what)
        self.kinds[loop] = kind

    def pragma(self, loop: IterVar, name: str, value: Any = True) -> None:
        """Attach a hint to a loop: `auto_unroll_max_step` (steps) or `unroll_explicit` (bool).

        Raises:
            ScheduleError: an unknown pragma or value, or not a loop of this stage.
        """
        self._position(loop, f"pragma {name}")
        if name not in ("auto_unroll_max_step", "unroll_explicit"):
            raise ScheduleError(
                f"pragma {name!r} on {loop.name} of {self.op.name}: use auto_unroll_max_step or unroll_explicit"
            )
        self.pragmas.setdefault(loop, {})[name] = pragma_value(name, value)

    def compute_at(self, parent: Stage, loop: IterVar) -> None:
        """Compute this stage inside a loop of a consumer.

        Raises:
            ScheduleError: this stage is an output, or `loop` is not a loop of `parent`.
        """
        if self.is_output:
            raise ScheduleError(f"compute_at: {self.op.name} is an output and stays at the root")
        parent._position(loop, f"compute_at({self.op.name})")
        if parent is self:
            raise ScheduleError(f"compute_at: {self.op.name} cannot be computed inside itself")
        self.attach = At(parent, loop)

    def compute_inline(self) -> None:
        """Compute this stage's elements where they are used.

        Raises:
            ScheduleError: this stage is an output or a reduction, or has several outputs.
        """
        if self.is_output:
            raise ScheduleError(f"compute_inline: {self.op.name} is an output; there is no consumer to inline it into")
        if self.op.reduce is not None:
            raise ScheduleError(f"compute_inline: {self.op.name} is a reduction; use compute_at instead")
        if len(self.op.outputs) > 1:
            raise ScheduleError(
                f"compute_inline: {self.op.name} has {len(self.op.outputs)} outputs; use compute_at instead"
            )
        self.attach = Inline()

    def compute_root(self) -> None:
        """Compute this stage in a nest of its own (as at the start)."""
        self.attach = Root()

    def _check_serial(self, what: str, *loops: IterVar) -> None:
        for loop in loops:
            if loop in self.kinds:
                verb = what.partition("(")[0]
                raise ScheduleError(
                    f"{what} of {self.op.name}: {loop.name} is {self.kinds[loop]} already; {verb} first, then make the "
                    f"resulting loop {self.kinds[loop]}"
                )

    def _hand_on_pragmas(self, old: IterVar, new: IterVar) -> None:
        """A pragma speaks of a whole nest: it goes on to the outermost loop that its own one becomes."""
        self.pragmas.setdefault(new, {}).update(self.pragmas.pop(old, {}))

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


def _positive(value: object) -> int | None:
    number = integer(value)
    return number if number is not None and number > 0 else None


def _parents(relation: Relation) -> Sequence[IterVar]:
    return (relation.parent,) if isinstance(relation, SplitRelation) else (relation.outer, relation.inner)
