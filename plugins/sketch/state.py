"""`State`: a sketch while rules derive it, with its steps, knobs and schedule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from pegbox.codegen import Target
from pegbox.compute import ComputeOp, IterVar, ScanOp, Tensor, identifier
from pegbox.expr import Buffer, unused_name
from pegbox.plugins.sketch.analysis import Graph, needs_multi_level_tiling, slides_along_lanes
from pegbox.plugins.sketch.limit import Extent, Limit
from pegbox.plugins.sketch.steps import (
    CHOICE,
    Axes,
    Choice,
    Name,
    Size,
    SketchKnob,
    SketchStep,
    StageArgument,
    StepRun,
    Tile,
    compute_at,
    stage_call,
)
from pegbox.plugins.sketch.tiles import PlaceKnob, Tiles
from pegbox.schedule import At, Inline, Root
from pegbox.te import Stage, create_schedule


class State:
    """The stages of a computation while rules change them.

    Stages are named by their tensors, loops by names that are unique in the sketch. A rule makes a `copy` for each
    sketch that it derives, and calls the methods below, which are those of a TE schedule.

    Attributes:
        by_access: True to check each access for reuse, not each tensor; see `needs_multi_level_tiling`.
        applied: words for the rules that made the sketch.
        credits: the number of steps after each rule, with the rule.
        limits: the conditions on combinations of its knobs.
        tiles: the tiled stages.
        places: the stages whose place is a knob.
        caches: the stages made by `cache_write`, each with the stage that copies out of it.
        partials: the stages made by `rfactor`, each with the stage that combines its parts.
    """

    def __init__(
        self, outputs: Sequence[Tensor], names: dict[str, Tensor], target: Target, *, by_access: bool = False
    ) -> None:
        self.outputs, self.names, self.target, self.by_access = tuple(outputs), names, target, by_access
        self.steps: list[SketchStep] = []
        self.knobs: dict[str, SketchKnob] = {}
        self.applied: list[str] = []
        self.credits: list[tuple[int, str]] = []
        self.limits: list[Limit] = []
        self.tiles: dict[str, Tiles] = {}
        self.places: list[PlaceKnob] = []
        self.caches: dict[str, str] = {}
        self.partials: dict[str, str] = {}
        self._reserved: set[str] = set()
        self._longest: dict[str, int] = {}
        self._levels: dict[str, Extent] = {}
        self._factored: dict[str, dict[int | None, str]] = {}  # axes that rfactor made, and of which loops
        self._run = StepRun(create_schedule([t.op for t in outputs]), names)
        self._graph = Graph([], [])

    def copy(self) -> State:
        """Copy the sketch, to continue it independently."""
        other = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, list | dict | set | StepRun):
                setattr(other, name, value.copy())
        return other

    # Questions ------------------------------------------------------------------------------------------------------

    @property
    def stages(self) -> list[str]:
        """The names of the computed tensors' stages (the first output of each), producers first."""
        return [self._run.names[stage.op.outputs[0].buffer] for stage in self._run.s.stages]

    def tensor(self, name: str) -> Tensor:
        """Return a tensor by its name in the sketch."""
        found: Tensor = self._run.values[name]
        return found

    def _stage(self, name: str) -> Stage:
        return self._run.s[self._run.values[name]]

    def name_of(self, buffer: Buffer) -> str | None:
        """Return the name of the tensor in a buffer."""
        return self._run.names.get(buffer)

    def op(self, stage: str) -> ComputeOp:
        """Return the present operation of a stage, which rewrites may replace."""
        return self._stage(stage).op

    @property
    def graph(self) -> Graph:
        """The present graph of readers."""
        ops = [stage.op for stage in self._run.s.stages]
        if ops != self._graph.ops:
            self._graph = Graph(ops, [t.op for t in self.outputs])
        return self._graph

    def consumers(self, stage: str) -> list[str]:
        """Return the stages that need a stage's values, also through inlined ones."""
        readers = self.graph.consumers(self.op(stage), self._inlined)
        return [self._run.names[op.outputs[0].buffer] for op in readers]

    def is_output(self, stage: str) -> bool:
        """Return whether a stage computes a result of the kernel."""
        return self.graph.is_output(self.op(stage))

    def is_read_once(self, stage: str) -> bool:
        """Check if inlining a stage computes no more elements than it has."""
        return self.graph.is_read_once(self.op(stage), self._inlined)

    @property
    def _inlined(self) -> set[int]:
        return {id(s.op) for s in self._run.s.stages if isinstance(s.attach, Inline)}

    def needs_tiling(self, stage: str) -> bool:
        """Check if a stage reuses data, so that tiles pay."""
        op = self.op(stage)
        slides = self.by_access and slides_along_lanes(op)  # Ansor sees no reuse there
        return slides or needs_multi_level_tiling(op, by_access=self.by_access)

    def matched_consumer(self, stage: str) -> str | None:
        """Return the single consumer, if it needs only the same element, and not both reduce.

        None for outputs, which stay at the root, and if the consumer's loops are no longer its axes.
        """
        consumers = self.consumers(stage)
        if len(consumers) != 1 or self.is_output(stage):
            return None
        mine, its = self.op(stage), self.op(consumers[0])
        if self._stage(consumers[0]).leaf_iter_vars != [*its.axis, *its.reduce_axis]:
            return None  # its loops have changed already
        matches = self.is_elementwise(stage, consumers[0])
        return consumers[0] if matches and not (mine.reduce_axis and its.reduce_axis) else None

    def is_elementwise(self, stage: str, consumer: str) -> bool:
        """Check if each element of a consumer needs only the stage's element at the same place."""
        return self.graph.is_elementwise_match(self.op(stage), self.op(consumer), by_access=self.by_access)

    def is_root(self, stage: str) -> bool:
        """Check if a stage is computed as a whole, in its own loops."""
        return isinstance(self._stage(stage).attach, Root)

    def is_cached(self, stage: str) -> bool:
        """Check if a stage copies from another one that computes it."""
        return stage in self.caches.values()

    def is_serial(self, stage: str, loop: str) -> bool:
        """Check if a loop has no kind yet."""
        return self._run.values[loop] not in self._stage(stage).kinds

    def attached(self, stage: str) -> list[tuple[str, str]]:
        """Return the stages computed in loops of this one, each with the loop."""
        places = [(name, self._stage(name).attach) for name in self.stages]
        at = [(name, place) for name, place in places if isinstance(place, At) and place.stage is self._stage(stage)]
        return [(name, self._run.names[place.loop]) for name, place in at]

    def is_inlined(self, stage: str) -> bool:
        return isinstance(self._stage(stage).attach, Inline)

    def loops(self, stage: str) -> list[str]:
        """Return the names of a stage's loops, outermost first. Unnamed axes get names."""
        leaves = self._stage(stage).leaf_iter_vars
        if any(loop not in self._run.names for loop in leaves):
            self._name_axes(stage)
        return [self._run.names[loop] for loop in leaves]

    def axis(self, loop: str) -> IterVar:
        """Return a loop by its name in the sketch."""
        found: IterVar = self._run.values[loop]
        return found

    def extent(self, loop: str) -> int:
        """Return the iterations of an axis."""
        return int(self._run.values[loop].extent)

    def longest(self, loop: str) -> int:
        """Return the largest number of iterations of a loop for any values of the knobs."""
        return self._longest.get(loop) or self.extent(loop)

    def iterations(self, stage: str, loop: str) -> Extent | int | None:
        """Count a loop's iterations: a number, or a part of a split; None if other parts decide it."""
        numbers = (n for n, axis in enumerate(self.op(stage).loop_axes) if axis is self._run.values[loop])
        loop = self._factored.get(stage, {}).get(next(numbers, None), loop)
        if loop in self._levels:
            return self._levels[loop]
        return None if loop in self._longest else self.extent(loop)

    def parts_of(self, stage: str, axis: IterVar) -> list[str]:
        """Return the loops of a stage that are parts of an axis of its operation."""
        parts = self._stage(stage).parts_of(axis)
        return [loop for loop in self.loops(stage) if self._run.values[loop] in parts]

    def is_reduce(self, loop: str) -> bool:
        """Check if a loop runs over the terms of a reduction."""
        return bool(self._run.values[loop].kind == "reduce")

    def is_ordered(self, stage: str, loop: str) -> bool:
        """Check if a loop of a stage runs over the rows of a scan, one after the other."""
        mine = self._stage(stage)
        axis = self._run.values[loop]
        return isinstance(mine.op, ScanOp) and axis in mine.parts_of(mine.op.scan_axis)

    # Steps ----------------------------------------------------------------------------------------------------------

    def do(self, *steps: SketchStep) -> None:
        """Add steps.

        Raises:
            ScheduleError: one is not legal.
        """
        self._run.do(steps)
        self.steps += steps

    def credit(self, rule: str) -> None:
        """Name the rule that added the latest steps."""
        if len(self.steps) > (self.credits[-1][0] if self.credits else 0):
            self.credits.append((len(self.steps), rule))

    def knob(self, knob: SketchKnob) -> str:
        """Declare a knob; return its name, numbered if another one has it."""
        name = unused_name(knob.name, {*self.knobs, CHOICE})
        self.knobs[name] = replace(knob, name=name)
        return name

    def unused(self, name: str) -> str:
        """Return a name for a tensor that exists only for some values of a knob."""
        found = self._unused([name])[0]
        self._reserved.add(found)
        return found

    def call(
        self, stage: str | None, method: str, *arguments: Any, results: Sequence[str] = (), **options: Any
    ) -> list[str]:
        """Call a method of a stage's schedule, or of the whole one, and return the unique names of its results."""
        unique = self._unused(results)
        self.do(stage_call(stage, method, *arguments, results=unique, **options))
        return unique

    def tile(
        self, stage: str, loop: str, levels: int, *, innermost: int | None = None, tails: bool = False, knob: str = ""
    ) -> tuple[str, list[str]]:
        """Split a loop into `levels` loops by a knob; return the knob's name and the loops.

        Args:
            innermost: the largest number of iterations of the last loop.
            tails: allow splits that do not divide the extent, if it has few divisors.
            knob: a knob that splits another loop in the same way; by default a new one.
        """
        extent = self.extent(loop)
        policy = "verbose" if tails and has_few_divisors(extent) else "factors"
        knob = knob or self.knob(SketchKnob(loop, extent, levels, innermost, policy))
        loops = self._unused([f"{loop}_{n}" for n in range(levels)])
        self._longest.update(dict.fromkeys(loops, extent))
        self._levels.update((loop, Extent(knob, level)) for level, loop in enumerate(loops) if level)
        self.do(Tile(stage, loop, knob, tuple(loops)))
        return knob, loops

    def compute_inline(self, stage: str) -> None:
        self.call(stage, "compute_inline")

    def compute_at(self, stage: str, target: str, loop: str) -> None:
        self.call(stage, "compute_at", StageArgument(target), Name(loop))

    def reorder(self, stage: str, loops: Sequence[str]) -> None:
        self.call(stage, "reorder", *map(Name, loops))

    def fuse(self, stage: str, loops: Sequence[str]) -> str:
        return (
            self.call(stage, "fuse", *map(Name, loops), results=[f"{stage}_fused"])[0] if len(loops) > 1 else loops[0]
        )

    def split(self, stage: str, loop: str, factor: Any, results: tuple[str, str]) -> list[str]:
        parts = self.call(stage, "split", Name(loop), factor, results=list(results))
        self._longest.update(dict.fromkeys(parts, self.longest(loop)))
        return parts

    def cache_write(self, stage: str, scope: str = "local", order: Sequence[int] | None = None) -> str:
        """Add a stage that computes; the original stage copies from it."""
        outputs = self._outputs(stage)
        given = Name(stage) if len(outputs) == 1 else tuple(map(Name, outputs))
        results = [f"{name}_{scope}" for name in outputs]
        cache = self.call(None, "cache_write", given, scope, results=results, order=order and tuple(order))[0]
        self.caches[cache] = stage
        return cache

    def cache_read(self, tensor: str, reader: str, copy: str, order: Sequence[int] | None = None) -> str:
        """Add a stage that copies a tensor, for another stage to read."""
        arguments = Name(tensor), "global", (Name(reader),)
        return self.call(None, "cache_read", *arguments, results=[copy], order=order and tuple(order))[0]

    def rfactor(self, stage: str, loop: str, axis: int) -> str:
        """Add a stage with partial results of a reduction."""
        results = [f"{name}_rf" for name in self._outputs(stage)]
        left = [each for each in self.loops(stage) if self.is_reduce(each) and each != loop]
        partial = self.call(None, "rfactor", Name(stage), Name(loop), axis, results=results)[0]
        self.partials[partial] = stage
        points = len(self.op(partial).axis)
        self._factored[partial] = {axis % points: loop, **dict(enumerate(left, start=points))}
        self._factored[stage] = {len(self.op(stage).axis): loop}
        return partial

    def choose(self, knob: str, branches: Sequence[tuple[Any, Sequence[SketchStep]]]) -> None:
        """Add steps that a knob's value chooses, without applying them to the schedule here."""
        self.do(Choice(knob, tuple((value, tuple(steps)) for value, steps in branches)))

    def place(
        self,
        place: PlaceKnob,
        elsewhere: str | None,
        before: Sequence[SketchStep],
        after: Sequence[SketchStep] = (),
        like: PlaceKnob | None = None,
    ) -> None:
        """Let a knob choose the loop of its consumer in which a stage is computed.

        Args:
            elsewhere: the value for none of the loops; None if it must be one.
            before: steps that make the stage.
            after: steps on the stage in its place.
            like: another place, with as many loops, whose knob this one shares.
        """
        other = () if elsewhere is None else (elsewhere,)
        knob = self.knob(SketchKnob(place.knob, candidates=(*other, *place.loops))) if like is None else like.knob
        values = () if like is None else tuple(value for value, _ in like.choices)
        chosen = replace(place, knob=knob, values=values)
        at = [(value, compute_at(place.stage, place.consumer, loop)) for value, loop in chosen.choices]
        self.choose(knob, [(value, [*before, step, *after]) for value, step in at])
        self.places.append(chosen)

    def _outputs(self, stage: str) -> list[str]:
        """Return the names of all outputs of a stage."""
        return [self._run.names[tensor.buffer] for tensor in self.op(stage).outputs]

    def _name_axes(self, stage: str) -> None:
        op = self.op(stage)
        for reduce, axes in ((False, op.axis), (True, op.reduce_axis)):
            if axes and any(axis not in self._run.names for axis in axes):
                names = [f"{stage}_{identifier(a.name.removesuffix('.c'))}" for a in axes]
                self.do(Axes(stage, tuple(self._unused(names)), reduce))

    def _unused(self, names: Sequence[str]) -> list[str]:
        taken = {*self._run.values, *self._reserved}
        found = []
        for name in names:
            found.append(unused_name(name, taken))
            taken.add(found[-1])
        return found


