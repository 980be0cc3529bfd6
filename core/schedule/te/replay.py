"""Replay of a TE schedule on the loop IR: from stages to a scheduled program.

Stages go from the outputs back to the inputs. An attached stage is first moved to its consumer's loop, which gives it
one loop per axis, over the region needed there; then its own splits, orders and annotations apply.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from pegbox.compute.scan_op import ScanOp
from pegbox.compute.tensor import ComputeOp, Tensor
from pegbox.errors import ScheduleError
from pegbox.expr.nodes import Buffer
from pegbox.loops.foreign import with_code
from pegbox.loops.from_compute import block_names, function_from_ops
from pegbox.loops.nodes import Function
from pegbox.schedule.analysis.recurrence import check_all_rows
from pegbox.schedule.errors import showing
from pegbox.schedule.schedule import Schedule
from pegbox.schedule.state.step import Step
from pegbox.schedule.te import stage_kinds, stage_loops, stage_storage, stage_threads
from pegbox.schedule.te.replay_state import Draft, ReplayState
from pegbox.schedule.te.schedule import TESchedule
from pegbox.schedule.te.stage import Inline
from pegbox.schedule.te.stage_attach import replay_place
from pegbox.schedule.te.stage_base import PLACE, StageBase

_Phase: TypeAlias = Mapping[str, Callable[[ReplayState, StageBase, Step], None]]

_LOOPS: _Phase = {
    "split": stage_loops.replay_split,
    "fuse": stage_loops.replay_fuse,
    "add_unit_loop": stage_loops.replay_unit_loop,
}
"""The first phase of a placed stage, before its loops are put in order."""

_OF_A_STAGE: Sequence[_Phase] = (
    dict.fromkeys(("vectorize", "unroll", "parallel", "bind"), stage_kinds.replay_kind),
    {"pragma": stage_kinds.replay_pragma},
    {"env_threads": stage_threads.replay_env_threads},
    {"set_store_predicate": stage_threads.replay_store_predicate},
    {"storage_align": stage_storage.replay_storage_align},
    {"double_buffer": stage_storage.replay_double_buffer},
    {"store_in": stage_storage.replay_store_in},
)
"""The further phases of a stage."""

_OF_THE_WHOLE: Sequence[_Phase] = (
    {"merge": stage_loops.replay_merge},
    {"prefetch": stage_kinds.replay_prefetch},
    {"rolling_buffer": stage_storage.replay_rolling_buffer},
    {"tensorize": stage_kinds.replay_on_loops},
)
"""The phases after all stages have their place."""


def replay(schedule: TESchedule, args: Sequence[Tensor], name: str = "main", draft: Draft | None = None) -> Schedule:
    """Make a `tir.Schedule` with all steps of the TE schedule applied.

    Args:
        args: the function's parameters in call order; placeholders and outputs. An intermediate is allowed, too: it
            becomes an output, unless it is inlined: then nothing is written to it, as in TVM.
        draft: the draft of a program that is only shown, which collects the refusals; illegal loops are shown if
            possible.

    Raises:
        ScheduleError: an output or input is missing from `args`, or a relation is not legal. It names the line of the
            user's code with the refused step.
    """
    ops = [stage.op for stage in schedule.stages]
    outputs = check_arguments(schedule, args, draft)
    inlined = {t.buffer for stage in schedule.stages if isinstance(stage.attach, Inline) for t in stage.op.outputs}
    params = tuple(t.buffer for t in args)
    written = [b for b in outputs if b not in inlined]
    sch = Schedule(function_from_ops(ops, [b for b in params if b not in inlined], written, name))
    sch.legality.lift()
    names = block_names(ops)
    blocks = {id(stage): sch.get_block(names[stage.op]) for stage in schedule.stages}
    state = ReplayState(sch, schedule.stages, blocks, draft)
    try:
        _replay(state)
    except ScheduleError as error:
        state.locate(error)
        raise
    codes = [step.args[0] for stage in schedule.stages for step in stage.steps.values() if step.primitive == "import_c"]
    sch.update(with_code(sch.func, codes))
    if inlined & set(params):
        sch.update(replace(sch.func, params=params))
    if draft is not None:
        draft.finish(sch)
    return sch


def _replay(state: ReplayState) -> None:
    placed = [stage for stage in state.stages if not isinstance(stage.attach, Inline)]
    for stage in state.stages:
        if stage not in placed:
            state.step = stage.steps[PLACE]
            state.sch.compute_inline(state.block(stage))
    for stage in reversed(placed):
        if replay_place(state, stage):
            axes = stage.op.loop_axes
            own = state.sch.get_loops(state.block(stage))
            state.loops[id(stage)] = dict(zip(axes, own[len(own) - len(axes) :], strict=True))
            _do(_LOOPS, state, stage)
            stage_loops.replay_order(state, stage)
            for phase in _OF_A_STAGE:
                _do(phase, state, stage)
    state.step = None
    if any(isinstance(stage.op, ScanOp) for stage in state.stages):
        with showing(state.sch.tree):
            check_all_rows(state.sch.tree)
    for phase in _OF_THE_WHOLE:
        for stage in placed:
            if id(stage) in state.loops:
                _do(phase, state, stage)


def _do(phase: _Phase, state: ReplayState, stage: StageBase) -> None:
    for step in stage.steps.values():
        if step.primitive in phase:
            state.step = step
            phase[step.primitive](state, stage, step)


def check_arguments(schedule: TESchedule, args: Sequence[Tensor], draft: Draft | None = None) -> list[Buffer]:
    """Return the buffers among the arguments that the schedule writes.

    Raises:
        ScheduleError: an argument is given twice, an input or an output is missing, or another schedule computes one.
    """
    given = {t.buffer for t in args}
    if len(given) != len(args):
        raise ScheduleError(f"an argument is given twice in {[t.name for t in args]}")
    for tensor in schedule.placeholders:
        if tensor.buffer not in given:
            raise ScheduleError(
                f"the input {tensor.name} is missing from the arguments {[t.name for t in args]}", "add it to the list"
            )
    made = dict.fromkeys(t.buffer for stage in schedule.stages for t in stage.op.outputs)
    for stage in schedule.stages:
        for tensor in stage.op.outputs:
            if stage.is_output and tensor.buffer not in given:
                error = ScheduleError(
                    f"the output {tensor.name} is missing from the arguments {[t.name for t in args]}",
                    "add it to the list",
                )
                if draft is None:
                    raise error
                draft.add(error, None)
    for tensor in args:
        if isinstance(tensor.op, ComputeOp) and tensor.buffer not in made:
            error = ScheduleError(
                f"the argument {tensor.name} is computed, but not by this schedule, which makes "
                f"{', '.join(b.name for b in made)}"
            )
            if draft is None:
                raise error
            draft.add(error, None)
    return [t.buffer for t in args if t.buffer in made]


def lower_te(schedule: TESchedule, args: Sequence[Tensor], name: str = "main") -> Function:
    """Make the scheduled program (with blocks) of a TE schedule."""
    return replay(schedule, args, name).func
