"""`StateObject`: a state that stays as it is, its stages and their loops, over a sketch of `pegbox.plugins.sketch`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from pegbox.compute.tensor import ComputeOp, Operation, Tensor, read_buffers
from pegbox.errors import ArgumentError
from pegbox.expr.nodes import Buffer
from pegbox.loops.nodes import For, ForKind
from pegbox.plugins.sketch.code import schedule_lines
from pegbox.plugins.sketch.space import Sketch
from pegbox.plugins.sketch.state import State as SketchState
from pegbox.plugins.sketch.steps import Argument, Axes, Choices, Run, Tile
from pegbox.schedule.te.replay import replay
from pegbox.schedule.te.schedule import TESchedule, create_schedule
from pegbox.schedule.te.stage_base import At, Inline

if TYPE_CHECKING:
    from pegbox.space import Config

ANNOTATIONS = {
    "none": 0, "unroll": 1, "vectorize": 2, "parallel": 3, "vthread": 4, "blockIdx.x": 5, "threadIdx.x": 6,
    "blockIdx.y": 7, "threadIdx.y": 8, "blockIdx.z": 9, "threadIdx.z": 10, "tensorize": 11,
}  # fmt: skip
"""How a loop runs: TVM's numbers."""

_WORDS = {ForKind.UNROLLED: "unroll", ForKind.VECTORIZED: "vectorize", ForKind.PARALLEL: "parallel"}


@dataclass(frozen=True)
class Range:
    """The values of a loop: `extent` of them, from `min` on."""

    min: int
    extent: int


@dataclass(frozen=True)
class Iterator:
    """A loop. Its range is None where a search has not chosen the factor yet; `annotation` says how it runs."""

    name: str
    range: Range | None
    annotation: int = 0


@dataclass(frozen=True)
class Stage:
    """A stage of a state: `iters` are its loops, `compute_at` says where it is computed."""

    COMPUTE_AT_TRANS_TABLE: ClassVar[dict[str, int]] = {"root": 0, "inlined": 1, "iter": 2}

    op: Operation
    iters: tuple[Iterator, ...]
    compute_at: int

    @property
    def op_type(self) -> int:
        """0 for an input, 1 for what is computed."""
        return int(isinstance(self.op, ComputeOp))


@dataclass(frozen=True, eq=False)
class StateObject:
    """A state that stays as it is.

    Attributes:
        sketch: the steps; `values` of its knobs, or None while they are open.
        core: the same sketch while rules derive it, for more steps; None for a state of a search.
        config: the configuration of a search that it is.
        history: for each step of a script, the lengths of a split, else None.
        bounds: of operations, by name, the extents of their loops where they are computed, once that was asked for.
    """

    sketch: Sketch
    values: Choices | None = None
    core: SketchState | None = None
    config: Config | None = None
    history: tuple[tuple[Argument, ...] | None, ...] = ()
    bounds: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, StateObject) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[Any, ...]:
        steps = tuple(step for step in self.sketch.steps if not isinstance(step, Axes))
        return steps, self.config if self.sketch.knobs else None

    def __str__(self) -> str:
        return "\n".join(schedule_lines(self.sketch.steps, self.values)) or "# no step: all loops as they are written"

    @property
    def run(self) -> Run:
        """The schedule that the steps make."""
        if self.core is not None:
            return self.core.run
        made = Run(create_schedule([t.op for t in self.sketch.outputs]), dict(self.sketch.tensors), self.values)
        made.do(self.sketch.steps)
        return made

    @property
    def transform_steps(self) -> tuple[Any, ...]:
        """The steps; of a script's state one for each call."""
        return self.history if self.core is not None and self.history else self.sketch.steps

    @property
    def stages(self) -> list[Stage]:
        """Inputs and what is computed, each behind what it reads."""
        made = self.run
        open_loops = set() if self.values is not None else _open_loops(self.sketch)
        return [_stage(made, op, open_loops, self.bounds) for op in stage_ops(made, self.sketch)]

    def schedule(self) -> tuple[TESchedule, list[Tensor]]:
        """The schedule, and the kernel's arguments.

        Raises:
            ArgumentError: splits or other choices are still open.
        """
        if self.values is None and self.sketch.knobs:
            names = ", ".join(knob.name for knob in self.sketch.knobs)
            raise ArgumentError(
                f"this state leaves {names} open: let a search fill them in (task.tune), or give all lengths of splits"
            )
        return self.run.s.copy(), list(self.sketch.arguments)


def bounded(state: StateObject) -> StateObject:
    """The state with the extents that loops have where their stages are computed.

    Raises:
        ArgumentError: splits or other choices are still open.
        ScheduleError: its steps are not legal together.
    """
    schedule, arguments = state.schedule()
    program = replay(schedule, arguments)
    bounds = {}
    for stage in schedule.stages:
        if not isinstance(stage.attach, Inline):
            loops = program.get_loops(program.get_block(stage.op.name))[-len(stage.leaf_iter_vars) :]
            found = [program.get(loop) for loop in loops]
            bounds[stage.op.name] = tuple(loop.extent for loop in found if isinstance(loop, For))
    return replace(state, bounds=bounds)


def derived(core: SketchState, arguments: Sequence[Tensor], history: tuple[Any, ...] = ()) -> StateObject:
    """The state of a sketch that is still derived; later steps of `core` do not change it."""
    own = core.copy()
    knobs, limits, steps = tuple(own.knobs.values()), tuple(own.limits), tuple(own.steps)
    return StateObject(Sketch("state", tuple(arguments), own.names, knobs, limits, steps), core=own, history=history)


def stage_ops(made: Run, sketch: Sketch) -> list[Operation]:
    """Inputs and computed operations as they are now, each input before its first reader."""
    inputs: dict[Buffer, Operation] = {
        t.buffer: t.op for t in sketch.tensors.values() if not isinstance(t.op, ComputeOp)
    }
    ops: dict[Operation, None] = {}
    for stage in made.s.stages:
        ops.update((inputs[buffer], None) for buffer in read_buffers(stage.op.body) if buffer in inputs)
        ops[stage.op] = None
    return list(ops)


def _open_loops(sketch: Sketch) -> set[str]:
    return {loop for step in sketch.steps if isinstance(step, Tile) for loop in step.results}


def _stage(made: Run, op: Operation, open_loops: set[str], bounds: Mapping[str, tuple[int, ...]]) -> Stage:
    if not isinstance(op, ComputeOp):
        return Stage(op, tuple(Iterator(f"i{n}", Range(0, size)) for n, size in enumerate(op.outputs[0].shape)), 0)
    stage = made.s[op]
    iters = []
    known = bounds.get(op.name, tuple(int(loop.extent) for loop in stage.leaf_iter_vars))
    for loop, extent in zip(stage.leaf_iter_vars, known, strict=True):
        name = made.names.get(loop, loop.name)
        annotation = ANNOTATIONS[_WORDS.get(stage.kinds.get(loop, ForKind.SERIAL), "none")]
        iters.append(Iterator(name, None if name in open_loops else Range(0, extent), annotation))
    place = "inlined" if isinstance(stage.attach, Inline) else "iter" if isinstance(stage.attach, At) else "root"
    return Stage(op, tuple(iters), Stage.COMPUTE_AT_TRANS_TABLE[place])
