"""The steps of a sketch: calls on a TE schedule with values from knobs.

`StepRun` performs them, `StepWriter` writes them as te code. Tensors and loops are named, so that one sketch can be
replayed on a new schedule for each candidate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Protocol, TypeAlias

from pegbox.compute import IterVar, Tensor
from pegbox.expr import Buffer, quoted
from pegbox.loops import literal
from pegbox.schedule import Reference, Step
from pegbox.space import SplitEntity, policy_splits
from pegbox.te import TESchedule

CHOICE = "sketch"  # the knob that chooses one of several sketches


class KnobChoices(Protocol):
    """The values of knobs: the `cfg` of a template."""

    def __getitem__(self, name: str) -> Any: ...


@dataclass(frozen=True)
class Name(Reference):
    """A tensor or a loop."""

    name: str

    def resolve(self, run: StepRun) -> Any:
        return run.values[self.name]

    def python(self, context: StepWriter) -> str:
        return self.name


@dataclass(frozen=True)
class StageArgument(Reference):
    """The stage of a tensor, as an argument."""

    tensor: str

    def resolve(self, run: StepRun) -> Any:
        return run.s[run.values[self.tensor]]

    def python(self, context: StepWriter) -> str:
        return f"s[{self.tensor}]"


@dataclass(frozen=True)
class OptionValue(Reference):
    """The value of a `define_knob`."""

    knob: str

    def resolve(self, run: StepRun) -> Any:
        return 0 if run.choices is None else run.choices[self.knob].val

    def python(self, context: StepWriter) -> str:
        return f"{context.knob(self.knob)}.val" if context.cfg is None else literal(context.cfg[self.knob].val)


@dataclass(frozen=True)
class Size(Reference):
    """The product of a split's extents from a level on: the iterations of those loops."""

    knob: str
    level: int

    def resolve(self, run: StepRun) -> int:
        return 1 if run.choices is None else math.prod(run.choices[self.knob].size[self.level :])

    def python(self, context: StepWriter) -> str:
        if context.cfg is not None and not context.open_splits:
            return str(math.prod(context.cfg[self.knob].size[self.level :]))
        return f"math.prod({context.knob(self.knob)}.size[{self.level}:])"


@dataclass(frozen=True)
class Candidates(Reference):
    """The values of a `define_knob`, including tuples."""

    values: tuple[Any, ...]

    def resolve(self, run: None) -> tuple[Any, ...]:
        return self.values

    def python(self, context: None) -> str:
        return f"[{', '.join(map(literal, self.values))}]"


@dataclass(frozen=True)
class Verbatim(Reference):
    """An argument that is known only as text."""

    text: str

    def python(self, context: object) -> str:
        return self.text


@dataclass(frozen=True)
class SplitFilter(Reference):
    """The filter of a `define_split`: the largest extent of the last loop, or a list of allowed ones."""

    most: int | None
    allowed: tuple[int, ...]

    def __call__(self, split: SplitEntity) -> bool:
        return split.size[-1] in self.allowed if self.allowed else self.most is None or split.size[-1] <= self.most

    def resolve(self, run: None) -> SplitFilter:
        return self

    def python(self, context: None) -> str:
        return f"lambda split: split.size[-1] {f'in {[*self.allowed]}' if self.allowed else f'<= {self.most}'}"


@dataclass(frozen=True)
class Axes:
    """The step `i, j = s[C].op.axis`: names for the axes of an operation."""

    tensor: str
    names: tuple[str, ...]
    reduce: bool = False

    def do(self, run: StepRun) -> None:
        op = run.s[run.values[self.tensor]].op
        run.bind(self.names, op.reduce_axis if self.reduce else op.axis)

    def lines(self, writer: StepWriter) -> Iterator[str]:
        yield f"{targets(self.names)} = s[{self.tensor}].op.{'reduce_axis' if self.reduce else 'axis'}"


