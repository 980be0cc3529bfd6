"""The steps of a sketch: calls on a TE schedule whose values are left to knobs.

`StepRun` does them, `pegbox.plugins.sketch.code` writes them.

Tensors and loops are named, so that one sketch can be replayed on a schedule that is made anew for each candidate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

from pegbox.compute import IterVar, Tensor
from pegbox.expr import Buffer
from pegbox.space import SplitEntity, policy_splits
from pegbox.te import TESchedule

CHOICE = "sketch"  # the knob that chooses one of several sketches


@dataclass(frozen=True)
class Name:
    """A tensor or a loop."""

    name: str


@dataclass(frozen=True)
class StageArgument:
    """The stage of a tensor, as an argument."""

    tensor: str


@dataclass(frozen=True)
class OptionValue:
    """The value of a `define_knob`."""

    knob: str


@dataclass(frozen=True)
class Size:
    """The product of a split's extents from a level on: what the loops from there on have together."""

    knob: str
    level: int


Argument: TypeAlias = Name | StageArgument | OptionValue | Size | int | str | bool | tuple["Argument", ...]


@dataclass(frozen=True)
class Axes:
    """`i, j = s[C].op.axis`: names for the axes of an operation."""

    tensor: str
    names: tuple[str, ...]
    reduce: bool = False


@dataclass(frozen=True)
class StageCall:
    """`results = s[stage].method(*arguments)`, or of the schedule itself where there is no stage."""

    stage: str | None
    method: str
    arguments: tuple[Argument, ...] = ()
    results: tuple[str, ...] = ()
    options: tuple[tuple[str, Argument], ...] = ()


@dataclass(frozen=True)
class Tile:
    """`results = cfg[knob].apply(s, stage, loop)`: a loop becomes one for each extent of a split."""

    stage: str
    loop: str
    knob: str
    results: tuple[str, ...]


@dataclass(frozen=True)
class Choice:
    """Other steps for each value of a knob; none for values that are not listed."""

    knob: str
    branches: tuple[tuple[Any, tuple[Step, ...]], ...]


Step: TypeAlias = Axes | StageCall | Tile | Choice


@lru_cache(maxsize=4096)  # sketches have most of them in common
def compute_at(stage: str, consumer: str, loop: str) -> StageCall:
    """The step that computes a stage in a loop of another one."""
    return StageCall(stage, "compute_at", (StageArgument(consumer), Name(loop)))


class KnobChoices(Protocol):
    """What knobs say: the `cfg` of a template, or `Undecided`."""

    def __getitem__(self, name: str) -> Any: ...


class Undecided:
    """For a sketch that is still derived: all splits into ones, no branch of a choice. The structure is the same."""

    def __getitem__(self, name: str) -> Undecided:
        return self

    val = None


class StepRun:
    """The schedule that steps have made so far.

    Attributes:
        values: the tensors and loops that the names of the steps mean.
        names: the names of buffers and loops.
    """

    def __init__(self, s: TESchedule, values: Mapping[str, Any], choices: KnobChoices | None = None) -> None:
        self.s = s
        self.choices: KnobChoices = Undecided() if choices is None else choices
        self.values: dict[str, Any] = {}
        self.names: dict[Buffer | IterVar, str] = {}
        self._bind(list(values), list(values.values()))

    def copy(self) -> StepRun:
        """The same, to be continued on its own."""
        other = copy(self)
        other.s, other.values, other.names = self.s.copy(), self.values.copy(), self.names.copy()
        return other

    def do(self, steps: Sequence[Step]) -> None:
        """Do the steps in order.

        Raises:
            ScheduleError: one is not legal.
        """
        for step in steps:
            match step:
                case Axes(tensor, names, reduce):
                    op = self.s[self.values[tensor]].op
                    self._bind(names, op.reduce_axis if reduce else op.axis)
                case StageCall(stage, method, arguments, results, options):
                    target: Any = self.s if stage is None else self.s[self.values[stage]]
                    given = {name: self._argument(value) for name, value in options}
                    made = getattr(target, method)(*map(self._argument, arguments), **given)
                    self._bind(results, made if len(results) > 1 else [made])
                case Tile(stage, loop, knob, results):
                    self._bind(results, self._tile(stage, self.values[loop], knob, len(results)))
                case Choice(knob, branches) if not isinstance(self.choices, Undecided):
                    self.do(next((steps for value, steps in branches if value == self.choices[knob].val), ()))

    def _bind(self, names: Sequence[str], values: Sequence[Any]) -> None:
        for name, value in zip(names, values, strict=True) if names else ():
            self.values[name] = value
            self.names[value.buffer if isinstance(value, Tensor) else value] = name

    def _tile(self, stage: str, loop: Any, knob: str, count: int) -> Sequence[Any]:
        if not isinstance(self.choices, Undecided):
            return list(self.choices[knob].apply(self.s, self.values[stage], loop))
        made = []
        for _ in range(count - 1):
            outer, loop = self.s[self.values[stage]].split(loop, factor=1)
            made.append(outer)
        return [*made, loop]

    def _argument(self, argument: Argument) -> Any:
        match argument:
            case Name(name):
                return self.values[name]
            case StageArgument(tensor):
                return self.s[self.values[tensor]]
            case OptionValue(knob):
                return 0 if isinstance(self.choices, Undecided) else self.choices[knob].val
            case Size(knob, level):
                return 1 if isinstance(self.choices, Undecided) else math.prod(self.choices[knob].size[level:])
            case tuple():
                return [self._argument(each) for each in argument]
            case _:
                return argument


@dataclass(frozen=True)
class SketchKnob:
    """A choice that a sketch leaves open: `define_split` of an extent, or `define_knob` of candidates.

    Attributes:
        levels, innermost: of a split: how many loops it makes, and the most iterations of the last one.
        whole: of a split: the iterations that the last one may have where its vectors are to be full; empty: any.
        when: another knob of the sketch, and its values for which this one exists.
    """

    name: str
    extent: int | None = None
    levels: int = 0
    innermost: int | None = None
    policy: str = "factors"
    candidates: tuple[Any, ...] = ()
    when: tuple[str, tuple[Any, ...]] | None = None
    whole: tuple[int, ...] = ()

    def declare(self, cfg: Any, name: str, when: Mapping[str, Any] | None) -> None:
        """Declare it in a template's space, under a name and a condition on other knobs."""
        if self.extent is None:
            cfg.define_knob(name, list(self.candidates), when=when)
            return
        cfg.define_split(name, self.extent, self.policy, num_outputs=self.levels, filter=self._filter(), when=when)

    def innermosts(self) -> list[int]:
        """The extents that the last loop of a split may have."""
        assert self.extent is not None  # a split
        splits = policy_splits(self.extent, self.policy, self.levels, self.extent, self.policy != "factors")
        fits = self._filter()
        return sorted({split.sizes[-1] for split in splits if fits is None or fits(split)})

    def _filter(self) -> Callable[[SplitEntity], bool] | None:
        most, whole = self.innermost, self.whole
        if whole:
            return lambda split: split.size[-1] in whole
        return None if most is None else (lambda split: split.size[-1] <= most)
