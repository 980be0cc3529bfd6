"""Base classes of stages and groups: their recorded steps, the loops of a stage, and its place.

No program changes here. Steps are replayed on the loop IR when the schedule is lowered (`pegbox.schedule.te.replay`),
which is what makes their meaning independent of the order of calls across stages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeAlias, TypeVar, cast

from pegbox.checks import check_keywords
from pegbox.compute.axis import IterVar
from pegbox.compute.tensor import ComputeOp
from pegbox.errors import ScheduleError
from pegbox.loops.nodes import ForKind
from pegbox.origin import users_frame
from pegbox.schedule.errors import add_call
from pegbox.schedule.state.step import Step, mapped
from pegbox.shown import value_text

_Method = TypeVar("_Method", bound=Callable[..., Any])
_Stage = TypeVar("_Stage", bound="StageBase")

Subject: TypeAlias = tuple[Any, ...]
"""The subject of a step: a word, with loops or names. A later step on it replaces an earlier one."""

PLACE: Subject = ("place",)
_KINDS = {"vectorize": ForKind.VECTORIZED, "unroll": ForKind.UNROLLED, "parallel": ForKind.PARALLEL}


@dataclass(frozen=True)
class Root:
    """A place at the root: the stage is computed as a whole in its own nest, before its consumers."""


@dataclass(frozen=True)
class Inline:
    """The place of an inlined stage: computed wherever a consumer needs an element."""


@dataclass(frozen=True)
class At:
    """A place inside a consumer's loop: each iteration computes as much as it needs."""

    stage: StageBase
    loop: IterVar


def te_method(method: _Method) -> _Method:
    """Decorate a method of a TE schedule, a stage or a group: its refusals name the call."""

    @wraps(method)
    def called(self: Any, *args: Any, **options: Any) -> Any:
        try:
            return method(self, *args, **options)
        except (ScheduleError, TypeError) as error:
            if not isinstance(error, ScheduleError):
                check_keywords(method.__get__(self), options)
            elif add_call(error, method.__name__, args, options):
                error.stage = getattr(self, "name", "")
            raise

    return cast("_Method", called)


@dataclass(eq=False)
class Scheduled:
    """A stage, or a group of stages, with its recorded steps; `group` is the surrounding one."""

    group: Group | None = None
    steps: dict[Subject, Step] = field(default_factory=dict)

    @property
    def attach(self) -> Root | Inline | At:
        """The own place of the stage or group."""
        return _place_of(self.steps.get(PLACE))


@dataclass(eq=False)
class Group(Scheduled):
    """A group of stages: each one without its own place is computed where its group is."""

    stages: list[StageBase] = field(default_factory=list)

    @property
    def name(self) -> str:
        return repr(self)

    def __repr__(self) -> str:
        return f"Group({', '.join(stage.op.name for stage in self.stages)})"

    @te_method
    def compute_at(self, parent: StageBase, loop: IterVar) -> None:
        """Compute the stages of the group inside a loop of a consumer.

        Raises:
            ScheduleError: `loop` is not a loop of `parent`, `parent` belongs to the group, or an output does.
        """
        parent.position(loop)
        for stage in self.stages:
            if stage is parent:
                raise ScheduleError(f"{parent.op.name} belongs to the group", "give a stage outside of it")
            if stage.is_output:
                raise ScheduleError(f"{stage.op.name} is an output and stays at the root")
        record(self, PLACE, "compute_at", parent, loop)

    def compute_root(self) -> None:
        """Compute the stages of the group in their own nests (the default)."""
        record(self, PLACE, "compute_root")


