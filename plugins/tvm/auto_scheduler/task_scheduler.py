"""`TaskScheduler`: the trials of several tasks, shared out by pegbox's allocation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pegbox.errors import ArgumentError
from pegbox.plugins.tvm.absence import refuse
from pegbox.plugins.tvm.auto_scheduler.measure_record import RecordReader
from pegbox.plugins.tvm.auto_scheduler.search_policy import (
    PreloadMeasuredStates,
    RandomModel,
    SketchPolicy,
    XGBModel,
)
from pegbox.plugins.tvm.auto_scheduler.search_task import SearchTask, TuningOptions
from pegbox.search import GradientAllocation, Progress, RoundRobin

_NOTHING_RAN = Progress(1.0).cost
"""The seconds of a task of which no trial has run."""


class TaskSchedulerCallback:
    """A listener to the rounds; override what you need."""

    def pre_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """Note that a task is tuned next."""

    def post_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """Note that a task was tuned."""


class PrintTableInfo(TaskSchedulerCallback):
    """A table of the best of each task, printed before each round."""

    def pre_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        if task_scheduler.verbose < 1:
            return
        print("|  ID  | Latency (ms) | Speed (GFLOPS) | Trials |")
        for number, each in enumerate(task_scheduler.progress):
            known = each.cost < _NOTHING_RAN
            latency, speed = (f"{each.cost * 1e3:.3f}", f"{each.speed / 1e9:.2f}") if known else ("-", "-")
            print(f"| {number:4d} | {latency:>12s} | {speed:>14s} | {task_scheduler.trials[number]:6d} |")
        total = task_scheduler.cur_score
        latency = f"{total * 1e3:.3f} ms" if max(task_scheduler.best_costs) < _NOTHING_RAN else "-"
        print(f"Estimated total latency: {latency}; trials: {task_scheduler.ct}; next: {task_id}")


class TaskScheduler:
    """A search of several tasks in rounds; pegbox's allocation says which one is next.

    Args:
        tasks: the tasks.
        task_weights: how often each is called; the weighted sum of their seconds is made small.
        objective_func: another objective, a function of the seconds of all tasks.
        strategy: "gradient" (see `pegbox.search.allocation.GradientAllocation`) or "round-robin".
        load_log_file: a log that the searches go on from.
        alpha, beta, backward_window_size: options of the strategy "gradient".
        callbacks: objects of `TaskSchedulerCallback`; by default a table on the screen.

    Attributes:
        progress: the best seconds of each task after each of its rounds.
        trials: the trials of each task.

    Raises `ArgumentError` for no tasks, another number of weights, or an unknown strategy.
    """

    def __init__(
        self,
        tasks: Sequence[SearchTask],
        task_weights: Sequence[float] | None = None,
        objective_func: Callable[[Sequence[float]], float] | None = None,
        strategy: str = "gradient",
        load_log_file: str | None = None,
        alpha: float = 0.2,
        beta: float = 2,
        backward_window_size: int = 3,
        callbacks: Sequence[TaskSchedulerCallback] | None = None,
        **absent: Any,
    ) -> None:
        refuse("auto_scheduler.TaskScheduler", absent)
        weights = [1.0] * len(tasks) if task_weights is None else task_weights
        if not tasks or len(weights) != len(tasks):
            raise ArgumentError(f"TaskScheduler: {len(tasks)} tasks, {len(weights)} weights; give one for each")
        if strategy not in ("gradient", "round-robin"):
            raise ArgumentError(f"strategy={strategy!r}: give 'gradient' or 'round-robin'")
        self.tasks = list(tasks)
        self.objective_func = objective_func or _weighted(weights)
        self.allocation: RoundRobin | GradientAllocation = RoundRobin()
        if strategy == "gradient":
            self.allocation = GradientAllocation(
                self.objective_func, alpha=alpha, beta=beta, window=backward_window_size
            )
        self.load_log_file = load_log_file
        self.callbacks = [PrintTableInfo()] if callbacks is None else list(callbacks)
        self.progress = [Progress(task.compute_dag.flop_ct) for task in tasks]
        self.trials = [0] * len(tasks)
        self.verbose = 0

    @property
    def best_costs(self) -> list[float]:
        """The seconds of the best of each task; 1e10 if nothing ran."""
        return [each.cost for each in self.progress]

    @property
    def task_cts(self) -> list[int]:
        """The rounds of each task."""
        return [len(each.best) for each in self.progress]

    @property
    def dead_tasks(self) -> set[int]:
        """The tasks that have nothing left to try."""
        return {number for number, each in enumerate(self.progress) if each.exhausted}

    @property
    def ct(self) -> int:
        """The trials of all tasks."""
        return sum(self.trials)

    @property
    def cur_score(self) -> float:
        """The value of the objective."""
        return self.objective_func(self.best_costs)

    def tune(
        self,
        tune_option: TuningOptions,
        search_policy: str | Sequence[SketchPolicy] = "default",
        search_policy_params: Mapping[str, Any] | None = None,
        per_task_early_stopping: int | None = None,
    ) -> None:
        """Tune all tasks, in rounds of `num_measures_per_round` trials, or fewer so that each has one.

        Args:
            tune_option: `num_measure_trials` are those of all tasks together.
            search_policy: "sketch.xgb" (the default), "sketch.random", or a policy for each task.
            search_policy_params: parameters of the policies.
            per_task_early_stopping: a task ends after so many trials without an improvement.

        Raises:
            ArgumentError: fewer trials than tasks, or an unknown policy.
            TuningError: a tuner, the records or the measuring broke.
        """
        wanted, count = tune_option.num_measure_trials, len(self.tasks)
        size = min(tune_option.num_measures_per_round, wanted // count)
        if size < 1:
            raise ArgumentError(f"num_measure_trials={wanted}: give at least one for each of the {count} tasks")
        policies = self._policies(search_policy, search_policy_params)
        self.verbose, self.trials = tune_option.verbose, [0] * count
        if self.load_log_file:
            self._restore(self.load_log_file, size)
        best, since, patience = self.cur_score, 0, tune_option.early_stopping or wanted
        while self.ct < wanted and since < patience:
            number = self.allocation.next(self.progress)
            if number is None:
                return
            for each in self.callbacks:
                each.pre_tune(self, number)
            before = self.ct
            self._tune_task(number, policies[number], min(size, wanted - before), tune_option, per_task_early_stopping)
            for each in self.callbacks:
                each.post_tune(self, number)
            since = 0 if self.cur_score < best else since + self.ct - before
            best = min(best, self.cur_score)

    def _tune_task(
        self, number: int, policy: SketchPolicy, trials: int, options: TuningOptions, patience: int | None
    ) -> None:
        own, session = self.progress[number], policy.session
        _, results = policy.continue_search_one_round(trials, options)
        own.best.append(min([own.cost, *(result.result.cost for result in results)]))
        own.exhausted = session.exhausted or not results or 0 < (patience or 0) <= session.since_improvement
        self.trials[number] += len(results)

    def _policies(self, given: str | Sequence[SketchPolicy], params: Mapping[str, Any] | None) -> list[SketchPolicy]:
        if not isinstance(given, str):
            if len(given) != len(self.tasks):
                raise ArgumentError(f"search_policy: {len(given)} policies for {len(self.tasks)} tasks; give one each")
            return list(given)
        if given not in ("default", "sketch.xgb", "sketch.random"):
            raise ArgumentError(f"search_policy={given!r}: give 'sketch.xgb', 'sketch.random', or a list of policies")
        model = RandomModel() if given == "sketch.random" else XGBModel()
        preloaded = [PreloadMeasuredStates(self.load_log_file)] if self.load_log_file else []
        return [SketchPolicy(task, model, params, verbose=0, init_search_callbacks=preloaded) for task in self.tasks]

    def _restore(self, log_file: str, size: int) -> None:
        """Take over the rounds of an earlier run from its log."""
        places = {(task.workload_key, str(task.target)): number for number, task in enumerate(self.tasks)}
        costs: list[list[float]] = [[] for _ in self.tasks]
        for inp, result in RecordReader(log_file):
            number = places.get((inp.task.workload_key, str(inp.task.target)))
            if number is not None:
                costs[number].append(result.result.cost)
        for each, found in zip(self.progress, costs, strict=True):
            each.best = [min(_NOTHING_RAN, *found[:end]) for end in range(size, len(found) + size, size)]


def _weighted(weights: Sequence[float]) -> Callable[[Sequence[float]], float]:
    return lambda costs: sum(cost * weight for cost, weight in zip(costs, weights, strict=True))
