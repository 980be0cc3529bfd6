"""The task scheduler: trials shared out among tasks, and what its callbacks hear."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansor_workloads import QUICK, ansor_matmul, artificial

from pegbox.errors import ArgumentError
from pegbox.plugins.tvm import auto_scheduler, te
from pegbox.plugins.tvm.auto_scheduler import (
    RecordToFile,
    SearchTask,
    SketchPolicy,
    TaskScheduler,
    TuningOptions,
    load_records,
)
from pegbox.plugins.tvm.auto_scheduler.task_scheduler import PrintTableInfo, TaskSchedulerCallback
from pegbox.search import GradientAllocation


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    return artificial(monkeypatch)


def tasks_of(*sizes: int) -> list[SearchTask]:
    return [SearchTask(func=ansor_matmul, args=(n, n, n), target="llvm -num-cores 1") for n in sizes]


def options(trials: int, log: str | None = None, size: int = 1, verbose: int = 0, **more: Any) -> TuningOptions:
    callbacks = [] if log is None else [RecordToFile(log)]
    return TuningOptions(trials, num_measures_per_round=size, verbose=verbose, measure_callbacks=callbacks, **more)


def counts(tasks: Sequence[SearchTask], log: str) -> list[int]:
    found = Counter(inp.task.workload_key for inp, _ in load_records(log))
    return [found[task.workload_key] for task in tasks]


def test_in_turn_each_task_has_as_many_trials(tmp_path: Path) -> None:
    log, tasks = str(tmp_path / "log.json"), tasks_of(4, 8, 16)
    TaskScheduler(tasks, strategy="round-robin", callbacks=[]).tune(options(6, log), search_policy="sketch.random")
    assert counts(tasks, log) == [2, 2, 2]
    again = TaskScheduler(tasks, strategy="round-robin", load_log_file=log, callbacks=[])
    again.tune(options(3, log), search_policy="sketch.random")
    assert counts(tasks, log) == [3, 3, 3]
    assert again.task_cts == [3, 3, 3]
    best = [auto_scheduler.load_best_record(log, task.workload_key)[1] for task in tasks]
    assert again.best_costs == [result.result.cost for result in best if result is not None]


def test_trials_go_where_the_objective_falls(tmp_path: Path) -> None:
    log, tasks = str(tmp_path / "log.json"), tasks_of(8, 16)
    scheduler = TaskScheduler(tasks, objective_func=lambda costs: costs[0], callbacks=[])
    scheduler.tune(options(5, log), search_policy="sketch.random")
    assert counts(tasks, log) == [4, 1]


def test_the_options_of_the_strategy_come_before_the_callbacks() -> None:
    scheduler = TaskScheduler(tasks_of(4), [1.0], None, "gradient", None, 0.5, 3, 2, [])
    allocation = scheduler.allocation
    assert isinstance(allocation, GradientAllocation)
    assert (allocation.alpha, allocation.beta, allocation.window, scheduler.callbacks) == (0.5, 3, 2, [])


def test_weights_say_how_often_a_task_is_called(tmp_path: Path) -> None:
    log, tasks = str(tmp_path / "log.json"), tasks_of(8, 16)
    TaskScheduler(tasks, task_weights=[1.0, 1e6], callbacks=[]).tune(options(6, log), "sketch.random")
    assert counts(tasks, log) == [1, 5]


def test_rounds_are_no_longer_than_each_task_can_have_one(tmp_path: Path) -> None:
    log, tasks = str(tmp_path / "log.json"), tasks_of(8, 16)
    TaskScheduler(tasks, callbacks=[]).tune(options(5, log, size=64), "sketch.random")
    assert sorted(counts(tasks, log)) in ([2, 3], [1, 4])
    with pytest.raises(ArgumentError, match="at least one for each of the 2 tasks"):
        TaskScheduler(tasks, callbacks=[]).tune(options(1))


def test_a_task_without_anything_left_gives_way(tmp_path: Path) -> None:
    @auto_scheduler.register_workload("ansor_few", override=True)
    def few() -> list[te.Tensor]:
        x = te.placeholder((3,), name="X")
        return [x, te.compute((3,), lambda i: x[i] + 1.0, name="Y")]

    log = str(tmp_path / "log.json")
    tasks = [SearchTask(func=few, target="llvm -num-cores 1"), *tasks_of(16)]
    scheduler = TaskScheduler(tasks, strategy="round-robin", callbacks=[])
    with warnings.catch_warnings():  # of configurations that are left, whose number depends on the vectors
        warnings.filterwarnings("ignore", "sketch.*proposed nothing", RuntimeWarning)
        scheduler.tune(options(8, log), search_policy="sketch.random")
    assert scheduler.dead_tasks == {0}
    assert counts(tasks, log) == [1, 7]


def test_a_search_of_all_ends_early(tmp_path: Path) -> None:
    log, tasks = str(tmp_path / "log.json"), tasks_of(8, 16)
    TaskScheduler(tasks, callbacks=[]).tune(options(400, log, early_stopping=6), "sketch.random")
    assert sum(counts(tasks, log)) < 200
    scheduler = TaskScheduler(tasks, callbacks=[])
    scheduler.tune(options(60), "sketch.random", per_task_early_stopping=3)
    assert scheduler.dead_tasks == {0, 1}
    assert scheduler.ct < 60


def test_callbacks_hear_of_each_round(capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[tuple[str, int]] = []

    class Listener(TaskSchedulerCallback):
        def pre_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
            heard.append(("before", task_id))

        def post_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
            heard.append(("after", task_id))

    callbacks = [Listener(), PrintTableInfo()]
    TaskScheduler(tasks_of(8, 16), callbacks=callbacks).tune(options(2, verbose=1), "sketch.random")
    assert heard == [("before", 0), ("after", 0), ("before", 1), ("after", 1)]
    table = capsys.readouterr().out
    assert table.count("| Latency (ms) |") == 2
    assert "Estimated total latency: -; trials: 1" in table


def test_a_policy_may_be_given_for_each_task(tmp_path: Path) -> None:
    log, tasks = str(tmp_path / "log.json"), tasks_of(8, 16)
    policies = [SketchPolicy(task, auto_scheduler.XGBModel(), QUICK, verbose=0) for task in tasks]
    TaskScheduler(tasks, strategy="round-robin", callbacks=[]).tune(options(4, log), search_policy=policies)
    assert counts(tasks, log) == [2, 2]
    assert [len(policy.session.trials) for policy in policies] == [2, 2]
    with pytest.raises(ArgumentError, match="1 policies for 2 tasks"):
        TaskScheduler(tasks, callbacks=[]).tune(options(4), search_policy=policies[:1])
    with pytest.raises(ArgumentError, match="search_policy"):
        TaskScheduler(tasks, callbacks=[]).tune(options(4), search_policy="sketch.tree")


@pytest.mark.parametrize(
    ("given", "message"),
    [({"tasks": []}, "0 tasks"), ({"task_weights": [1.0]}, "one for each"), ({"strategy": "fair"}, "round-robin")],
)
def test_what_cannot_be_scheduled_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        TaskScheduler(**{"tasks": tasks_of(8, 16), "callbacks": [], **given})
