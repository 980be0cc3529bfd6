"""Finals: which of a task's best kernels is the fastest in the model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tuned_models import TARGET, Machine, layers

import pegbox as pb
from pegbox import te
from pegbox.codegen.runtime.machine import compile_program
from pegbox.errors import CompileError
from pegbox.hooks import registry
from pegbox.measure import Ok
from pegbox.model import Argument, NodeTask, finals
from pegbox.model.finals import Finalist, Finals, finalists_of, finalists_of_tasks
from pegbox.model.model_task import ModelTask, model_tasks
from pegbox.records import Journal, Record
from pegbox.records.history import best
from pegbox.search import problem
from pegbox.space import Config
from pegbox.store import TuningStore

QUICK: dict[str, Any] = {"tuner": "random", "target": TARGET, "progress": False, "store": None}


@pb.template("test_repeated_product")
def repeated(cfg: pb.TemplateConfig, M: int, K: int, N: int) -> tuple[te.TESchedule, list[te.Tensor]]:
    """C = A B, as the mean of many equal products."""
    cfg.define_knob("times", [2000, 1])
    times = cfg["times"].val
    A, B = te.placeholder((M, K), name="A"), te.placeholder((K, N), name="B")
    r, k = te.reduce_axis((0, times), name="r"), te.reduce_axis((0, K), name="k")
    C = te.compute((M, N), lambda i, j: te.sum(A[i, k] * B[k, j] * (1.0 / times), axis=[r, k]), name="C")
    return te.create_schedule(C.op), [A, B, C]


@pytest.fixture
def products() -> Iterator[tuple[ModelTask, int, Config, Config]]:
    """The task of equal products, the number of the repeated implementation, and its slow and fast configurations."""

    def implement(node: Any, constants: Any, target: Any) -> NodeTask:
        a, b = node.inputs
        task = pb.create_task(repeated, (math.prod(a.shape[:-1]), *b.shape), target=target)
        return NodeTask(node, task, tuple(map(Argument, (a, b, *node.outputs))))

    registry.register("node_task", "repeated", implement, owner="tests")
    model = layers()
    (task, _) = model_tasks([model.optimized], pb.Target(TARGET))
    names = [each.task.name for each in task.implementations]
    number = names.index("test_repeated_product")
    slow, fast = (task.implementations[number].task.space.get(place) for place in (0, 1))
    yield task, number, slow, fast
    registry.unregister("node_task", "repeated", owner="tests")


def record(task: ModelTask, number: int, config: Config, seconds: float, **more: Any) -> Record:
    return Record.of(task.implementations[number].task, config, Ok((seconds,), 0.0, 1.0), **more)


def test_a_kernel_that_only_looked_fast_loses_in_the_model(products: tuple[ModelTask, int, Config, Config]) -> None:
    task, number, slow, fast = products
    model = layers()
    tasks = model_tasks([model.optimized], pb.Target(TARGET))
    lucky, other = (Finalist(number, record(task, number, config, 1e-6)) for config in (slow, fast))
    head = [Finalist(0, record(tasks[1], 0, tasks[1].implementations[0].task.space.get(0), 1e-6))]
    for listed in ([lucky, other], [other, lucky]):
        winners = Finals(tasks).fastest_kernels([model.optimized], {0: listed, 1: head})
        assert winners == {0: other, 1: head[0]}


def test_kernels_that_another_machine_measured_are_not_timed_here(
    products: tuple[ModelTask, int, Config, Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, number, slow, fast = products
    monkeypatch.setattr(Finals, "_nanoseconds_of_tasks", lambda *_: pytest.fail("timed"))
    here, there = (Finalist(number, record(task, number, config, 1e-6)) for config in (slow, fast))
    there = replace(there, record=replace(there.record, host="another machine"))
    model = layers()
    assert Finals([task]).fastest_kernels([model.optimized], {0: [here, there]}) == {}


def test_graphs_are_timed_as_a_whole_in_turns(products: tuple[ModelTask, int, Config, Config]) -> None:
    task, number, slow, _ = products
    graphs = [layers(count).optimized for count in (20, 2)]
    tasks = model_tasks(graphs, pb.Target(TARGET))
    product = Finalist(number, record(task, number, slow, 1e-6))
    head = Finalist(0, record(tasks[1], 0, tasks[1].implementations[0].task.space.get(0), 1e-6))
    long, short = Finals(tasks).seconds_of_graphs(graphs, {0: product, 1: head})
    assert long > 2 * short > 0


@pytest.mark.parametrize("refused", [(), (1,), (0,), (0, 1)])
def test_a_finalist_that_is_refused_now_is_left_out(
    products: tuple[ModelTask, int, Config, Config], refused: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, number, slow, fast = products
    numbers = count()

    def compiled(program: Any) -> Any:
        if next(numbers) in refused:
            raise CompileError("refused")
        return compile_program(program)

    monkeypatch.setattr(finals, "compile_program", compiled)
    listed = [Finalist(number, record(task, number, config, 1e-6)) for config in (slow, fast)]
    made = Finals([task])
    for _ in range(2):  # the second time nothing is compiled
        found = [kernel.finalist for kernel in made._kernels_of(0, listed)]
        assert found == [each for place, each in enumerate(listed) if place not in refused]


def test_finalists_are_the_first_ones_the_best_and_those_measured_again(
    products: tuple[ModelTask, int, Config, Config],
) -> None:
    task, number, *_ = products
    space = task.implementations[0].task.space
    costs = [5e-6, 4e-6, 4.5e-6, 9e-6, 4.2e-6]
    held = [record(task, 0, space.get(place), seconds) for place, seconds in enumerate(costs)]
    again = [
        record(task, 0, space.get(2), 4.4e-6, remeasured=True),
        record(task, 0, space.get(3), 8e-6, remeasured=True),
    ]
    other = record(task, number, task.implementations[number].task.space.get(1), 4.6e-6)
    found = finalists_of([[*held, *again], [other]])
    # 8e-6 is too far behind, and 4.2e-6 has lost to those that were measured again.
    assert [(each.number, each.record.cost) for each in found] == [(0, 5e-6), (1, 4.6e-6), (0, 4.4e-6)]
    slow = replace(other, result=Ok((1e-5,), 0.0, 1.0))
    assert [each.number for each in finalists_of([[*held, *again], [slow]])] == [0, 0]
    assert finalists_of([[], []]) == []


def test_tasks_of_little_time_have_no_challengers(products: tuple[ModelTask, int, Config, Config]) -> None:
    task, number, slow, fast = products
    held = [record(task, number, slow, 1e-6), record(task, number, fast, 1e-6, remeasured=True)]
    found = finalists_of_tasks([[held], [held], [held]], calls=[1, 1, 0], seconds=[1.0, 1e-6, math.inf])
    assert {n: len(listed) for n, listed in found.items()} == {0: 2, 1: 1}
    assert found[1][0].record.remeasured


def test_the_winner_counts_from_then_on(products: tuple[ModelTask, int, Config, Config], tmp_path: Path) -> None:
    task, number, slow, fast = products
    lucky = record(task, number, fast, 1e-6, remeasured=True)
    chosen = Finalist(number, record(task, number, slow, 2e-6)).chosen(5.0)
    assert chosen.in_model
    assert chosen.cost == 2e-6
    assert Record.from_line(chosen.to_line()) == chosen
    assert best([lucky, chosen]) == chosen
    later = replace(lucky, result=replace(lucky.result, timestamp=chosen.result.timestamp + 1))
    assert best([lucky, chosen, later]) == later
    store = TuningStore(tmp_path)
    made = task.implementations[number].task
    for kept, expected in ((lucky, lucky), (chosen, chosen), (lucky, chosen), (later, later)):
        store.keep(kept)
        found = store.best(made)
        assert found is not None
        assert found.config == expected.config


def test_a_search_ends_with_finals(
    products: tuple[ModelTask, int, Config, Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(problem, "LocalMeasurer", Machine)
    seen: list[dict[int, list[Finalist]]] = []

    def last(self: Finals, graphs: Any, finalists: dict[int, list[Finalist]]) -> dict[int, Finalist]:
        seen.append(finalists)
        return {number: listed[-1] for number, listed in finalists.items()}

    monkeypatch.setattr(Finals, "fastest_kernels", last)
    records, store = tmp_path / "records.jsonl", TuningStore(tmp_path / "store")
    result = pb.tune_model(layers(), trials=40, records=records, **{**QUICK, "store": store})
    (finalists,) = seen
    assert len(finalists[0]) > 1
    winner = finalists[0][-1]
    assert result.tasks[0].after == winner.record.cost
    chosen = [each for each in Journal(records).read() if each.in_model]
    assert [each.config for each in chosen] == [listed[-1].record.config for listed in finalists.values()]
    task = model_tasks([layers().optimized], pb.Target(TARGET))[0].implementations[winner.number].task
    assert store.best(task).config == winner.record.config  # type: ignore[union-attr]
    pb.tune_model(layers(), trials=40, records=records, **QUICK)
    assert len(seen) == 1  # nothing was measured