def has_few_divisors(extent: int) -> bool:
    """Check if a number has fewer divisors than powers of two up to it, like primes."""
    pairs = sum(extent % n == 0 for n in range(1, math.isqrt(extent) + 1))
    return 2 * pairs - (math.isqrt(extent) ** 2 == extent) < extent.bit_length() - 1


def spatial_and_reduce(op: ComputeOp) -> tuple[int, int]:
    """Return the number of points of an operation's output, and the number of terms in each."""
    return math.prod(a.extent for a in op.axis), math.prod(a.extent for a in op.reduce_axis)


def follow(state: State, target: str, knobs: Sequence[str], level: int) -> str:
    """Tile a consumer like its producer, in `level` + 1 levels; return its last loop of the level.

    Args:
        knobs: the splits of the producer's axes, in order.
    """
    levels: list[list[str]] = [[] for _ in range(level + 1)]
    for loop, knob in zip(state.loops(target), knobs, strict=True):
        rest = loop
        for n in range(1, level + 1):
            inner = f"{loop}_{level}" if n == level else f"{loop}_rest"
            outer, rest = state.split(target, rest, Size(knob, n), (f"{loop}_{n - 1}", inner))
            levels[n - 1].append(outer)
        levels[level].append(rest)
    state.reorder(target, [loop for each in levels for loop in each])
    return levels[level - 1][-1]
