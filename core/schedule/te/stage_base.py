"""Base class of the stage methods: the operation, its loops, and the relations between them.

Nothing happens to a program here. Relations are recorded and replayed on the loop IR when the schedule is lowered
(`pegbox.schedule.te.replay`), which is what makes their meaning independent of the order of calls across stages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, TypeAlias, TypeVar, cast

from pegbox.checks import check_keywords
from pegbox.compute.axis import IterVar
from pegbox.compute.tensor import ComputeOp, Tensor
from pegbox.errors import ScheduleError
from pegbox.expr.nodes import Expr
from pegbox.loops.foreign import ForeignCode
from pegbox.loops.nodes import ForKind
from pegbox.loops.threads.axis import ThreadAxis
from pegbox.origin import users_frame
from pegbox.schedule.errors import add_call
from pegbox.schedule.te.call import Call, settled
from pegbox.shown import value_text

_Method = TypeVar("_Method", bound=Callable[..., Any])
_Stage = TypeVar("_Stage", bound="StageBase")


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


@dataclass(frozen=True)
class UnitRelation:
    """`made` is a loop of one iteration around all others."""

    made: IterVar


Relation: TypeAlias = SplitRelation | FuseRelation | UnitRelation


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


@dataclass(frozen=True, eq=False)
class Prefetch:
    """In each iteration of `loop`, ask for what the stage reads of `tensor` `offset` iterations further on."""

    tensor: Tensor
    loop: IterVar
    offset: int


def te_method(method: _Method) -> _Method:
    """Decorate a method of a TE schedule: its refusals name the call."""

    @wraps(method)
    def called(self: Any, *args: Any, **options: Any) -> Any:
        try:
            return method(self, *args, **options)
        except (ScheduleError, TypeError) as error:
            _explain(error, method, self, args, options)
            raise

    return cast("_Method", called)


def recorded(method: _Method) -> _Method:
    """Decorate a method of a stage or a group as `te_method` does; a refusal of the replay can name the call's line."""

    @wraps(method)
    def called(self: Any, *args: Any, **options: Any) -> Any:
        try:
            made = method(self, *args, **options)
        except (ScheduleError, TypeError) as error:
            _explain(error, method, self, args, options)
            raise
        frame = users_frame(sys._getframe(1))
        place = (None, 0) if frame is None else (frame.f_code, frame.f_lasti)
        self.calls.append((name, *place, *args, *options.values()))  # one object: most schedules are never refused
        return made

    name = method.__name__
    return cast("_Method", called)


def _explain(
    error: Exception, method: Callable[..., Any], owner: Any, args: tuple[Any, ...], options: dict[str, Any]
) -> None:
    """Say in a refusal which call it is of. Raises `UnknownArgument` where an argument is misspelt."""
    if not isinstance(error, ScheduleError):
        check_keywords(method.__get__(owner), options)
    elif add_call(error, method.__name__, args, options):
        error.stage = getattr(owner, "name", "")


