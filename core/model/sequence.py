"""The `CallSequence` of a graph and the kernels of its nodes: the places of all values, and the calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from math import prod

from pegbox.codegen.call_sequence import CONSTANTS, WORKSPACE, AreaOffset, Call, CallSequence, Copy, Step, argument
from pegbox.codegen.compiled import ArgSpec, CompiledProgram
from pegbox.codegen.targets.target import Target
from pegbox.errors import GraphError
from pegbox.expr import dtypes
from pegbox.graph.graph import Array, Graph, Node, Value
from pegbox.graph.kind import computed_nodes, view_offsets
from pegbox.model.constants import Constants
from pegbox.model.memory import Arena, Block, plan_memory, value_bytes
from pegbox.model.node_task import Argument
from pegbox.model.selection import Selection
from pegbox.task.task import Task


def sequence_of(graph: Graph, selections: Sequence[Selection], target: Target, name: str) -> tuple[CallSequence, Arena]:
    """Plan the memory of a graph, and list the calls of its kernels.

    Inputs and outputs are the caller's arrays. A kernel writes an output of the graph directly, also through views; an
    output that is an input, a constant, or another output is copied.

    A value never takes the place of an input of its own kernel: the arguments of kernels are `noalias`, so LLVM may
    move reads behind writes.

    Raises:
        GraphError: a node has no kernel, or its kernel's arrays do not match the graph's.
    """
    chosen = {selection.node_task.node: selection for selection in selections}
    calls = [_selection_of(chosen, node) for node in computed_nodes(graph)]
    return _Planner(graph, calls, target, name).planned()


def _selection_of(chosen: Mapping[Node, Selection], node: Node) -> Selection:
    if node not in chosen:
        raise GraphError(f"{node.name}: no kernel was selected for {node.kind}")
    return chosen[node]


class _Planner:
    def __init__(self, graph: Graph, calls: Sequence[Selection], target: Target, name: str) -> None:
        self._graph, self._calls, self._target, self._name = graph, calls, target, name
        self._stored = _stored(graph)
        self._constants = Constants()
        self._kernels: dict[tuple[bytes, str], tuple[int, CompiledProgram]] = {}
        self._places: dict[Value, AreaOffset] = {}

    def planned(self) -> tuple[CallSequence, Arena]:
        graph = self._graph
        for number, value in enumerate(graph.inputs):
            self._places[value] = argument(number)
        for number, value in enumerate(graph.outputs, len(graph.inputs)):
            whole, _ = self._stored[value]
            if whole not in graph.constants and value_bytes(whole) == value_bytes(value):
                self._places.setdefault(whole, argument(number))
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

    def _arena(self) -> tuple[Arena, list[AreaOffset | None]]:
        """Plan the arena; assign places to the values, and return those of the kernels' workspaces."""
        last: dict[Value, int] = {}
        for step, selection in enumerate(self._calls):
            for value in (*selection.node_task.node.inputs, *selection.node_task.node.outputs):
                last[self._stored[value][0]] = step
        for value in self._graph.outputs:  # outputs that kernels do not write directly are copied at the end
            last[self._stored[value][0]] = len(self._calls)
        blocks: dict[Value | int, Block] = {}
        for step, selection in enumerate(self._calls):
            if selection.program.workspace_bytes:
                blocks[step] = Block(selection.program.workspace_bytes, step, step)
            for value in selection.node_task.node.outputs:
                if value not in self._places:
                    blocks[value] = Block(value_bytes(value), step, last[value])
        arena = plan_memory([*blocks.values()])
        workspaces: list[AreaOffset | None] = [None] * len(self._calls)
        for owner, offset in zip(blocks, arena.offsets, strict=True):
            if isinstance(owner, Value):
                self._places[owner] = AreaOffset(WORKSPACE, offset)
            else:
                workspaces[owner] = AreaOffset(WORKSPACE, offset)
        return arena, workspaces

    def _call(self, selection: Selection, workspace: AreaOffset | None) -> Call:
        program, task, arguments = selection.program, selection.node_task.task, selection.node_task.arguments
        key = program.object_code, program.name
        number, _ = self._kernels.setdefault(key, (len(self._kernels), program))
        if len(arguments) != len(program.args):
            name = selection.node_task.node.name
            raise GraphError(f"{name}: its kernel takes {len(program.args)} arrays; its task gives {len(arguments)}")
        return Call(number, tuple(map(self._argument, repeat(task), arguments, program.args)), workspace)

    def _argument(self, task: Task, given: Argument, spec: ArgSpec) -> AreaOffset:
        value = given.value
        array = self._constant(value)
        if array is None:
            if given.pack is not None or value_bytes(value) != spec.nbytes or value.dtype != spec.dtype:
                raise GraphError(f"a kernel takes {spec}, which does not match the value {value}")
            return self._place(value)
        packed = array if given.pack is None else given.pack(task, array)
        if packed.nbytes != spec.nbytes:
            raise GraphError(f"the constant {value} has {packed.nbytes} bytes for a kernel that takes {spec}")
        return AreaOffset(CONSTANTS, self._constants.add(packed))

    def _place(self, value: Value) -> AreaOffset:
        """Find the place of a value other than a constant."""
        whole, offset = self._stored[value]
        area, start = self._places[whole]
        return AreaOffset(area, start + offset)

    def _constant(self, value: Value) -> Array | None:
        """Return the array of a constant, or of a view of one."""
        whole, offset = self._stored[value]
        if whole not in self._graph.constants:
            return None
        start = offset // dtypes.nbytes(value.dtype)
        return self._graph.constants[whole].reshape(-1)[start : start + prod(value.shape)].reshape(value.shape)

    def _copies(self) -> Iterator[Copy]:
        """Yield the copies for outputs that no kernel writes."""
        graph = self._graph
        for number, value in enumerate(graph.outputs, len(graph.inputs)):
            array = self._constant(value)
            source = self._place(value) if array is None else AreaOffset(CONSTANTS, self._constants.add(array))
            if source != argument(number):
                yield Copy(argument(number), source, value_bytes(value))


def _stored(graph: Graph) -> dict[Value, tuple[Value, int]]:
    """Map each value to the one whose memory holds it, and its offset there in bytes.

    That one is an input, a constant, or the result of a kernel.
    """
    stored = {value: (value, 0) for value in (*graph.inputs, *graph.constants)}
    for node in graph.nodes:
        offsets = view_offsets(node)
        for number, value in enumerate(node.outputs):
            stored[value] = value, 0
            if offsets is not None:
                whole, start = stored[node.inputs[0]]
                stored[value] = whole, start + offsets[number] * dtypes.nbytes(value.dtype)
    return stored


def _specs(values: Sequence[Value], *, is_output: bool) -> Iterator[ArgSpec]:
    for value in values:
        yield ArgSpec(value.name, value.shape, value.dtype, is_output)
