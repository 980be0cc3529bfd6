"""A workload, and a space generator that tiles the last axis of each of its stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pegbox as pb
from pegbox import te
from pegbox.codegen import Target, lanes_of
from pegbox.compute import ComputeOp, post_order
from pegbox.errors import TemplateError
from pegbox.task import TemplateConfig


@pb.workload("acme_axpy")
def axpy(N: int, dtype: str = "float32") -> list[te.Tensor]:
    """z[i] = 3 x[i] + y[i] for vectors of N elements."""
    x, y = te.placeholder((N,), name="x", dtype=dtype), te.placeholder((N,), name="y", dtype=dtype)
    scaled = te.compute((N,), lambda i: x[i] * te.const(3, dtype), name="scaled")
    return [x, y, te.compute((N,), lambda i: scaled[i] + y[i], name="z")]


@dataclass(frozen=True)
class TilesGenerator:
    """Spaces in which each stage has a split of its last axis, and vectors or none.

    Args:
        levels: the number of loops that the axis becomes.
    """

    levels: int = 2

    def __call__(self, tensors: Sequence[te.Tensor], target: Target) -> TilesSpace:
        if not any(isinstance(t.op, ComputeOp) for t in tensors):
            raise TemplateError("nothing is computed: give outputs, too")
        return TilesSpace(tuple(tensors), target, self.levels)


@dataclass(frozen=True)
class TilesSpace:
    """The body of a template: called with a configuration, it gives the schedule and the arguments."""

    tensors: tuple[te.Tensor, ...]
    target: Target
    levels: int

    def __call__(self, cfg: TemplateConfig) -> tuple[te.TESchedule, list[te.Tensor]]:
        outputs = [t.op for t in self.tensors if isinstance(t.op, ComputeOp)]
        s = te.create_schedule(outputs)
        for op in post_order(outputs):
            if isinstance(op, ComputeOp) and op.axis:
                self._tile(cfg, s, op)
        return s, list(self.tensors)

    def _tile(self, cfg: TemplateConfig, s: te.TESchedule, op: ComputeOp) -> None:
        tensor, (*outer, last) = op.outputs[0], op.axis
        most = 4 * lanes_of(self.target, tensor.dtype)
        tile, vectors = f"{op.name}_tile", f"{op.name}_vectors"
        cfg.define_split(tile, last, num_outputs=self.levels, filter=lambda split: split.size[-1] <= most)
        cfg.define_knob(vectors, [0, 1])
        *loops, inner = cfg[tile].apply(s, tensor, last)
        s[tensor].reorder(*outer, *loops, *op.reduce_axis, inner)
        if cfg[vectors].val:
            s[tensor].vectorize(inner)
