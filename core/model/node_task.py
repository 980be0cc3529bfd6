"""`NodeTask`: a task whose kernels compute a node of a graph, and the implementations of nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from pegbox.codegen.targets.target import Target
from pegbox.compute.inlining import inlined
from pegbox.compute.ops import placeholder
from pegbox.compute.tensor import Tensor
from pegbox.errors import REFUSED, PegboxError, TemplateError
from pegbox.graph.graph import Array, Node, Value
from pegbox.hooks import registry
from pegbox.model.default_schedule import default_schedule
from pegbox.task.epilogue import EpilogueTemplate
from pegbox.task.implementations import others_of
from pegbox.task.task import Task, create_task
from pegbox.task.workload import SpaceGenerator

SKETCH = "sketch"
"""The name of the implementation made from a node's whole computation, not from its first operator."""


@dataclass(frozen=True)
class Argument:
    """An argument of a kernel.

    Attributes:
        value: the value of the graph that it comes from.
        pack: the function that packs a constant once for the kernels of a task; None for an unpacked array.
    """

    value: Value
    pack: Callable[[Task, Array], Array] | None = None


@dataclass(frozen=True, eq=False)
class NodeTask:
    """A task whose kernels compute a node.

    Attributes:
        node: the node.
        task: the task.
        arguments: the arguments of its kernels, in order.
    """

    node: Node
    task: Task
    arguments: tuple[Argument, ...]

    def fresh_inputs(self, constants: Collection[Value]) -> tuple[str, ...]:
        """List the inputs of its kernels that an earlier kernel or the caller has written: all except constants."""
        arguments = zip(self.task.arguments(), self.arguments, strict=True)
        return tuple(spec.name for spec, each in arguments if not spec.is_output and each.value not in constants)


def implementations_of(
    node: Node, constants: Mapping[Value, Array], target: Target, accuracy: float | None = None
) -> list[NodeTask]:
    """List the tasks that compute a node, one of each implementation that fits; the sketch generator's is the last.

    These are the tasks that plugins return for the node, each followed by the further implementations of its operator.

    A computation that the generator refuses, for example because it has too many sketches, gets the default schedule.

    Args:
        accuracy: the largest error of a kernel; None for the default. Algorithms with larger errors are left out.

    Raises:
        PluginError: an implementation cannot be imported.
    """
    named = [registry.get("node_task", name) for name in registry.names("node_task")]
    made_of_node = (implement(node, constants, target) for implement in named)
    given = [_accurate(made, accuracy) for made in made_of_node if made is not None]
    found = [each for made in given for each in (made, *_others(made))]
    try:
        return [*found, _accurate(generated_task(node, target), accuracy)]
    except (TemplateError, *REFUSED):
        return found or [_accurate(generated_task(node, target, space=default_schedule), accuracy)]


def _accurate(made: NodeTask, accuracy: float | None) -> NodeTask:
    return replace(made, task=made.task.with_accuracy(accuracy))


def _others(made: NodeTask) -> Iterator[NodeTask]:
    """Yield the node task of each further implementation of an operator, with the same epilogue.

    Generators are left out, because plugins return tasks with their spaces for whole nodes.
    """
    template, base = made.task.template, made.task.base
    for task in others_of(base, but=registry.names("space_generator")).values():
        if not isinstance(template, EpilogueTemplate):
            yield replace(made, task=task)
            continue
        with suppress(PegboxError):  # the epilogue does not fit
            yield replace(made, task=task.over(template.over(task.template)))


def generated_task(node: Node, target: Target, *, space: str | SpaceGenerator = SKETCH) -> NodeTask:
    """Make the task of a node with a space generated from its computation."""
    inputs, outputs = canonical_tensors(node)
    task = create_task([*inputs, *outputs], space=space, target=target)
    return NodeTask(node, task, tuple(Argument(value) for value in (*node.inputs, *node.outputs)))


def canonical_tensors(node: Node) -> tuple[list[Tensor], list[Tensor]]:
    """Make the inputs and outputs of a node's computation, without the names of its model."""
    inputs = [placeholder(value.shape, value.dtype, f"p{number}") for number, value in enumerate(node.inputs)]
    return inputs, inlined(node.compute(*inputs))