@dataclass(eq=False)
class GroupBase:
    """Stages with a place in common; a group may stand inside of another one."""

    stages: list[StageBase]
    group: GroupBase | None = None
    attach: Root | At = field(default_factory=Root)
    calls: list[Call] = field(default_factory=list)

    @property
    def name(self) -> str:
        return repr(self)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "calls": settled(self.calls)}

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
    fixed_extents: dict[IterVar, int] = field(default_factory=dict)  # the iterations that a loop has to have
    env: list[ThreadAxis] = field(default_factory=list)
    store_predicate: Expr | None = None
    prefetches: list[Prefetch] = field(default_factory=list)
    attach: Root | Inline | At = field(default_factory=Root)
    scope: str | None = None
    alignments: dict[IterVar, tuple[int, int]] = field(default_factory=dict)
    doubled: bool = False
    rolling: bool = False
    tensorized: tuple[IterVar, str] | None = None  # the loop and the name of the intrinsic
    code: list[ForeignCode] = field(default_factory=list)
    group: GroupBase | None = None
    calls: list[Call] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the operation."""
        return self.op.name

    @property
    def place(self) -> Root | Inline | At:
        """The place where the stage is computed: its own attachment, or else its group's.

        A loop that was split after that stands for its inner part.
        """
        place, group = self.attach, self.group
        while isinstance(place, Root) and group is not None:
            place, group = group.attach, group.group
        return replace(place, loop=place.stage.leaf_of(place.loop)) if isinstance(place, At) else place

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "calls": settled(self.calls)}

    def __post_init__(self) -> None:
        if not self.leaf_iter_vars:
            self.leaf_iter_vars = [*self.op.loop_axes]

    def __repr__(self) -> str:
        return f"Stage({self.op.name}: {', '.join(iv.name for iv in self.leaf_iter_vars)})"

    def copy(self: _Stage) -> _Stage:
        """The same of the same operation, with lists of its own; its place and its group are those of this one."""
        other = object.__new__(type(self))
        vars(other).update(
            (name, value.copy() if isinstance(value, list | dict) else value) for name, value in vars(self).items()
        )
        other.pragmas = {loop: dict(said) for loop, said in self.pragmas.items()}
        return other

    def restart(self) -> None:
        """Plain loops again, one for each axis of the operation; nothing is said of any other loop."""
        self.leaf_iter_vars = [*self.op.loop_axes]
        self.relations = []
        for said in (self.kinds, self.pragmas, self.fixed_extents):
            for loop in [loop for loop in said if loop not in self.leaf_iter_vars]:
                del said[loop]
        self.prefetches = [hint for hint in self.prefetches if hint.loop in self.leaf_iter_vars]
        if self.tensorized is not None and self.tensorized[0] not in self.leaf_iter_vars:
            self.tensorized = None

    @property
    def all_iter_vars(self) -> list[IterVar]:
        """The axes, and every loop that was ever made of them."""
        made = [iv for relation in self.relations for iv in results_of(relation)]
        return [*self.op.loop_axes, *made]

    @property
    def iter_var_attrs(self) -> dict[IterVar, dict[str, Any]]:
        """The attributes of single loops: {loop: {"kind": how it runs, pragma: value}}."""
        said: dict[IterVar, dict[str, Any]] = {}
        for loop in self.leaf_iter_vars:
            notes = {**({"kind": str(self.kinds[loop])} if loop in self.kinds else {}), **self.pragmas.get(loop, {})}
            if notes:
                said[loop] = notes
        return said

    def is_scheduled(self, axis: IterVar) -> bool:
        """Was anything said of an axis of the operation already?"""
        return axis not in self.leaf_iter_vars or any(iv is axis for iv in self._spoken_of())

    def _spoken_of(self) -> list[IterVar]:
        return [*self.kinds, *self.pragmas, *(hint.loop for hint in self.prefetches)]

    def check_serial(self, *loops: IterVar) -> None:
        for loop in loops:
            if loop in self.kinds:
                raise ScheduleError(
                    f"{loop.name} is {self.kinds[loop].in_words} already",
                    f"do this first, then make the resulting loop {self.kinds[loop]}",
                )
            if self.tensorized is not None and self.tensorized[0] is loop:
                raise ScheduleError(
                    f"an intrinsic computes {loop.name} and what is inside",
                    "do this first, then tensorize the resulting loop",
                )
            if any(hint.loop is loop for hint in self.prefetches):
                raise ScheduleError(
                    f"a prefetch counts the iterations of {loop.name}",
                    "do this first, then prefetch in the resulting loop",
                )

    def position(self, loop: IterVar) -> int:
        for position, iv in enumerate(self.leaf_iter_vars):
            if iv is loop:
                return position
        name = getattr(loop, "name", None) or value_text(loop)
        known = [iv for r in self.relations for iv in parents_of(r)]
        gone = any(iv is loop for iv in known)
        why = "was split or fused already" if gone else "is not a loop of this stage"
        raise ScheduleError(f"{name} {why}", f"the loops of {self.op.name} are {self.loop_names()}")

    def leaf_of(self, loop: IterVar) -> IterVar:
        """The loop that stands for one of all loops there ever were, as in TVM.

        Of a loop that was split it is the inner part, of one that was fused into the loop around it the fused one; a
        loop that is gone in another way stays what it is.
        """
        for relation in self.relations:
            if isinstance(relation, SplitRelation) and relation.parent is loop:
                return self.leaf_of(relation.inner)
            if isinstance(relation, FuseRelation) and relation.inner is loop:
                return self.leaf_of(relation.fused)
        return loop

    def parts_of(self, axis: IterVar) -> set[IterVar]:
        """An axis, and all loops that were made of it."""
        found = {axis}
        for relation in self.relations:
            if not found.isdisjoint(parents_of(relation)):
                found.update(results_of(relation))
        return found

    def loop_names(self) -> str:
        return ", ".join(iv.name for iv in self.leaf_iter_vars)


def parents_of(relation: Relation) -> Sequence[IterVar]:
    """The loops that a relation replaces."""
    match relation:
        case SplitRelation():
            return (relation.parent,)
        case FuseRelation():
            return (relation.outer, relation.inner)
        case UnitRelation():
            return ()


def results_of(relation: Relation) -> Sequence[IterVar]:
    """The loops that a relation makes."""
    match relation:
        case SplitRelation():
            return (relation.outer, relation.inner)
        case FuseRelation():
            return (relation.fused,)
        case UnitRelation():
            return (relation.made,)
