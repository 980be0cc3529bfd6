"""Epilogues: pointwise computations that follow a tensor, each as one operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pegbox.compute.axis import IterVar
from pegbox.compute.graph import placeholders, post_order
from pegbox.compute.tensor import ComputeOp, PlaceholderOp, Tensor
from pegbox.errors import ComputeError
from pegbox.expr.nodes import Buffer, Expr, Load, Var
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import loads, rewrite, substitute, walk

MOST_NODES = 2000
"""The largest expression of an element; a chain that uses each value twice doubles it with each step."""


@dataclass(frozen=True)
class Epilogue:
    """A pointwise computation that follows a tensor: each element depends on the tensor's same element, and on inputs.

    Attributes:
        source: the placeholder for the tensor.
        inputs: the further inputs, in call order.
        op: the computation, as one expression of these.
    """

    source: Tensor
    inputs: tuple[Tensor, ...]
    op: ComputeOp

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The followed tensor, the further inputs, and the output."""
        return self.source, *self.inputs, self.op.outputs[0]

    def over(self, op: ComputeOp, name: str) -> ComputeOp:
        """Return an operation with the axes of another one, not a reduction, that also applies the epilogue."""
        return ComputeOp(name, op.axis, (self._element(op.body[0], op.axis),), op.attrs, op.tag, op.definition)

    def after(self, tensor: Tensor, name: str) -> ComputeOp:
        """Return a separate operation that reads a tensor."""
        axes = self.op.axis
        return ComputeOp(name, axes, (self._element(tensor(*axes), axes),), definition=self.op.definition)

    def _element(self, value: Expr, axes: Sequence[Var]) -> Expr:
        here: Mapping[Var, Expr] = dict(zip(self.op.axis, axes, strict=True))

        def leaf(e: Expr) -> Expr | None:
            if isinstance(e, Load) and e.buffer is self.source.buffer:
                return value
            return here.get(e) if isinstance(e, Var) else None

        return rewrite(self.op.body[0], leaf)


def epilogue_of(source: Tensor, given: Sequence[Tensor]) -> Epilogue:
    """Return a computation from the placeholder `source` as an epilogue.

    Args:
        given: the output, or the further inputs in call order and the output.

    Raises:
        ComputeError: an element of the output needs other elements of the source than its own, or none; there are
            several outputs, or an input is missing.
    """
    output = given[-1] if given else source
    op = output.op
    if not isinstance(op, ComputeOp) or any(isinstance(each.op, ComputeOp) for each in given[:-1]):
        names = ", ".join(each.name for each in given) or "nothing"
        raise ComputeError(f"an epilogue gave {names}; give its output, or [inputs..., output] with one output")
    if output.shape != source.shape:
        raise ComputeError(
            f"the epilogue {output.name} has the shape {list(output.shape)}, but {source.name}, which it follows, "
            f"{list(source.shape)}: {_ONLY}"
        )
    needed = [each for each in placeholders([output]) if each is not source]
    inputs = [each for each in given[:-1] if each is not source] if len(given) > 1 else needed
    if missing := [each.name for each in needed if each not in inputs]:
        raise ComputeError(f"the epilogue {output.name} lacks the input {missing[0]}; give [inputs..., output]")
    element = _inlined(output)
    for load in loads(element):
        if load.buffer is source.buffer and not _is_at(load, op.axis):
            here = ", ".join(axis.name for axis in op.axis)
            raise ComputeError(f"the epilogue {output.name} reads {load} for its element [{here}]: {_ONLY}")
    if not any(load.buffer is source.buffer for load in loads(element)):
        raise ComputeError(f"the epilogue {output.name} does not read {source.name}, which it follows")
    return Epilogue(source, tuple(inputs), ComputeOp(op.name, op.axis, (element,), definition=op.definition))


def _is_at(load: Load, axes: Sequence[IterVar]) -> bool:
    """Decide if a load reads the element at these axes; along an axis of one element, all indices are equal."""
    return all(index is axis or axis.extent == 1 for index, axis in zip(load.indices, axes, strict=True))


_ONLY = "an epilogue is pointwise; give another computation a task of its own"


def _inlined(output: Tensor) -> Expr:
    """Return an element of a tensor as one expression of placeholders."""
    made: dict[Buffer, tuple[Sequence[Var], Expr]] = {}

    def leaf(e: Expr) -> Expr | None:
        if not isinstance(e, Load) or e.buffer not in made:
            return None
        axes, value = made[e.buffer]
        return substitute(value, dict(zip(axes, (rewrite(i, leaf) for i in e.indices), strict=True)))

    for op in post_order([output.op]):
        if isinstance(op, PlaceholderOp):
            continue
        if type(op) is not ComputeOp or op.reduce is not None:
            what = "reduces" if op.reduce_axis else "is a statement or a scan"
            raise ComputeError(f"{op.name} {what}: {_ONLY}")
        for tensor, expr in zip(op.outputs, op.body, strict=True):
            element = simplify(rewrite(expr, leaf), {axis: (0, axis.extent - 1) for axis in op.axis})
            if sum(1 for _ in walk(element)) > MOST_NODES:
                raise ComputeError(
                    f"the epilogue {output.name} has more than {MOST_NODES:,} operations for an element of {op.name}; "
                    "end it earlier"
                )
            made[tensor.buffer] = op.axis, element
    return made[output.buffer][1]
