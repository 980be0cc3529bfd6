"""Stage method tensorize, and the C code that its intrinsics call."""

from __future__ import annotations

from pegbox.compute.axis import IterVar
from pegbox.errors import ScheduleError
from pegbox.schedule.intrinsics.intrinsic import TensorIntrin
from pegbox.schedule.state.step import Step
from pegbox.schedule.te.replay_state import ReplayState
from pegbox.schedule.te.stage_base import StageBase, te_method
from pegbox.shown import value_text


@te_method
def tensorize(stage: StageBase, var: IterVar, tensor_intrin: TensorIntrin | str) -> None:
    """Let a tensor intrinsic compute what a loop and all loops inside of it compute.

    Before `tensorize(j_inner, gemv)`::

        for i in range(64):
            for j_outer in range(4):
                for j_inner in range(16):
                    for k in range(64):
                        C[i, j] = C[i, j] + A[i, k] * B[j, k]

    After::

        for i in range(64):
            for j_outer in range(4):
                call_extern("int32", "gemv", address(C[i, j_outer * 16 ...]), ...)

    Raises:
        ScheduleError: not a loop of this stage, or no tensor intrinsic; when lowered: the loops compute something
            else than the intrinsic describes, or their tiles are not whole.
    """
    stage.position(var)
    name = tensor_intrin.name if isinstance(tensor_intrin, TensorIntrin) else tensor_intrin
    if not isinstance(name, str):
        raise ScheduleError(
            f"{value_text(tensor_intrin)} is not a tensor intrinsic",
            "give one that te.decl_tensor_intrin made, or the name of a registered one",
        )
    TensorIntrin.get(name)
    before = stage.tensorized
    if before is not None and before.args[0] is not var:
        raise ScheduleError(f"{before.args[0].name} is tensorized already", "one loop of a stage can be")
    stage.record(("tensorize", var), "tensorize", var, name)


def replay_tensorize(replay: ReplayState, stage: StageBase, step: Step) -> None:
    axis, intrin = step.args
    replay.sch.tensorize(replay.live(stage)[axis], intrin)
