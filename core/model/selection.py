"""The kernels of a model's nodes: implementations, configurations, and compiled programs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from pegbox.codegen.compiled import CompiledProgram
from pegbox.codegen.program import Program
from pegbox.codegen.runtime.kernel import load
from pegbox.codegen.runtime.machine import compile_program
from pegbox.codegen.targets.features import check_processor
from pegbox.codegen.targets.host import architecture
from pegbox.codegen.targets.target import Target
from pegbox.errors import REFUSED, CompileError, PegboxError, SpaceError, TargetError
from pegbox.graph.graph import Graph, Node
from pegbox.graph.kind import computed_nodes
from pegbox.measure.trial.bench import make_inputs
from pegbox.measure.trial.cache_flush import CacheFlush
from pegbox.model.latency import preferred
from pegbox.model.memory import bytes_between_calls
from pegbox.model.model_task import ModelTask, model_tasks
from pegbox.model.node_task import NodeTask
from pegbox.model.prediction_pool import Predicted, PredictionPool
from pegbox.operators.call_key import CallKey
from pegbox.operators.choice import fastest, made_of_stored, times_in_turns
from pegbox.operators.implementation import Origin
from pegbox.operators.kept import KeptProgram, keep_program, kept_program
from pegbox.records.history import History, fastest_record
from pegbox.records.in_effect import in_effect
from pegbox.records.record import Record, plain
from pegbox.search.models.prediction import PREDICTED, TRIED, lowered_predictions
from pegbox.space import Config
from pegbox.store import TuningStore
from pegbox.task.task import Task
from pegbox.task.workload import GeneratedTemplate


@dataclass(frozen=True, eq=False)
class Selection:
    """The kernel of a node.

    Attributes:
        node_task: the implementation.
        config, origin: its configuration, "tuned" or "predicted, not tuned".
        program: its machine code.
    """

    node_task: NodeTask
    config: Config
    origin: Origin
    program: CompiledProgram


@dataclass(frozen=True)
class Choice:
    """An implementation of a task, by its number, with a measured configuration and its record."""

    number: int
    config: Config
    record: Record

    @property
    def cost(self) -> float:
        """The seconds of a call."""
        return self.record.cost


@dataclass(frozen=True)
class Knowledge:
    """The sources of measured configurations: records, then a store. The first source that knows a task decides."""

    histories: tuple[History, ...] = ()
    store: TuningStore | None = None

    @classmethod
    def of(cls, history: History | None, store: TuningStore | None) -> Knowledge:
        """Make the knowledge of given records, followed by those that `apply_history_best` put in effect."""
        return cls(tuple(each for each in (history, in_effect.get()) if each is not None), store)

    def best(self, task: ModelTask) -> Choice | None:
        """Find the fastest measured configuration among the implementations of a task; None if there is none."""
        for source in (*self.histories, self.store):
            found = [
                choice
                for number, each in enumerate(task.implementations)
                if source is not None and (choice := _measured(source, number, each.task)) is not None
            ]
            if found:
                winner = fastest_record([choice.record for choice in found])
                return next(choice for choice in found if choice.record is winner)
        return None

    def best_config(self, task: Task) -> Config | None:
        """Find the fastest measured configuration of one implementation."""
        found = (_measured(source, 0, task) for source in (*self.histories, self.store) if source is not None)
        return next((choice.config for choice in found if choice is not None), None)


def _measured(source: History | TuningStore, number: int, task: Task) -> Choice | None:
    history = source
    if isinstance(source, TuningStore):
        held = source.best(task)
        history = History([] if held is None else [held], source=f"the store {str(source.folder)!r}")
    assert isinstance(history, History)
    record = history.best_record(task)
    config = None if record is None else history.best_config(task)
    return None if record is None or config is None else Choice(number, config, record)


def select(
    graph: Graph, target: Target, *, store: TuningStore | None = None, history: History | None = None
) -> list[Selection]:
    """Choose and compile the kernels of a graph's nodes; views have none.

    Args:
        store: the best records of earlier searches, and compiled kernels of earlier processes.
        history: records that take precedence.

    Raises:
        CompileError: none of the configurations of a node can be compiled.
        RecordError: the records are from other spaces.
    """
    return select_kernels(graph, model_tasks([graph], target), Knowledge.of(history, store))


def select_kernels(graph: Graph, tasks: Sequence[ModelTask], knowledge: Knowledge) -> list[Selection]:
    """Choose and compile the kernels of a graph's nodes, given its tasks."""
    return select_fastest([graph], tasks, knowledge)[1]


