"""`State`: the loops of a computation and the steps that made them, over a sketch of `pegbox.plugins.sketch`.

A state of a search is a sketch with a configuration. One that a script makes step by step leaves nothing open, but for
splits of length None, which a search fills in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeAlias

from pegbox.compute.tensor import ComputeOp, Operation, Tensor
from pegbox.errors import ArgumentError, ScheduleError
from pegbox.plugins.sketch.state import State as SketchState
from pegbox.plugins.sketch.steps import Argument, Name, Size
from pegbox.plugins.tvm.auto_scheduler.state_object import ANNOTATIONS, Iterator, Stage, StateObject, derived
from pegbox.plugins.tvm.auto_scheduler.state_object import Range as Range

if TYPE_CHECKING:
    from pegbox.plugins.tvm.auto_scheduler.compute_dag import ComputeDAG

StageLike: TypeAlias = int | Operation | Tensor


class State:
    """A state that a script goes on with, by the primitives of TE schedules.

    Stages are given by their operation, by a tensor, or by their number; loops are those of `state[stage].iters`.
    """

    ANNOTATION_TRANS_TABLE: ClassVar[dict[str, int]] = ANNOTATIONS

    def __init__(self, state_object: StateObject | State, dag: ComputeDAG) -> None:
        given = state_object.state_object if isinstance(state_object, State) else state_object
        self.compute_dag = dag
        self._given = given
        self._core = None if given.core is None else given.core.copy()
        self._history = given.history
        self._bounds = given.bounds
        self._ops: dict[Operation, str] = {}

    @property
    def state_object(self) -> StateObject:
        """The state as it is now."""
        if self._core is None:
            return self._given
        for stage in self._core.stages:
            self._core.loops(stage)  # so that all of them have names
        made = derived(self._core, self._given.sketch.arguments, self._history)
        return replace(made, bounds=self._bounds)

    @property
    def stages(self) -> list[Stage]:
        """Inputs and what is computed, each behind what it reads."""
        return self.state_object.stages

    @property
    def stage_ops(self) -> list[Operation]:
        """The operations of the stages."""
        found = [stage.op for stage in self.stages]
        self._ops.update((op, self._name_of(op)) for op in found if isinstance(op, ComputeOp) and op not in self._ops)
        return found

    @property
    def transform_steps(self) -> tuple[Any, ...]:
        """The steps that made it."""
        return self.state_object.transform_steps

    def copy(self) -> State:
        """The same, to go on with on its own."""
        made = State(self.state_object, self.compute_dag)
        made._ops.update(self._ops)
        return made

    def __getitem__(self, stage: StageLike) -> Stage:
        stages = self.stages
        if isinstance(stage, int):
            return stages[stage]
        op = self._op(stage)
        return next(each for each in stages if each.op is op)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State | StateObject) and self.state_object == other

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __str__(self) -> str:
        return str(self.state_object)

    # Primitives -----------------------------------------------------------------------------------------------------

    def split(
        self, stage: StageLike, iterator: Iterator, lengths: Sequence[int | None], inner_to_outer: bool = True
    ) -> list[Iterator]:
        """Split a loop into one more than there are lengths; a search fills in lengths that are all None."""
        name = self._name(stage)
        if lengths and all(length is None for length in lengths):
            knob, parts = self._steps.tile(name, iterator.name, len(lengths) + 1)
            known: tuple[Argument, ...] = tuple(Size(knob, n) for n in range(1, len(lengths) + 1))
            return self._did(name, parts, known)
        if not all(isinstance(length, int) for length in lengths):
            raise ArgumentError(f"split: lengths={list(lengths)!r}: give numbers, or None for each of them")
        numbers = [int(length) for length in lengths if length is not None]
        sizes = [math.prod(numbers[n:]) for n in range(len(numbers))] if inner_to_outer else numbers
        return self._did(name, self._split(name, iterator.name, sizes, "factor" if inner_to_outer else "nparts"), sizes)

    def follow_split(self, stage: StageLike, iterator: Iterator, src_step_id: int, n_split: int) -> list[Iterator]:
        """Split a loop as an earlier step split another one, into `n_split` + 1 parts at most."""
        known = self._history[src_step_id] if 0 <= src_step_id < len(self._history) else None
        if known is None:
            raise ArgumentError(f"follow_split: step {src_step_id} is no split; give len(state.transform_steps) - 1")
        name = self._name(stage)
        return self._did(name, self._split(name, iterator.name, known[:n_split], "factor"), known[:n_split])

    def follow_fused_split(self, stage: StageLike, *_: Any, **__: Any) -> NoReturn:
        """Refused: it is for loops that threads of a GPU share.

        Raises:
            ScheduleError: always.
        """
        raise ScheduleError(
            f"follow_fused_split({stage}): it makes loops for the threads of a GPU",
            "follow_split takes the factors of another split; for loops of a CPU that is enough",
        )

    def fuse(self, stage: StageLike, iters: Sequence[Iterator]) -> Iterator:
        """One loop for several that stand directly inside of each other."""
        name = self._name(stage)
        loops = [it.name for it in iters]
        made = self._steps.call(name, "fuse", *map(Name, loops), results=["_".join(loops)])
        return self._did(name, made)[0]

    def reorder(self, stage: StageLike, order: Sequence[Iterator]) -> None:
        """Loops in another order."""
        name = self._name(stage)
        self._steps.reorder(name, [it.name for it in order])
        self._did(name, [])

    def parallel(self, stage: StageLike, iterator: Iterator) -> Iterator:
        """Share a loop among threads."""
        return self._annotated(stage, "parallel", iterator)

    def vectorize(self, stage: StageLike, iterator: Iterator) -> Iterator:
        """Run a loop as lanes of vectors."""
        return self._annotated(stage, "vectorize", iterator)

    def unroll(self, stage: StageLike, iterator: Iterator, max_unroll: int | None = None) -> Iterator:
        """Write a loop out, unless it has more than `max_unroll` iterations."""
        longer = max_unroll and iterator.range is not None and iterator.range.extent > max_unroll
        return iterator if longer else self._annotated(stage, "unroll", iterator)

    def bind(self, stage: StageLike, iterator: Iterator, thread_name: str) -> Iterator:
        """Refused: there are no threads of a GPU."""
        raise ArgumentError(
            f"bind({iterator.name}, {thread_name!r}): states are of kernels for CPUs; share the loop among threads by "
            "state.parallel(stage, iterator), or bind loops of a te schedule"
        )

    def pragma(self, stage: StageLike, iterator: Iterator, pragma_type: str) -> None:
        """A pragma of a loop, with its value behind a $ sign: "auto_unroll_max_step$64"."""
        kind, _, value = pragma_type.partition("$")
        name = self._name(stage)
        self._steps.call(name, "pragma", Name(iterator.name), kind, *([int(value)] if value else []))
        self._did(name, [])

    def storage_align(self, stage: StageLike, iterator: Iterator, factor: int, offset: int) -> None:
        """Place rows in memory so that they begin at multiples of `factor`, plus `offset` elements."""
        name = self._name(stage)
        self._steps.call(name, "storage_align", Name(iterator.name), factor, offset)
        self._did(name, [])

    def tensorize(self, stage: StageLike, iterator: Iterator, ti_func_name: str) -> None:
        """A tensor intrinsic, by the name that pegbox knows it by, in place of a loop and those inside."""
        name = self._name(stage)
        self._steps.call(name, "tensorize", Name(iterator.name), ti_func_name)
        self._did(name, [])

    def compute_at(self, stage: StageLike, target_stage: StageLike, target_iter: Iterator) -> None:
        """Compute a stage in a loop of another one."""
        name = self._name(stage)
        self._steps.compute_at(name, self._name(target_stage), target_iter.name)
        self._did(name, [])

    def compute_inline(self, stage: StageLike) -> None:
        """Compute a stage where its values are used."""
        name = self._name(stage)
        self._steps.compute_inline(name)
        self._did(name, [])

    def compute_root(self, stage: StageLike) -> None:
        """Compute a stage in loops of its own."""
        name = self._name(stage)
        self._steps.call(name, "compute_root")
        self._did(name, [])

    def cache_write(self, stage: StageLike, scope_name: str) -> Operation:
        """A stage that computes into a buffer of its own, out of which the stage copies; gives the new one."""
        return self._added(self._steps.cache_write(self._name(stage), scope_name))

    def cache_read(self, stage: StageLike, scope_name: str, reader_stages: Sequence[StageLike]) -> Operation:
        """A copy of a tensor that some stages then read; gives the copy."""
        name = self._name(stage)
        readers = tuple(Name(self._name(reader)) for reader in reader_stages)
        results = [f"{name}_{scope_name}"]
        return self._added(self._steps.call(None, "cache_read", Name(name), scope_name, readers, results=results)[0])

    def rfactor(self, stage: StageLike, iterator: Iterator, factor_iter_id: int) -> Operation:
        """Partial results of a reduction, of which `iterator` becomes the axis `factor_iter_id`; gives their stage."""
        return self._added(self._steps.rfactor(self._name(stage), iterator.name, factor_iter_id))

    # ----------------------------------------------------------------------------------------------------------------

    @property
    def _steps(self) -> SketchState:
        if self._core is None:
            raise ArgumentError(
                "this state is one of a search, which is complete; make one for steps of your own with "
                "compute_dag.get_init_state()"
            )
        return self._core

    def _split(self, stage: str, loop: str, sizes: Sequence[Argument], option: str) -> list[str]:
        parts = [loop]
        for n, size in enumerate(sizes):
            inner = f"{loop}_{n + 1}" if n == len(sizes) - 1 else f"{loop}_rest"
            made: list[str] = self._steps.call(
                stage, "split", Name(parts.pop()), results=[f"{loop}_{n}", inner], **{option: size}
            )
            parts += made
        return parts

    def _annotated(self, stage: StageLike, method: str, iterator: Iterator) -> Iterator:
        name = self._name(stage)
        self._steps.call(name, method, Name(iterator.name))
        return self._did(name, [iterator.name])[0]

    def _did(self, stage: str, loops: Sequence[str], split: Sequence[Argument] | None = None) -> list[Iterator]:
        """Count a step; gives the loops that it made."""
        self._history = (*self._history, None if split is None else tuple(split))
        self._bounds = {}
        if not loops:
            return []
        found = {it.name: it for it in self[self._steps.op(stage)].iters}
        return [found[loop] for loop in loops]

    def _added(self, stage: str) -> Operation:
        self._did(stage, [])
        op = self._steps.op(stage)
        self._ops[op] = stage
        return op

    def _name(self, stage: StageLike) -> str:
        """What the sketch calls a stage, or an input."""
        if isinstance(stage, int):
            stage = self.stages[stage].op
        if isinstance(stage, Tensor):
            stage = stage.op
        return self._ops.get(stage) or self._name_of(stage)

    def _name_of(self, op: Operation) -> str:
        core = self._given.sketch.tensors if self._core is None else self._core.names
        known = None if self._core is None else self._core.name_of(op.outputs[0].buffer)
        found = known or next((name for name, tensor in core.items() if tensor.op is op), None)
        found = found or next((name for name, tensor in core.items() if tensor.op.name == op.name), None)
        if found is None:
            raise ArgumentError(f"{op} is no operation of this state; take one of state.stage_ops")
        return found

    def _op(self, stage: Operation | Tensor) -> Operation:
        """An operation as it is now: steps exchange those that they rewrite."""
        op = stage.op if isinstance(stage, Tensor) else stage
        return self._core.op(self._name(op)) if self._core is not None and isinstance(op, ComputeOp) else op