@dataclass(frozen=True)
class Tile:
    """The step `results = cfg[knob].apply(s, stage, loop)`: a loop becomes one loop for each extent of a split."""

    stage: str
    loop: str
    knob: str
    results: tuple[str, ...]

    def do(self, run: StepRun) -> None:
        tensor, loop = run.values[self.stage], run.values[self.loop]
        if run.choices is not None:
            run.bind(self.results, run.choices[self.knob].apply(run.s, tensor, loop))
            return
        made = []
        for _ in self.results[1:]:
            outer, loop = run.s[tensor].split(loop, factor=1)
            made.append(outer)
        run.bind(self.results, [*made, loop])

    def lines(self, writer: StepWriter) -> Iterator[str]:
        yield from writer.declared(self.knob, self.loop)
        if writer.cfg is None or writer.open_splits:
            yield f"{targets(self.results)} = {writer.knob(self.knob)}.apply(s, {self.stage}, {self.loop})"
            return
        size, rest, inner = writer.cfg[self.knob].size, self.loop, self.results[-1]
        for level, outer in enumerate(self.results[:-1], start=1):
            yield f"{outer}, {inner} = s[{self.stage}].split({rest}, factor={math.prod(size[level:])})"
            rest = inner
        if len(self.results) == 1:
            yield f"{inner} = {self.loop}"


@dataclass(frozen=True)
class Choice:
    """Different steps for each value of a knob; none for values that are not listed, or without a choice."""

    knob: str
    branches: tuple[tuple[Any, tuple[SketchStep, ...]], ...]

    def chosen(self, choices: KnobChoices) -> tuple[SketchStep, ...]:
        """Return the steps for the chosen value."""
        chosen = choices[self.knob].val
        return next((steps for value, steps in self.branches if value == chosen), ())

    def do(self, run: StepRun) -> None:
        if run.choices is not None:
            run.do(self.chosen(run.choices))

    def lines(self, writer: StepWriter) -> Iterator[str]:
        if writer.cfg is not None:
            yield from writer.lines(self.chosen(writer.cfg))
            return
        word = "if"
        for value, steps in self.branches:
            yield f"{word} {writer.knob(self.knob)}.val == {literal(value)}:"
            yield from (f"    {line}" for line in writer.lines(steps))
            word = "elif"


SketchStep: TypeAlias = Axes | Step | Tile | Choice


def stage_call(stage: str | None, method: str, *arguments: Any, results: Sequence[str] = (), **options: Any) -> Step:
    """Return the step that calls a method of a stage, or of the schedule, without options that are None."""
    given = tuple((name, value) for name, value in options.items() if value is not None)
    return Step(method, arguments, given, tuple(results), stage)


@lru_cache(maxsize=4096)  # sketches share most of them
def compute_at(stage: str, consumer: str, loop: str) -> Step:
    """Return the step that computes a stage in a loop of another one."""
    return stage_call(stage, "compute_at", StageArgument(consumer), Name(loop))


class StepRun:
    """The schedule made by steps so far.

    Attributes:
        values: the tensors and loops by their names in the steps.
        names: the names of buffers and loops.
        choices: the values of the knobs. Without them, while a sketch is being derived, all splits are into ones and no
            branch of a choice is taken; the structure is the same.
    """

    def __init__(self, s: TESchedule, values: Mapping[str, Any], choices: KnobChoices | None = None) -> None:
        self.s, self.choices = s, choices
        self.values: dict[str, Any] = {}
        self.names: dict[Buffer | IterVar, str] = {}
        self.bind(list(values), list(values.values()))

    def copy(self) -> StepRun:
        """Copy it, to continue independently."""
        other = copy(self)
        other.s, other.values, other.names = self.s.copy(), self.values.copy(), self.names.copy()
        return other

    def do(self, steps: Sequence[SketchStep]) -> None:
        """Perform the steps in order.

        Raises:
            ScheduleError: one is not legal.
        """
        for step in steps:
            if isinstance(step, Step):
                made = step.call(self.s if step.stage is None else self.s[self.values[step.stage]], self)
                self.bind(step.results, made if len(step.results) > 1 else [made])
            else:
                step.do(self)

    def bind(self, names: Sequence[str], values: Sequence[Any]) -> None:
        """Give names to tensors or loops."""
        for name, value in zip(names, values, strict=True) if names else ():
            self.values[name] = value
            self.names[value.buffer if isinstance(value, Tensor) else value] = name