def select_fastest(
    graphs: Sequence[Graph], tasks: Sequence[ModelTask], knowledge: Knowledge
) -> tuple[Graph, list[Selection]]:
    """Choose and compile the kernels of a graph's nodes, and the variant of the graph with the fastest kernels.

    Only kernels of tasks that the variants do not share are timed. The first variant is chosen if this processor cannot
    run them; a variant with all kernels in the store needs no others.

    Args:
        graphs: the graph, or several variants of it.
        tasks: their tasks.
    """
    places = {id(node): number for number, task in enumerate(tasks) for node in task.nodes}
    calls = [Counter(places[id(node)] for node in computed_nodes(graph)) for graph in graphs]
    flush = CacheFlush(max(map(bytes_between_calls, graphs)))
    used = [number for number in range(len(tasks)) if any(number in each for each in calls)]
    # LLVM runs in another process: while it compiles a kernel, this one predicts the next.
    with PredictionPool(len(used)) as predictions, ThreadPoolExecutor(1, "pegbox-llvm") as compiler:
        known: dict[int, _Compilation] = {}
        for number in used:
            known[number] = _Compilation(tasks[number], knowledge, predictions, compiler, flush)
            if len(graphs) == 1:  # all kernels are needed
                known[number].start()
        chosen = next((n for n, each in enumerate(calls) if all(known[number].is_kept for number in each)), None)
        wanted = list(dict.fromkeys(number for each in calls for number in each)) if chosen is None else calls[chosen]
        for number in wanted:
            known[number].start()
        kernels = {number: known[number].kernel() for number in wanted}
    if chosen is None:
        chosen = _fastest_variant(calls, tasks, kernels, flush)
    for number in calls[chosen]:
        known[number].keep()

    def selection(node: Node) -> Selection:
        task, kernel = tasks[places[id(node)]], kernels[places[id(node)]]
        return Selection(task.implementation_of(node, kernel.number), kernel.config, kernel.origin, kernel.program)

    return graphs[chosen], [selection(node) for node in computed_nodes(graphs[chosen])]


def _fastest_variant(
    calls: Sequence[Counter[int]], tasks: Sequence[ModelTask], kernels: Mapping[int, _Kernel], flush: CacheFlush
) -> int:
    """Time the kernels that variants do not share, and return the number of the variant with the smallest sum."""
    differing = [number for number in kernels if len({each[number] for each in calls}) > 1]
    if not differing or not all(runs_here(kernels[number].program) for number in differing):
        return 0
    made = {number: tasks[number].numbered(kernels[number].number) for number in differing}
    inputs = [make_inputs(each.task.arguments(), seed=0) for each in made.values()]
    fresh = [each.fresh_inputs(tasks[number].constants) for number, each in made.items()]
    times = times_in_turns([load(kernels[number].program) for number in differing], inputs, flush=flush, fresh=fresh)
    spent = dict(zip(differing, times, strict=True))
    return preferred([sum(count * spent.get(number, 0.0) for number, count in each.items()) for each in calls])


@dataclass(frozen=True)
class _Kernel:
    """The compiled kernel of a task."""

    number: int
    config: Config
    origin: Origin
    program: CompiledProgram


