"""Finals: the best few kernels of each task are timed again, in the model, in turns with its first kernel.

A kernel finds other data in the caches between its neighbours than alone, and the fastest of a hundred timings is
partly luck, so a model of individually chosen kernels can be slower than before the search. So can a variant of the
model: its kernels leave other data in the caches, and calls with little work cost more than alone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pegbox.codegen.compiled import CompiledProgram
from pegbox.codegen.runtime.machine import compile_program
from pegbox.codegen.targets.host import describe_host
from pegbox.errors import REFUSED
from pegbox.expr import dtypes
from pegbox.graph.graph import Array, Graph, Node
from pegbox.graph.kind import computed_nodes
from pegbox.measure.result import Ok
from pegbox.measure.trial.bench import make_inputs
from pegbox.model.model_task import ModelTask
from pegbox.model.module import Module
from pegbox.model.selection import Selection, runs_here
from pegbox.records.history import best, fastest_record, latest, to_config
from pegbox.records.record import Record
from pegbox.space import Config

FINALISTS = 3
"""The largest number of a task's kernels that challenge its first ones."""
_NEAR = 0.25
"""The share by which a challenger may be slower than the best, both timed alone."""
_SLOWEST = 2.0
"""The largest ratio to the best seconds with which another implementation's first configuration takes part."""
_LEAST = 0.005
"""The share of the total time below which a task has no challengers."""
LEAD = 0.01
"""The share by which a challenger must be ahead."""
_SECONDS = 2.0
"""The approximate seconds of all turns of a module."""
_ROUNDS = 7, 50
"""The smallest and the largest number of turns."""


@dataclass(frozen=True)
class Finalist:
    """A measured configuration of one of a task's implementations.

    Attributes:
        number: the implementation's number.
        record: its latest measurement.
    """

    number: int
    record: Record

    @property
    def cost(self) -> float:
        """The seconds of the kernel alone."""
        return self.record.cost

    def chosen(self, timestamp: float) -> Record:
        """Make the record of the winner of a task, at a time."""
        result = replace(self.record.result, timestamp=timestamp)
        return replace(self.record, remeasured=True, in_model=True, result=result)


def finalists_of_tasks(
    held: Sequence[Sequence[Sequence[Record]]], calls: Sequence[int], seconds: Sequence[float]
) -> dict[int, list[Finalist]]:
    """List the finalists of each called task by its number: only the best of a task that takes little time.

    Args:
        held: for each task, the records of each implementation.
        calls, seconds: the number of calls of each task, and the least seconds of one.
    """
    spent = [count * each if count else 0.0 for count, each in zip(calls, seconds, strict=True)]
    return {
        number: finalists_of(records) if spent[number] >= _LEAST * sum(spent) else _best_of(records)
        for number, records in enumerate(held)
        if calls[number]
    }


def _best_of(held: Sequence[Sequence[Record]]) -> list[Finalist]:
    found = [Finalist(number, winner) for number, records in enumerate(held) if (winner := best(records)) is not None]
    winner = fastest_record(each.record for each in found)
    return [each for each in found if each.record is winner]


def finalists_of(held: Sequence[Sequence[Record]]) -> list[Finalist]:
    """List the first configurations of a task's implementations, then others by rising seconds.

    The very first is that of the first implementation that ran. The others are the best, and the remeasured ones. A
    slow time alone does not exclude a first configuration: in the model, it may meet warmer caches and be twice as
    fast.

    Args:
        held: the records of each implementation.
    """
    firsts, others = [], []
    for number, records in enumerate(held):
        ran = [record for record in latest(records) if isinstance(record.result, Ok) and not record.result.partial]
        winner = best(records)
        firsts += [Finalist(number, record) for record in ran[:1]]
        others += [Finalist(number, record) for record in ran[1:] if record.remeasured or record is winner]
    least = min((each.cost for each in (*firsts, *others)), default=0.0)
    near = [each for each in sorted(others, key=lambda each: each.cost) if each.cost <= (1 + _NEAR) * least]
    rest = [each for each in firsts[1:] if each.cost <= _SLOWEST * least]
    return [*firsts[:1], *rest, *near[:FINALISTS]]