@dataclass(frozen=True)
class StepWriter:
    """A writer of steps as te code.

    Attributes:
        cfg: the values of the knobs, if the code is for one configuration; otherwise the code reads `cfg`.
        knobs: the names of the knobs in `cfg`, if they differ.
    """

    cfg: KnobChoices | None
    knobs: Mapping[str, str]
    open_splits: ClassVar[bool] = False  # whether the code reads splits from `cfg` nevertheless

    def declared(self, knob: str, loop: str) -> Iterable[str]:
        """Yield the lines that declare a split before its first use."""
        return ()

    def knob(self, name: str) -> str:
        """Return the expression for a knob."""
        return f"cfg[{quoted(self.knobs.get(name, name))}]"

    def lines(self, steps: Sequence[SketchStep]) -> Iterator[str]:
        """Yield the lines of the steps."""
        for step in steps:
            if isinstance(step, Step):
                call = step.python("s" if step.stage is None else f"s[{step.stage}]", self, literal)
                yield f"{', '.join(step.results)} = {call}" if step.results else call
            else:
                yield from step.lines(self)


def schedule_lines(
    steps: Sequence[SketchStep], cfg: KnobChoices | None = None, knobs: Mapping[str, str] | None = None
) -> list[str]:
    """Return the te code of a sketch's steps; see `StepWriter`."""
    return list(StepWriter(cfg, knobs or {}).lines(steps))


def targets(names: Sequence[str]) -> str:
    """Write names for a statement that binds or returns them."""
    return f"({names[0]},)" if len(names) == 1 else ", ".join(names)


@dataclass(frozen=True)
class SketchKnob:
    """A choice that a sketch leaves open: `define_split` of an extent, or `define_knob` of candidates.

    Attributes:
        levels, innermost: for a split, the number of its loops, and the largest number of iterations of the last one.
        allowed: for a split, the allowed iterations of the last loop if its vectors must be full; empty for any.
        when: another knob of the sketch, and its values for which this one exists.
    """

    name: str
    extent: int | None = None
    levels: int = 0
    innermost: int | None = None
    policy: str = "factors"
    candidates: tuple[Any, ...] = ()
    when: tuple[str, tuple[Any, ...]] | None = None
    allowed: tuple[int, ...] = ()

    def declaration(
        self,
        name: str,
        when: Mapping[str, Any] | Reference,
        *,
        axis: Reference | None = None,
        fits: Reference | None = None,
        policy: str | None = None,
    ) -> Step:
        """Return the step that declares it in a template's space, under a name and a condition on other knobs.

        Args:
            axis, fits, policy: for a split, replacements of its extent, its filter and its policy.
        """
        if self.extent is None:
            return stage_call(None, "define_knob", name, Candidates(self.candidates), when=when or None)
        policy = policy or (None if self.policy == "factors" else self.policy)
        options: dict[str, Any] = {
            "policy": policy,
            "num_outputs": self.levels,
            "filter": fits or self._filter,
            "when": when or None,
        }
        return stage_call(None, "define_split", name, self.extent if axis is None else axis, **options)

    def innermosts(self) -> list[int]:
        """Return the possible extents of the last loop of a split."""
        assert self.extent is not None  # a split
        splits = policy_splits(self.extent, self.policy, self.levels, self.extent, self.policy != "factors")
        fits = self._filter or (lambda split: True)
        return sorted({split.sizes[-1] for split in splits if fits(split)})

    @property
    def _filter(self) -> SplitFilter | None:
        return SplitFilter(self.innermost, self.allowed) if self.allowed or self.innermost is not None else None