class _Compilation:
    """The compilation of a task's kernel, which runs in the background once started.

    Attributes:
        is_kept: True if an earlier process has put the kernel into the store.
    """

    def __init__(
        self,
        task: ModelTask,
        knowledge: Knowledge,
        predictions: PredictionPool,
        compiler: ThreadPoolExecutor,
        flush: CacheFlush,
    ) -> None:
        self._task, self._store, self._compiler = task, knowledge.store, compiler
        self._predictions, self._flush = predictions, flush
        self._predicted_apart: dict[int, Future[Predicted | None]] = {}
        self._measured = knowledge.best(task)
        self._found = self._kept()
        self._refused: PegboxError | None = None
        self._candidates: Iterator[tuple[int, Config, Program | None]] = iter(())
        self._running: tuple[int, Config, Future[CompiledProgram]] | None = None
        self._is_started = False
        self.is_kept = self._found is not None

    def start(self) -> None:
        """Begin to compile, unless the kernel is in the store or compilation has begun before."""
        if self._found is None and not self._is_started:
            self._is_started = True
            self._candidates = self._configurations()
            if not self._start_apart():
                self._start_next()

    def kernel(self) -> _Kernel:
        """Wait for the kernel, and compile another configuration if one is refused.

        Raises:
            CompileError: none can be compiled.
        """
        if self._found is None and self._predicted_apart:
            first = self._result_apart(min(self._predicted_apart))
            if first is None:
                self._start_next()
            else:
                self._found = self._fastest(first)
        while self._found is None:
            if self._running is None:
                message = f"no kernel for {self._task.name} can be compiled: tried {self._task.task!r}"
                raise CompileError(message) from self._refused
            number, config, compiled = self._running
            try:
                self._found = _Kernel(number, config, self._origin(config), compiled.result())
            except REFUSED as error:
                self._refuse(config, error)
                self._start_next()
            else:
                self._found = self._fastest(self._found)
        return self._found

    def keep(self) -> None:
        """Put a compiled kernel into the store."""
        if self._store is not None and self._found is not None and not self.is_kept:
            kernel, task = self._found, self._task.numbered(self._found.number).task
            key = _call_key(task, self._store)
            keep_program(key, kernel.program, task, kernel.config, tuned=kernel.origin == "tuned", store=self._store)

    def _start_apart(self) -> bool:
        """Let other processes predict the first kernels; return False if that is impossible for the very first."""
        if self._measured is not None or not self._predictions.size:
            return False
        tasks = [each.task for each in self._task.implementations]
        templates = _first_of_each_template(tasks)
        for number in templates if 0 in templates else [0]:
            if (made := self._predictions.submit(tasks[number])) is not None:
                self._predicted_apart[number] = made
        return 0 in self._predicted_apart

    def _result_apart(self, number: int) -> _Kernel | None:
        made = self._predicted_apart[number].result() if number in self._predicted_apart else None
        return None if made is None else _Kernel(number, made[0], PREDICTED, made[1])

    def _fastest(self, first: _Kernel) -> _Kernel:
        """Time the predicted kernel against those of other templates: predictions do not compare implementations."""
        tasks = [each.task for each in self._task.implementations]
        templates = _first_of_each_template(tasks)
        if first.origin != PREDICTED or first.number not in templates or len(templates) < 2:
            return first
        if not runs_here(first.program):
            return first
        others = (self._predicted(number) for number in templates if number != first.number)
        found = [first, *(kernel for kernel in others if kernel is not None)]
        made = [self._task.implementations[each.number] for each in found]
        inputs = [make_inputs(each.task.arguments(), seed=0) for each in made]
        fresh = [each.fresh_inputs(self._task.constants) for each in made]
        return found[fastest([load(each.program) for each in found], inputs, flush=self._flush, fresh=fresh)]

    def _predicted(self, number: int) -> _Kernel | None:
        """Compile the best predicted configuration of an implementation; None if none can be compiled."""
        if (made := self._result_apart(number)) is not None:
            return made
        task = self._task.implementations[number].task
        try:
            for config, program in islice(lowered_predictions(task), TRIED):
                with suppress(*REFUSED):
                    return _Kernel(number, config, PREDICTED, compile_program(program or task.lower(config)))
        except SpaceError:  # of a template without a valid configuration
            pass
        return None

    def _start_next(self) -> None:
        """Let LLVM begin with the next configuration that can be lowered."""
        self._running = None
        for number, config, lowered in self._candidates:
            task = self._task.numbered(number).task
            try:
                program = lowered or task.lower(config)
            except REFUSED as error:
                self._refuse(config, error)
                continue
            self._running = number, config, self._compiler.submit(compile_program, program)
            return

    def _configurations(self) -> Iterator[tuple[int, Config, Program | None]]:
        """Yield the measured configuration, predicted ones of the implementations in their order, then the default."""
        if self._measured is not None:
            yield self._measured.number, self._measured.config, None
        for number, each in enumerate(self._task.implementations):
            try:
                for config, program in islice(lowered_predictions(each.task), TRIED):
                    yield number, config, program
            except SpaceError as error:  # of a template without a valid configuration
                self._refused = self._refused or error
        yield len(self._task.implementations), self._task.default.task.space.get(0), None

    def _refuse(self, config: Config, error: PegboxError) -> None:
        self._refused = self._refused or error
        if self._measured is not None and config is self._measured.config:

            def refused() -> None:
                raise error

            made_of_stored(self._task.implementations[self._measured.number].task, config, refused)

    def _origin(self, config: Config) -> Origin:
        return "tuned" if self._measured is not None and config is self._measured.config else PREDICTED

    def _kept(self) -> _Kernel | None:
        """Find the code of the chosen configuration, or of one that an earlier process predicted, in the store."""
        numbers = range(len(self._task.implementations)) if self._measured is None else [self._measured.number]
        return next((found for number in numbers if (found := self._kept_numbered(number)) is not None), None)

    def _kept_numbered(self, number: int) -> _Kernel | None:
        task = self._task.implementations[number].task
        kept = self._kept_of(task)
        if kept is None or (self._measured and plain(self._measured.config.to_json()) != kept.config):
            return None
        try:
            config = task.space.from_json(kept.config) if self._measured is None else self._measured.config
        except SpaceError:
            return None
        return _Kernel(number, config, self._origin(config), kept.program)

    def _kept_of(self, task: Task) -> KeptProgram | None:
        return None if self._store is None else kept_program(_call_key(task, self._store), self._store)


def _first_of_each_template(tasks: Sequence[Task]) -> list[int]:
    """Return the number of the first task of each template; further ones differ by an argument, such as a tile size."""
    numbers: dict[str, int] = {}
    for number, task in enumerate(tasks):
        if not isinstance(task.template, GeneratedTemplate):
            numbers.setdefault(task.base.name, number)
    return list(numbers.values())


def runs_here(program: CompiledProgram) -> bool:
    """Decide if this processor can run a kernel."""
    target = program.target
    with suppress(TargetError):
        check_processor(target, program.name)
        return target.architecture == architecture()
    return False


def _call_key(task: Task, store: TuningStore) -> CallKey:
    """Return the key by which other processes find the kernel of a task, distinct from those of operators' calls."""
    return CallKey(store.key_of(task, ""), "{}", (), task.target.key, "")


def total_cost(tasks: Sequence[ModelTask], knowledge: Knowledge) -> float:
    """Sum up the best measured seconds of all calls; infinity if a task was not measured."""
    total = 0.0
    for task in tasks:
        choice = knowledge.best(task)
        if choice is None:
            return math.inf
        total += task.calls * choice.cost
    return total
