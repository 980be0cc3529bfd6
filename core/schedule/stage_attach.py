"""Where a stage is computed: at the root, inside a consumer's loop, or wherever an element is needed."""

from __future__ import annotations

from pegbox.compute.tensor import IterVar
from pegbox.errors import ScheduleError
from pegbox.schedule.stage_base import At, Inline, Root, StageBase


class AttachMethods(StageBase):
    """The place of a stage."""

    def compute_at(self, parent: StageBase, loop: IterVar) -> None:
        """Compute this stage inside a loop of a consumer.

        Raises:
            ScheduleError: this stage is an output, or `loop` is not a loop of `parent`.
        """
        if self.is_output:
            raise ScheduleError(f"compute_at: {self.op.name} is an output and stays at the root")
        parent._position(loop, f"compute_at({self.op.name})")
        if parent is self:
            raise ScheduleError(f"compute_at: {self.op.name} cannot be computed inside itself")
        self.attach = At(parent, loop)

    def compute_inline(self) -> None:
        """Compute this stage's elements where they are used.

        Raises:
            ScheduleError: this stage is an output or a reduction, or has several outputs.
        """
        if self.is_output:
            raise ScheduleError(f"compute_inline: {self.op.name} is an output; there is no consumer to inline it into")
        if self.op.reduce is not None:
            raise ScheduleError(f"compute_inline: {self.op.name} is a reduction; use compute_at instead")
        if len(self.op.outputs) > 1:
            raise ScheduleError(
                f"compute_inline: {self.op.name} has {len(self.op.outputs)} outputs; use compute_at instead"
            )
        self.attach = Inline()

    def compute_root(self) -> None:
        """Compute this stage in a nest of its own (as at the start)."""
        self.attach = Root()
