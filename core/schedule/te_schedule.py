"""TE schedules: one stage an operation, and the rewrites of the compute graph that add stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pegbox.compute.graph import post_order
from pegbox.compute.reducer import Reduce
from pegbox.compute.tensor import ComputeOp, IterVar, Operation, PlaceholderOp, Range, Tensor, read_buffers
from pegbox.errors import ScheduleError
from pegbox.expr.nodes import Expr, Load, Var
from pegbox.expr.visit import replace_buffers, substitute
from pegbox.schedule.primitives.cache import SCOPES
from pegbox.schedule.stage import Stage


class TESchedule:
    """`s[tensor]` is a tensor's stage. Stages stand in an order in which they can run."""

    def __init__(self, outputs: Sequence[Operation]) -> None:
        order = post_order(outputs)
        computed = [op for op in order if isinstance(op, ComputeOp)]
        if not computed:
            raise ScheduleError(f"create_schedule: nothing to compute in {[op.name for op in outputs]}")
        wanted = {id(op) for op in outputs}
        self.stages = [Stage(op, id(op) in wanted) for op in computed]
        self.placeholders = [op.outputs[0] for op in order if isinstance(op, PlaceholderOp)]

    def __getitem__(self, key: Tensor | Operation) -> Stage:
        buffers = [t.buffer for t in key.outputs] if isinstance(key, Operation) else [key.buffer]
        for stage in self.stages:
            if any(t.buffer in buffers for t in stage.op.outputs):
                return stage
        name = key.name
        if any(t.buffer in buffers for t in self.placeholders):
            raise ScheduleError(
                f"{name} is a placeholder: there is nothing to schedule; cache_read makes a stage of it"
            )
        raise ScheduleError(f"{name} is no stage of this schedule; it has {', '.join(s.op.name for s in self.stages)}")

    def cache_write(self, tensor: Tensor, scope: str = "local") -> Tensor:
        """Compute `tensor` into a buffer of its own first; the stage of `tensor` becomes the copy out of it.

        The new stage has fresh spatial axes and the original's reduce axes. Returns the new tensor.

        Raises:
            ScheduleError: an unknown scope, the stage has several outputs, or its reduce axes were scheduled already.
        """
        stage = self[tensor]
        op = stage.op
        _check_scope(scope, tensor)
        if len(op.outputs) > 1:
            raise ScheduleError(f"cache_write: {op.name} has {len(op.outputs)} outputs; only single ones can be cached")
        if any(iv not in stage.leaf_iter_vars or iv in stage.kinds or iv in stage.pragmas for iv in op.reduce_axis):
            raise ScheduleError(
                f"cache_write: the reduce axes of {op.name} are scheduled already; call cache_write first"
            )
        fresh = tuple(IterVar(f"{iv.name}.c", iv.dom, iv.kind) for iv in op.axis)
        mapping: dict[Var, Expr] = dict(zip(op.axis, fresh, strict=True))
        body = _map_body(op.body[0], lambda e: substitute(e, mapping))
        cached = ComputeOp(self._name(f"{op.name}.{scope}"), fresh, (body,))
        cached.outputs[0].buffer.scope = scope
        copy = op.rebuilt((Load(cached.outputs[0].buffer, op.axis),))
        stage.op = copy
        stage.leaf_iter_vars = [iv for iv in stage.leaf_iter_vars if iv not in op.reduce_axis]
        self.stages.insert(self.stages.index(stage), Stage(cached, False))
        return cached.outputs[0]

    def cache_read(self, tensor: Tensor, scope: str, readers: Sequence[Tensor | Operation]) -> Tensor:
        """Copy `tensor` into a buffer of its own, which `readers` then read. Returns the new tensor.

        Raises:
            ScheduleError: an unknown scope, a reader does not read the tensor, or there is none.
        """
        _check_scope(scope, tensor)
        stages = [self[reader] for reader in readers]
        for stage in stages:
            if tensor.buffer not in read_buffers(stage.op.body):
                raise ScheduleError(f"cache_read: {stage.op.name} does not read {tensor.name}")
        if not stages:
            raise ScheduleError(f"cache_read({tensor.name}): no readers given")
        axis = tuple(IterVar(f"ax{i}", Range(0, extent), "spatial") for i, extent in enumerate(tensor.shape))
        cached = ComputeOp(self._name(f"{tensor.name}.{scope}"), axis, (Load(tensor.buffer, axis),))
        cached.outputs[0].buffer.scope = scope
        swap = {tensor.buffer: cached.outputs[0].buffer}
        for stage in stages:
            stage.op = stage.op.rebuilt(tuple(_map_body(e, lambda x: replace_buffers(x, swap)) for e in stage.op.body))
        first = min(self.stages.index(stage) for stage in stages)
        self.stages.insert(first, Stage(cached, False))
        return cached.outputs[0]

    def _name(self, base: str) -> str:
        taken = {s.op.name for s in self.stages}
        name, count = base, 0
        while name in taken:
            count += 1
            name = f"{base}_{count}"
        return name


def _check_scope(scope: str, tensor: Tensor) -> None:
    if scope not in SCOPES:
        raise ScheduleError(f"unknown scope {scope!r} for a copy of {tensor.name}; use one of {', '.join(SCOPES)}")


def _map_body(body: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Change the element expression, below the reduction if there is one."""
    if not isinstance(body, Reduce):
        return change(body)
    sources = tuple(map(change, body.sources))
    return Reduce(body.reducer, sources, body.axes, change(body.condition), body.value_index)


def create_schedule(ops: Operation | Tensor | Sequence[Operation | Tensor]) -> TESchedule:
    """The default schedule of everything that `ops` need: each stage a naive nest at the root."""
    several = ops if isinstance(ops, Sequence) else [ops]
    return TESchedule([x.op if isinstance(x, Tensor) else x for x in several])
