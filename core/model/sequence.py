"""From a graph and the kernels of its nodes to a `CallSequence`: the places of all values, and what is called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from pegbox.codegen.call_sequence import CONSTANTS, WORKSPACE, Call, CallSequence, Copy, Place, Step, argument
from pegbox.codegen.compiled import ArgSpec, CompiledProgram
from pegbox.codegen.targets.target import Target
from pegbox.errors import GraphError
from pegbox.expr import dtypes
from pegbox.graph.graph import Graph, Node, Value
from pegbox.model.constants import Constants
from pegbox.model.memory import Arena, Block, plan_memory
from pegbox.model.node_task import Argument
from pegbox.model.selection import Selection


def is_view(node: Node) -> bool:
    """Decide whether a node's output is its first input in another shape, which costs nothing."""
    return node.kind == "Reshape" and len(node.outputs) == 1 and _kind(node.outputs[0]) == _kind(node.inputs[0])


def sequence_of(graph: Graph, selections: Sequence[Selection], target: Target, name: str) -> tuple[CallSequence, Arena]:
    """Plan the memory of a graph, and list the calls of its kernels.

    Inputs and outputs are the caller's arrays. A kernel writes an output of the graph directly, also through views; an
    output that is an input, a constant, or another output is copied.

    A value never takes the place of an input of its own kernel: kernels are compiled for outputs that overlap with no
    input, may compute an element twice, and may read its inputs again then.

    Raises:
        GraphError: a node has no kernel, or a kernel that takes other arrays than the graph's.
    """
    chosen = {selection.node_task.node: selection for selection in selections}
    calls = [_selected(chosen, node) for node in graph.nodes if not is_view(node)]
    return _Planner(graph, calls, target, name).planned()


def _selected(chosen: Mapping[Node, Selection], node: Node) -> Selection:
    if node not in chosen:
        raise GraphError(f"{node.name}: no kernel was selected for {node.kind}")
    return chosen[node]


class _Planner:
    def __init__(self, graph: Graph, calls: Sequence[Selection], target: Target, name: str) -> None:
        self._graph, self._calls, self._target, self._name = graph, calls, target, name
        self._stored = _stored(graph)
        self._constants = Constants()
        self._kernels: dict[tuple[bytes, str], tuple[int, CompiledProgram]] = {}
        self._places: dict[Value, Place] = {}

    def planned(self) -> tuple[CallSequence, Arena]:
        graph = self._graph
        for number, value in enumerate(graph.inputs):
            self._places[value] = argument(number)
        for number, value in enumerate(graph.outputs, len(graph.inputs)):
            if self._stored[value] not in graph.constants:
                self._places.setdefault(self._stored[value], argument(number))
        arena, workspaces = self._arena()
        steps: list[Step] = [self._call(each, at) for each, at in zip(self._calls, workspaces, strict=True)]
        steps += self._copies()
        sequence = CallSequence(
            self._name,
            (*_specs(graph.inputs, is_output=False), *_specs(graph.outputs, is_output=True)),
            tuple(kernel for _, kernel in self._kernels.values()),
            tuple(steps),
            self._constants.bytes(),
            arena.nbytes,
            self._target,
        )  # fmt: skip
        return sequence, arena

    def _arena(self) -> tuple[Arena, list[Place | None]]:
        """Plan the arena; give the values places in it, and return those of the kernels' workspaces."""
        last: dict[Value, int] = {}
        for step, selection in enumerate(self._calls):
            for value in (*selection.node_task.node.inputs, *selection.node_task.node.outputs):
                last[self._stored[value]] = step
        blocks: dict[Value | int, Block] = {}
        for step, selection in enumerate(self._calls):
            if selection.program.workspace_bytes:
                blocks[step] = Block(selection.program.workspace_bytes, step, step)
            for value in selection.node_task.node.outputs:
                if value not in self._places:
                    blocks[value] = Block(_nbytes(value), step, last[value])
        arena = plan_memory([*blocks.values()])
        workspaces: list[Place | None] = [None] * len(self._calls)
        for owner, offset in zip(blocks, arena.offsets, strict=True):
            if isinstance(owner, Value):
                self._places[owner] = Place(WORKSPACE, offset)
            else:
                workspaces[owner] = Place(WORKSPACE, offset)
        return arena, workspaces

    def _call(self, selection: Selection, workspace: Place | None) -> Call:
        program, arguments = selection.program, selection.node_task.arguments
        key = program.object_code, program.name
        number, _ = self._kernels.setdefault(key, (len(self._kernels), program))
        if len(arguments) != len(program.args):
            name = selection.node_task.node.name
            raise GraphError(f"{name}: its kernel takes {len(program.args)} arrays; its task gives {len(arguments)}")
        return Call(number, tuple(map(self._argument, arguments, program.args)), workspace)

    def _argument(self, given: Argument, spec: ArgSpec) -> Place:
        value = self._stored[given.value]
        if value not in self._graph.constants:
            if given.pack is not None or _nbytes(value) != spec.nbytes or value.dtype != spec.dtype:
                raise GraphError(f"a kernel takes {spec}, which cannot be the value {given.value} as it is")
            return self._places[value]
        array = self._graph.constants[value].reshape(given.value.shape)
        packed = array if given.pack is None else given.pack(array)
        if packed.nbytes != spec.nbytes:
            raise GraphError(f"the constant {given.value} has {packed.nbytes} bytes for a kernel that takes {spec}")
        return Place(CONSTANTS, self._constants.add(packed))

    def _copies(self) -> Iterator[Copy]:
        """Yield the copies of outputs that no kernel writes."""
        graph = self._graph
        for number, value in enumerate(graph.outputs, len(graph.inputs)):
            stored = self._stored[value]
            if stored in graph.constants:
                source = Place(CONSTANTS, self._constants.add(graph.constants[stored]))
            else:
                source = self._places[stored]
            if source != argument(number):
                yield Copy(argument(number), source, _nbytes(value))


def _stored(graph: Graph) -> dict[Value, Value]:
    """Map each value to the one whose memory it shares: an input, a constant, or what a kernel writes."""
    stored = {value: value for value in (*graph.inputs, *graph.constants)}
    for node in graph.nodes:
        for value in node.outputs:
            stored[value] = stored[node.inputs[0]] if is_view(node) else value
    return stored


def _specs(values: Sequence[Value], *, is_output: bool) -> Iterator[ArgSpec]:
    for value in values:
        yield ArgSpec(value.name, value.shape, value.dtype, is_output)


def _kind(value: Value) -> tuple[int, str]:
    return prod(value.shape), value.dtype


def _nbytes(value: Value) -> int:
    return prod(value.shape) * dtypes.nbytes(value.dtype)
