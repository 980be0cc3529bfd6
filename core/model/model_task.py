"""`ModelTask`: nodes of models that compute the same thing, and the tasks that implement them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pegbox.codegen.targets.target import Target
from pegbox.graph.graph import Array, Graph, Node, Value
from pegbox.graph.kind import computed_nodes
from pegbox.model.default_schedule import default_schedule
from pegbox.model.node_task import Argument, NodeTask, canonical_tensors, generated_task, implementations_of
from pegbox.task.task import Task
from pegbox.task.workload import tensor_workload


@dataclass(frozen=True, eq=False)
class ModelTask:
    """Nodes that compute the same thing.

    Attributes:
        nodes: the nodes, from one or several graphs.
        constants: the arrays of the first node's graph.
        target: the processor to compile kernels for.
        accuracy: the largest error that kernels may have; None for the default of a task.
    """

    nodes: tuple[Node, ...]
    constants: Mapping[Value, Array]
    target: Target
    accuracy: float | None = None

    @cached_property
    def implementations(self) -> tuple[NodeTask, ...]:
        """The tasks whose kernels compute the first node, the one to use without measurements first."""
        return tuple(implementations_of(self.nodes[0], self.constants, self.target, self.accuracy))

    @cached_property
    def default(self) -> NodeTask:
        """The task of the first node with the default schedule, a fallback if no implementation can be compiled."""
        return generated_task(self.nodes[0], self.target, space=default_schedule)

    def numbered(self, number: int) -> NodeTask:
        """Return an implementation by its number; the default follows the last one."""
        return self.implementations[number] if number < len(self.implementations) else self.default

    @property
    def task(self) -> Task:
        """The task of the first implementation."""
        return self.implementations[0].task

    @property
    def calls(self) -> int:
        """The number of nodes, each of which calls the kernel once."""
        return len(self.nodes)

    @cached_property
    def name(self) -> str:
        """The kinds of the operators, and the shapes of the inputs with more than one dimension."""
        first = self.nodes[0]
        shapes = ["x".join(map(str, value.shape)) for value in first.inputs if sum(n > 1 for n in value.shape) > 1]
        return f"{kinds_of(first)} {', '.join(dict.fromkeys(shapes))}".rstrip()

    def __repr__(self) -> str:
        return f"ModelTask({self.calls} x {self.name})"

    def implementation_of(self, node: Node, number: int) -> NodeTask:
        """Return an implementation of one of the nodes, by its number."""
        first, made = self.nodes[0], self.numbered(number)
        values: dict[Value, Value] = dict(
            zip((*first.inputs, *first.outputs), (*node.inputs, *node.outputs), strict=True)
        )
        arguments = tuple(Argument(values[each.value], each.pack) for each in made.arguments)
        return replace(made, node=node, arguments=arguments)


def kinds_of(node: Node) -> str:
    """Write the kinds of the operators in a node, such as "Conv+Relu"."""
    return "+".join(map(kinds_of, node.parts)) if node.parts else node.kind


def model_tasks(graphs: Sequence[Graph], target: Target) -> list[ModelTask]:
    """Find the tasks of graphs in the order of their nodes, equal ones once."""
    groups: dict[str, list[tuple[Graph, Node]]] = {}
    for graph in graphs:
        for node in computed_nodes(graph):
            groups.setdefault(node_key(node, graph), []).append((graph, node))
    firsts = [(members[0][0], tuple(node for _, node in members)) for members in groups.values()]
    return [ModelTask(nodes, graph.constants, target, graph.accuracy) for graph, nodes in firsts]


def task_keys(graph: Graph) -> Counter[str]:
    """Count the nodes of a graph that share each task."""
    return Counter(node_key(node, graph) for node in computed_nodes(graph))


def node_key(node: Node, graph: Graph) -> str:
    """Write a key shared by nodes that compute the same thing and have constants at the same inputs."""
    constant = [value in graph.constants for value in node.inputs]
    same = [node.inputs.index(value) for value in node.inputs]  # a node may read one input twice
    accuracy = "" if graph.accuracy is None else f"{graph.accuracy} "
    return f"{_workload_name(node)} {constant} {same} {accuracy}{_described(node)}"


def _workload_name(node: Node) -> str:
    answers = node.computation.answers
    if "workload_name" not in answers:
        inputs, outputs = canonical_tensors(node)
        answers["workload_name"] = tensor_workload([*inputs, *outputs]).name
    name: str = answers["workload_name"]
    return name


def _described(node: Node) -> str:
    parts = ", ".join(map(_described, node.parts))
    return f"{node.kind}{sorted((name, str(value)) for name, value in node.attributes.items())}[{parts}]"
