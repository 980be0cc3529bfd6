"""Epilogues in TE schedules: a computation on an output becomes part of the stage that stores it."""

from __future__ import annotations

import math

from pegbox.checks import check_instance, check_int
from pegbox.compute.epilogue import Epilogue
from pegbox.compute.tensor import ComputeOp, Tensor
from pegbox.errors import ScheduleError
from pegbox.loops.nodes import ForKind
from pegbox.schedule.te.base import TEScheduleBase
from pegbox.schedule.te.stage import Stage
from pegbox.schedule.te.stage_base import StageBase, moved

_SHARED = 1 << 15
"""The number of elements from which threads share a separate stage, if they share the one before."""


class EpilogueRewrites(TEScheduleBase):
    """Outputs followed by pointwise computations."""

    def append_epilogue(self, tensor: Tensor, epilogue: Epilogue, lanes: int) -> Tensor:
        """Let the schedule compute an epilogue of an output in its place, and return the new output.

        A stage that stores each element once stores that of the epilogue, and keeps its loops. A reduction, whose
        elements are final only after its last step, is followed by a separate stage, with vectors of `lanes`.
        """
        check_instance("epilogue", epilogue, Epilogue, "what epilogue_of gives", error=ScheduleError)
        check_int("lanes", lanes, error=ScheduleError)
        stage = self[tensor]
        name = self._name(epilogue.op.name)
        self.placeholders += epilogue.inputs
        if self._stores_once(stage, tensor):
            stage.op = epilogue.over(stage.op, name)
            (output,) = stage.op.outputs
            stage.steps = moved(stage.steps, lambda each: output if each is tensor else each)
            return output
        made = Stage(op=epilogue.after(tensor, name), is_output=True)
        self.stages.append(made)
        stage.is_output = False
        *outer, last = made.op.axis
        if last.extent >= lanes:
            made.vectorize(made.split(last, factor=lanes)[1])
        shared = ForKind.PARALLEL in stage.kinds.values() and math.prod(tensor.shape) >= _SHARED
        if shared and outer:
            made.parallel(made.fuse(*outer) if len(outer) > 1 else outer[0])
        return made.op.outputs[0]

    def _stores_once(self, stage: StageBase, tensor: Tensor) -> bool:
        is_plain = type(stage.op) is ComputeOp and stage.op.reduce is None and stage.tensorized is None
        return is_plain and not any(tensor in other.op.inputs for other in self.stages)
