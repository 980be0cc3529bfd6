"""Searches of several implementations: how trials are shared, and what the result says."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from implementations import by_doubling, by_rows, registered

import pegbox as pb
from pegbox.errors import ArgumentError
from pegbox.measure import Ok
from pegbox.records import Journal
from pegbox.records.simulation import SimulatedRunner
from pegbox.search import Progress
from pegbox.search.allocation import BestOfAllocation
from pegbox.search.group_tuner import ROUND, GroupTuner
from pegbox.space import Config
from pegbox.store import TuningStore
from pegbox.task import Task, TaskGroup, task_of

TARGET = "llvm -num-cores 1"
QUICK = {"tuner": "random", "progress": False, "measure_options": {"repeats": 1, "min_repeat_ms": 0.1}}


@pytest.fixture(autouse=True)
def _rows() -> Iterator[None]:
    with registered(by_rows=by_rows):
        yield


@pytest.fixture(scope="module")
def product() -> Task:
    return pb.create_task("matmul", (8, 4, 16), target=TARGET)


@pytest.fixture
def group(product: Task) -> TaskGroup:
    return product.with_implementations(["matmul", "by_rows"])


class Listed:
    """A tuner that proposes the configurations of a space in their order."""

    def __init__(self, task: Task) -> None:
        self.left = list(task.space.iterate())
        self.told: list[Config] = []

    def ask(self, n: int) -> Sequence[Config]:
        given, self.left = self.left[:n], self.left[n:]
        return given

    def tell(self, configs: Sequence[Config], results: Sequence[object]) -> None:
        self.told += configs


def shares(costs: Sequence[Sequence[float]], rounds: int) -> list[int]:
    """Count the rounds of each implementation; its costs are those after each round, the last from then on."""
    progress = [Progress() for _ in costs]
    for _ in range(rounds):
        number = BestOfAllocation().next(progress)
        assert number is not None
        own, found = costs[number], progress[number].best
        found.append(min([*found, own[min(len(found), len(own) - 1)]]))
    return [len(each.best) for each in progress]


def test_equal_implementations_share_the_rounds_equally() -> None:
    assert shares([[1.0], [1.0], [1.0]], 30) == [10, 10, 10]


def test_one_that_takes_twice_as_long_has_two_rounds() -> None:
    assert shares([[2.0], [1.0]], 100) == [2, 98]


def test_one_that_takes_a_tenth_longer_has_ten() -> None:
    slow, fast = shares([[1.1], [1.0]], 200)
    assert 9 <= slow <= 11
    assert slow + fast == 200


def test_one_that_becomes_the_fastest_late_gets_the_rest() -> None:
    late, other = shares([[1.2, 1.2, 1.1, 0.5], [1.0]], 60)
    assert late > 40
    assert other < 20


def test_one_without_a_valid_kernel_gets_few() -> None:
    assert shares([[math.inf], [1.0]], 40)[0] <= 3


def test_an_exhausted_one_is_not_chosen_and_all_exhausted_ends() -> None:
    done = [Progress(best=[0.1], exhausted=True), Progress(best=[1.0])]
    assert BestOfAllocation().next(done) == 1
    assert BestOfAllocation().next(done[:1]) is None


def test_a_batch_is_of_one_implementation_and_each_tuner_hears_of_its_own(group: TaskGroup) -> None:
    tuners = {name: Listed(task) for name, task in group.tasks.items()}
    tuner = GroupTuner(group, tuners, BestOfAllocation())
    seen: list[str] = []
    for _ in range(4):
        batch = tuner.ask(tuner.batch_size)
        (name,) = {group.implementation_of(config) for config in batch}
        seen.append(name)
        tuner.tell(batch, [Ok((1e-3,)) for _ in batch])
    assert seen[:2] == ["matmul", "by_rows"]
    for name, each in tuners.items():
        assert {group.implementation_of(config) for config in each.told} == {name}
    assert len(tuners["by_rows"].told) == 3  # its whole space
    assert tuner.batch_size <= ROUND


def test_a_group_whose_spaces_are_exhausted_ends(group: TaskGroup) -> None:
    small = TaskGroup({"by_rows": group.tasks["by_rows"]})
    tuner = GroupTuner(small, {"by_rows": Listed(small.first)}, BestOfAllocation())
    batch = tuner.ask(8)
    tuner.tell(batch, [Ok((1.0,)) for _ in batch])
    assert (len(batch), list(tuner.ask(8))) == (3, [])


def test_tune_finds_the_fastest_of_all_and_names_it(group: TaskGroup, tmp_path: Path) -> None:
    result = pb.tune(group, trials=12, records=tmp_path / "both.jsonl", store=None, **QUICK)
    assert all(result.by_implementation.values())
    assert list(result.by_implementation) == ["matmul", "by_rows"]
    assert result.implementation in group.tasks
    assert result.task is group.tasks[result.implementation]
    assert f"implementation: {result.implementation}" in str(result)
    assert {trial.config.space for trial in result.trials_of_winner} == {result.task.space}
    a, b = np.ones((8, 4), np.float32), np.ones((4, 16), np.float32)
    for kernel in (pb.build(result.task, config=result.best), pb.build(group, config=result)):
        out = np.empty((8, 16), np.float32)
        kernel(a, b, out)
        np.testing.assert_array_equal(out, np.full((8, 16), 4))


def test_records_have_the_best_of_the_group_and_the_search_goes_on(group: TaskGroup, tmp_path: Path) -> None:
    file = tmp_path / "both.jsonl"
    first = pb.tune(group, trials=12, records=file, store=None, **QUICK)
    with pb.apply_history_best(file) as history:
        config = history.best_config(group)
        assert pb.build(group).origin != "predicted, not tuned"
    assert config is not None
    assert config == first.best.config
    again = pb.tune(group, trials=16, records=file, resume=True, store=None, **QUICK)
    assert (len(again.history), len(again.trials)) == (12, 4)
    both = [trial.config for trial in again.all_trials]
    assert len(set(both)) == 16
    assert len({record.name for record in Journal(file).read()}) == 2


def test_the_store_keeps_the_best_of_each_implementation(group: TaskGroup, tmp_path: Path) -> None:
    store = TuningStore(tmp_path)
    result = pb.tune(group, trials=12, store=store, **QUICK)
    kept = {name: store.best(task) for name, task in group.tasks.items()}
    assert all(kept.values())
    assert store.best_config(group) == min(
        (task.space.from_json(kept[name].config) for name, task in group.tasks.items()),  # type: ignore[union-attr]
        key=lambda config: store.best(task_of(group, config)).cost,  # type: ignore[union-attr]
    )
    assert store.best(result.task).cost == result.best.cost  # type: ignore[union-attr]


def test_one_that_computes_something_else_is_refused(product: Task) -> None:
    with registered(doubled=by_doubling):
        group = product.with_implementations(["matmul", "doubled"])
        with pytest.raises(ArgumentError, match=r"'doubled' does not implement .* they give other values"):
            pb.tune(group, trials=4, store=None, **QUICK)


def test_a_configuration_to_begin_with_may_be_of_any_implementation(group: TaskGroup) -> None:
    config = group.tasks["by_rows"].space.get(2)
    result = pb.tune(group, trials=3, first=[config], store=None, **QUICK)
    assert result.trials[0].config == config
    other = pb.create_task("conv2d", (1, 4, 4, 4, 4, 1, 1), target=TARGET).space.get(0)
    with pytest.raises(ArgumentError, match=r"first\[0\] is a configuration of another space"):
        pb.tune(group, trials=3, first=[other], store=None, **QUICK)


def test_a_group_is_not_simulated(group: TaskGroup, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="simulate one task of them"):
        pb.tune(group, trials=3, runner=SimulatedRunner(tmp_path / "none.jsonl"), progress=False)


def test_tuners_are_compared_on_a_group(group: TaskGroup) -> None:
    report = pb.compare(
        group, ["random", "ga"], trials=6, seeds=1, start=2, progress=False, measure_options=QUICK["measure_options"]
    )
    assert [len(run.curve) for run in report.runs] == [6, 6]
    assert "matmul|by_rows" in str(report)


def test_a_failure_names_the_implementation_that_it_is_of(product: Task) -> None:
    group = TaskGroup(
        {name: task.with_accuracy(1e-9) for name, task in product.with_implementations("by_rows").tasks.items()}
    )
    result = pb.tune(group, trials=2, store=None, **QUICK)
    assert (result.best, result.implementation) == (None, "")
    assert "its config: by_rows #" in str(result)
    assert "nothing valid was found" in str(result)