@dataclass(eq=False)
class StageBase(Scheduled):
    """The schedule of one operation; `leaf_iter_vars` are its loops, outermost first."""

    op: ComputeOp = field(kw_only=True)
    is_output: bool = False
    leaf_iter_vars: list[IterVar] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.leaf_iter_vars = [*self.op.loop_axes]

    @property
    def name(self) -> str:
        """The name of the operation."""
        return self.op.name

    def __repr__(self) -> str:
        return f"Stage({self.op.name}: {self.loop_names()})"

    def copy(self: _Stage) -> _Stage:
        """Return a stage of the same operation with its own copy of the steps, in this stage's place and group."""
        other = object.__new__(type(self))
        vars(other).update(vars(self), steps=self.steps.copy(), leaf_iter_vars=self.leaf_iter_vars.copy())
        return other

    def restart(self) -> None:
        """Return to plain loops, one for each axis of the operation, and forget the steps on all others."""
        self.leaf_iter_vars = [*self.op.loop_axes]
        gone = {loop for relation in self.relations for loop in relation.results}
        self.steps = {
            subject: step
            for subject, step in self.steps.items()
            if subject[0] not in ("loops", "order") and gone.isdisjoint(loops_in(subject))
        }

    @property
    def place_step(self) -> Step | None:
        """The step that places the stage: its own, or else its group's; None at the root."""
        owner: Scheduled | None = self
        while owner is not None:
            step = owner.steps.get(PLACE)
            if step is not None and step.primitive != "compute_root":
                return step
            owner = owner.group
        return None

    @property
    def place(self) -> Root | Inline | At:
        """The place where the stage is computed: its own attachment, or else its group's.

        If the loop was split afterwards, it is the inner part.
        """
        place = _place_of(self.place_step)
        return At(place.stage, place.stage.leaf_of(place.loop)) if isinstance(place, At) else place

    @property
    def relations(self) -> list[Step]:
        """The steps that replace loops by others: splits, fusions, and a loop of one iteration around all others."""
        return [step for subject, step in self.steps.items() if subject[0] == "loops"]

    @property
    def kinds(self) -> dict[IterVar, ForKind]:
        """The kinds of the loops that are not serial."""
        return {subject[1]: kind_of(step) for subject, step in self.steps.items() if subject[0] == "kind"}

    @property
    def pragmas(self) -> dict[IterVar, dict[str, Any]]:
        """The hints on loops, by their names."""
        found: dict[IterVar, dict[str, Any]] = {}
        for step in self.steps.values():
            if step.primitive == "pragma":
                loop, name, value = step.args
                found.setdefault(loop, {})[name] = value
        return found

    @property
    def tensorized(self) -> Step | None:
        """The step by which an intrinsic computes the stage: `tensorize(loop, name)`."""
        return next((step for step in self.steps.values() if step.primitive == "tensorize"), None)

    @property
    def all_iter_vars(self) -> list[IterVar]:
        """The axes, and every loop ever made from them."""
        return [*self.op.loop_axes, *(loop for relation in self.relations for loop in relation.results)]

    @property
    def iter_var_attrs(self) -> dict[IterVar, dict[str, Any]]:
        """The attributes of single loops: {loop: {"kind": how it runs, pragma: value}}."""
        kinds, pragmas = self.kinds, self.pragmas
        said = {
            loop: {**({"kind": str(kinds[loop])} if loop in kinds else {}), **pragmas.get(loop, {})}
            for loop in self.leaf_iter_vars
        }
        return {loop: notes for loop, notes in said.items() if notes}

    def is_scheduled(self, axis: IterVar) -> bool:
        """True if any step concerns an axis of the operation."""
        return axis not in self.leaf_iter_vars or any(
            subject[0] in ("kind", "pragma", "prefetch", "merge") and subject[1] is axis for subject in self.steps
        )

    def check_serial(self, *loops: IterVar) -> None:
        """Raise ScheduleError if one of the loops already has a kind, so that it cannot become another loop."""
        for loop in loops:
            if kind := self.steps.get(("kind", loop)):
                reason, remedy = (
                    f"{loop.name} is {kind_of(kind).in_words} already",
                    f"make the resulting loop {kind_of(kind)}",
                )
            elif ("tensorize", loop) in self.steps:
                reason, remedy = f"an intrinsic computes {loop.name} and what is inside", "tensorize the resulting loop"
            elif any(subject[0] == "prefetch" and subject[1] is loop for subject in self.steps):
                reason, remedy = f"a prefetch counts the iterations of {loop.name}", "prefetch in the resulting loop"
            elif any(subject[0] == "merge" and subject[1] is loop for subject in self.steps):
                reason, remedy = f"{loop.name} runs together with another stage's loop", "merge the resulting loop"
            else:
                continue
            raise ScheduleError(reason, f"do this first, then {remedy}")

    def position(self, loop: IterVar) -> int:
        """Return the number of a loop among those of the stage.

        Raises:
            ScheduleError: it is not one of them.
        """
        for position, iv in enumerate(self.leaf_iter_vars):
            if iv is loop:
                return position
        name = getattr(loop, "name", None) or value_text(loop)
        gone = any(iv is loop for relation in self.relations for iv in loops_in(relation.args))
        why = "was split or fused already" if gone else "is not a loop of this stage"
        raise ScheduleError(f"{name} {why}", f"the loops of {self.op.name} are {self.loop_names()}")

    def leaf_of(self, loop: IterVar) -> IterVar:
        """Return the loop that a loop of this stage has become, as in TVM.

        A split loop has become its inner part, and a loop that was fused the fused loop; any other loop is returned
        as it is.
        """
        for relation in self.relations:
            if loops_in(relation.args)[-1:] == [loop]:
                loop = relation.results[-1]
        return loop

    def parts_of(self, axis: IterVar) -> set[IterVar]:
        """Return an axis, and all loops made from it."""
        found = {axis}
        for relation in self.relations:
            if not found.isdisjoint(loops_in(relation.args)):
                found.update(relation.results)
        return found

    def loop_names(self) -> str:
        return ", ".join(iv.name for iv in self.leaf_iter_vars)


def record(
    owner: Scheduled, subject: Subject, primitive: str, *args: Any, results: tuple[Any, ...] = (), **options: Any
) -> None:
    """Add a step, with its line of the user's code, in place of an earlier one with the same subject."""
    frame = users_frame(sys._getframe(1))
    origin = "" if frame is None else (frame.f_code, frame.f_lasti)
    owner.steps.pop(subject, None)
    owner.steps[subject] = Step(primitive, args, tuple(options.items()), results, origin=origin)


def kind_of(step: Step) -> ForKind:
    """Return the kind that a step gives to a loop."""
    return _KINDS.get(step.primitive) or ForKind(step.args[1])


def loops_in(values: tuple[Any, ...]) -> list[IterVar]:
    """Return the loops among the values of a step or its subject."""
    return [value for value in values if isinstance(value, IterVar)]


def moved(steps: Mapping[Subject, Step], change: Callable[[Any], Any]) -> dict[Subject, Step]:
    """Replace the loops, tensors and stages in steps."""
    return {mapped(subject, change): step.mapped(change) for subject, step in steps.items()}


def _place_of(step: Step | None) -> Root | Inline | At:
    match step:
        case Step("compute_at", (stage, loop)):
            return At(stage, loop)
        case Step("compute_inline"):
            return Inline()
        case _:
            return Root()