class Finals:
    """Modules that run in turns; each kernel is compiled once.

    Args:
        tasks: the tasks of all graphs.
    """

    def __init__(self, tasks: Sequence[ModelTask]) -> None:
        self._tasks = tasks
        self._kernels: dict[tuple[int, int, str], _Kernel | None] = {}

    def fastest_kernels(
        self, graphs: Sequence[Graph], finalists: Mapping[int, Sequence[Finalist]]
    ) -> dict[int, Finalist]:
        """Choose the finalist of each task whose calls in the graphs take the least time.

        Args:
            finalists: the finalists of each task that the graphs call, by the task's number. The first ones together
                make a module, whose kernels the others challenge one after the other. The first ones win if the winners
                together are not faster.

        Returns:
            The winner of each task; empty if this processor cannot run them all, or another one measured them.
        """
        here = describe_host()
        if any(each.record.host != here for listed in finalists.values() for each in listed):
            return {}
        found = {number: self._kernels_of(number, listed) for number, listed in finalists.items()}
        kernels = [kernel for each in found.values() for kernel in each]
        if not all(found.values()) or not all(runs_here(kernel.selection.program) for kernel in kernels):
            return {}
        first = {number: kernels[0] for number, kernels in found.items()}
        winners = dict(first)
        for place in range(1, max(map(len, found.values()), default=0)):
            challengers = {n: kernels[place] if place < len(kernels) else winners[n] for n, kernels in found.items()}
            spent, others = self._nanoseconds_of_tasks(graphs, winners, challengers)
            for number in winners:
                if others[number] < (1 - LEAD) * spent[number]:
                    winners[number] = challengers[number]
        if winners != first:  # the luck of many small kernels adds up
            before, after = self._nanoseconds_of_tasks(graphs, first, winners)
            winners = winners if after.total() < before.total() else first
        return {number: winner.finalist for number, winner in winners.items()}

    def seconds_of_graphs(self, graphs: Sequence[Graph], winners: Mapping[int, Finalist]) -> list[float]:
        """Time variants of a model in turns; return the seconds of a call of each.

        Args:
            winners: the kernels of their tasks, as returned by `fastest_kernels`.
        """
        kernels = {number: self._kernels_of(number, [winner])[0] for number, winner in winners.items()}
        times = _in_turns([self._module(graph, kernels) for graph in graphs])
        return [1e-9 * float(np.median([sum(each) for each in turns])) for turns in times]

    def _kernels_of(self, number: int, finalists: Sequence[Finalist]) -> list[_Kernel]:
        """Compile the kernels of a task's finalists, without those that are now refused."""
        keys = [(number, each.number, json.dumps(each.record.config, sort_keys=True)) for each in finalists]
        missing = {key: each for key, each in zip(keys, finalists, strict=True) if key not in self._kernels}
        made = _compile(self._tasks[number], list(missing.values()))
        self._kernels |= dict(zip(missing, made, strict=True))
        found = [self._kernels[key] for key in keys]
        return [
            replace(kernel, finalist=each) for kernel, each in zip(found, finalists, strict=True) if kernel is not None
        ]

    def _nanoseconds_of_tasks(self, graphs: Sequence[Graph], *kernels: Mapping[int, _Kernel]) -> list[Counter[int]]:
        """Time modules of the graphs in turns; return the nanoseconds of each task's calls, for each set of kernels."""
        spent: list[Counter[int]] = [Counter() for _ in kernels]
        for graph in graphs:
            times = _in_turns([self._module(graph, each) for each in kernels])
            for counter, turns in zip(spent, times, strict=True):
                # copies of outputs follow the kernels
                for number, nanoseconds in zip(self._numbers(graph), np.median(turns, axis=0), strict=False):
                    counter[number] += nanoseconds
        return spent

    def _numbers(self, graph: Graph) -> list[int]:
        """List the task of each node of a graph."""
        return [self._places[id(node)] for node in computed_nodes(graph)]

    @cached_property
    def _places(self) -> dict[int, int]:
        return {id(node): number for number, task in enumerate(self._tasks) for node in task.nodes}

    def _module(self, graph: Graph, kernels: Mapping[int, _Kernel]) -> Module:
        def selection(node: Node, number: int) -> Selection:
            finalist, chosen = kernels[number].finalist, kernels[number].selection
            return replace(chosen, node_task=self._tasks[number].implementation_of(node, finalist.number))

        return Module(graph, list(map(selection, computed_nodes(graph), self._numbers(graph))))


@dataclass(frozen=True)
class _Kernel:
    """The compiled kernel of a finalist."""

    finalist: Finalist
    selection: Selection


def _compile(task: ModelTask, finalists: Sequence[Finalist]) -> list[_Kernel | None]:
    """Compile the kernels of finalists; None for each that is now refused."""
    found: list[tuple[Config, Future[CompiledProgram]] | None] = []
    with ThreadPoolExecutor(1, "pegbox-llvm") as compiler:  # LLVM compiles while the next one is lowered here
        for each in finalists:
            made = task.implementations[each.number].task
            found.append(None)
            with suppress(*REFUSED):
                config = to_config(each.record, made)
                found[-1] = config, compiler.submit(compile_program, made.lower(config))
    kernels: list[_Kernel | None] = []
    for finalist, lowered in zip(finalists, found, strict=True):
        kernels.append(None)
        with suppress(*REFUSED):
            if lowered is not None:
                config, program = lowered
                made_for = task.implementations[finalist.number]
                kernels[-1] = _Kernel(finalist, Selection(made_for, config, "tuned", program.result()))
    return kernels


def _in_turns(modules: Sequence[Module]) -> list[NDArray[np.int64]]:
    """Time modules of one model in turns; return the nanoseconds of each one's kernels in each round."""
    inputs = _inputs(modules[0])
    first = [sum(module.kernel_times(inputs)) for module in modules]
    rounds = int(np.clip(_SECONDS / (1e-9 * max(first)), *_ROUNDS))
    turns = [[module.kernel_times(inputs) for module in modules] for _ in range(rounds)]
    return [np.array(each) for each in zip(*turns, strict=True)]


def _inputs(module: Module) -> list[Array]:
    """Make inputs of a module; integers, which may be indices, are zeros."""
    zeros = {
        spec.name: np.zeros(spec.shape, dtypes.numpy_dtype(spec.dtype))
        for spec in module.inputs
        if dtypes.is_int(spec.dtype)
    }
    return make_inputs(module.inputs, seed=0, given=zeros)
