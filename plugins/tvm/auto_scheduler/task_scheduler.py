"""`TaskScheduler`: shares out trials among the tasks of one program."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pegbox.checks import check_choice, check_list
from pegbox.compute.tensor import ComputeOp
from pegbox.errors import ArgumentError
from pegbox.plugins.tvm.absence import names
from pegbox.plugins.tvm.auto_scheduler.compute_dag import ComputeDAG
from pegbox.plugins.tvm.auto_scheduler.cost_model import RandomModel, XGBModel
from pegbox.plugins.tvm.auto_scheduler.measure_record import RecordReader
from pegbox.plugins.tvm.auto_scheduler.search_policy import PreloadMeasuredStates, SearchPolicy, SketchPolicy
from pegbox.plugins.tvm.auto_scheduler.search_task import SearchTask, TuningOptions
from pegbox.search.allocation import UNKNOWN, GradientAllocation, Progress, RoundRobin

__getattr__ = names(__name__)

_TAG = "auto_scheduler_task_scheduler_tag"


class TaskSchedulerCallback:
    """Hears of each round; override what you need."""

    def pre_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """A task is tuned next."""

    def post_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """A task was tuned."""


class PrintTableInfo(TaskSchedulerCallback):
    """Prints how all tasks stand before each round."""

    def pre_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        if task_scheduler.tune_option is None or task_scheduler.tune_option.verbose < 1:
            return
        print("|  ID  | Latency (ms) | Speed (GFLOPS) | Trials |")
        for number, cost in enumerate(task_scheduler.best_costs):
            known = cost < UNKNOWN
            latency = f"{cost * 1e3:.3f}" if known else "-"
            speed = f"{task_scheduler.flop_cts[number] / cost / 1e9:.2f}" if known else "-"
            print(f"| {number:4d} | {latency:>12s} | {speed:>14s} | {task_scheduler.trials[number]:6d} |")
        spent = f"trials: {task_scheduler.ct}, {task_scheduler.elapsed:.0f} s"
        print(f"Estimated total latency: {task_scheduler.latency}; {spent}; next: {task_id}")


class LogEstimatedLatency(TaskSchedulerCallback):
    """Writes a line with the estimated latency of the whole program to a file after each round."""

    def __init__(self, log_file: str) -> None:
        self.log_file = log_file
        if os.path.exists(log_file):
            os.remove(log_file)

    def post_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        fields = ("ElapsedTime(s)", f"{task_scheduler.elapsed:.0f}", "EstimatedLatency(ms)")
        latency = task_scheduler.latency.removesuffix(" ms").replace("-", "N/A")
        with open(self.log_file, "a", encoding="utf-8") as file:
            file.write("\t".join([*fields, latency, "Trials", str(task_scheduler.ct)]) + "\n")


class TaskScheduler:
    """Tunes several tasks in rounds; which one is next follows from what all have gained so far.

    Args:
        tasks: what to tune.
        task_weights: how often each is called; the sum of their seconds, so weighted, is made small.
        objective_func: instead of it: of the seconds of all tasks.
        strategy: "gradient" (see `pegbox.search.allocation.GradientAllocation`) or "round-robin".
        load_log_file: a file of records; the searches go on from there.
        load_model_file: trials for the cost models, as `XGBModel.save` wrote them.
        alpha, beta, backward_window_size: of the strategy "gradient".
        gamma: of no use, as in TVM.
        callbacks: objects of `TaskSchedulerCallback`; by default a table on the screen, and `total_latency.tsv`.

    Attributes:
        best_costs: seconds of the best of each task.
        task_cts, trials: how many rounds and trials each has had.
        ct: the trials of all.

    Raises:
        ArgumentError: no tasks, weights for others, or an unknown strategy.
    """

    def __init__(
        self,
        tasks: Sequence[SearchTask],
        task_weights: Sequence[float] | None = None,
        objective_func: Callable[[Sequence[float]], float] | None = None,
        strategy: str = "gradient",
        load_model_file: str | None = None,
        load_log_file: str | None = None,
        alpha: float = 0.2,
        beta: float = 2,
        gamma: float = 0.5,
        backward_window_size: int = 3,
        callbacks: Sequence[TaskSchedulerCallback] | None = None,
    ) -> None:
        self.tasks = check_list("tasks", tasks, "a list of SearchTasks", of=SearchTask)
        if not self.tasks or (task_weights is not None and len(task_weights) != len(self.tasks)):
            raise ArgumentError(
                f"TaskScheduler: {len(self.tasks)} tasks, task_weights={task_weights}; give one for each"
            )
        self.objective_func = objective_func or _weighted(task_weights or [1.0] * len(self.tasks))
        check_choice("strategy", strategy, ("gradient", "round-robin"))
        self.allocation: RoundRobin | GradientAllocation = RoundRobin()
        if strategy == "gradient":
            self.allocation = GradientAllocation(self.objective_func, alpha, beta, backward_window_size)
        self.load_model_file, self.load_log_file = load_model_file, load_log_file
        self.callbacks = (
            [PrintTableInfo(), LogEstimatedLatency("total_latency.tsv")] if callbacks is None else callbacks
        )
        self.flop_cts = [task.compute_dag.flop_ct for task in self.tasks]
        self.progress = [
            Progress(flop, similar=derive_similarity_tag(task.compute_dag))
            for task, flop in zip(self.tasks, self.flop_cts, strict=True)
        ]
        self.best_costs = np.full(len(self.tasks), UNKNOWN)
        self.trials = [0] * len(self.tasks)
        self.ct = 0
        self.tune_option: TuningOptions | None = None
        self.search_policies: list[SearchPolicy] = []
        self._began = time.time()

    @property
    def task_cts(self) -> list[int]:
        """The rounds of each task."""
        return [len(each.best) for each in self.progress]

    @property
    def dead_tasks(self) -> set[int]:
        """The tasks that have nothing left to try."""
        return {number for number, each in enumerate(self.progress) if each.exhausted}

    @property
    def cur_score(self) -> float:
        """What the objective gives now."""
        return self.objective_func(list(self.best_costs))

    @property
    def elapsed(self) -> float:
        """Seconds since tuning began."""
        return time.time() - self._began

    @property
    def latency(self) -> str:
        """What the objective gives now, as text; "-" while a task has no result."""
        return f"{self.cur_score * 1e3:.3f} ms" if max(self.best_costs) < UNKNOWN else "-"

    def tune(
        self,
        tune_option: TuningOptions,
        search_policy: str | Sequence[SearchPolicy] = "default",
        search_policy_params: Mapping[str, Any] | None = None,
        adaptive_training: bool = False,
        per_task_early_stopping: int | None = None,
    ) -> None:
        """Tune all tasks, in rounds of `num_measures_per_round` trials, or less so that each has one.

        Args:
            tune_option: `num_measure_trials` are those of all tasks together.
            search_policy: "sketch.xgb" (the default), "sketch.random", or a policy for each task.
            search_policy_params: parameters of the policies.
            per_task_early_stopping: a task is done after so many trials without an improvement.

        Raises:
            ArgumentError: less trials than tasks, or an unknown policy.
            TuningError: a tuner, the records or the measuring broke.
        """
        self.tune_option, self._began, self.ct = tune_option, time.time(), 0
        size = min(tune_option.num_measures_per_round, tune_option.num_measure_trials // len(self.tasks))
        if size < 1:
            raise ArgumentError(
                f"num_measure_trials={tune_option.num_measure_trials}: give at least one for each of the "
                f"{len(self.tasks)} tasks"
            )
        self.search_policies = self._policies(search_policy, search_policy_params)
        measurer = tune_option.measurer()
        if self.load_log_file:
            self._restore(self.load_log_file, size)
        best, since = self.cur_score, 0
        while (left := tune_option.num_measure_trials - self.ct) > 0 and not 0 < tune_option.early_stopping <= since:
            number = self.allocation.next(self._known())
            if number is None:
                return
            count = self._tune_task(number, min(size, left), measurer, per_task_early_stopping)
            since = 0 if self.cur_score < best else since + count
            best = min(best, self.cur_score)

    def _known(self) -> list[Progress]:
        """How the tasks stand; what a script has written into `best_costs` counts."""
        for each, cost in zip(self.progress, self.best_costs, strict=True):
            if each.best:
                each.best[-1] = float(cost)
        return self.progress

    def _tune_task(self, number: int, trials: int, measurer: Any, early_stopping: int | None) -> int:
        for each in self.callbacks:
            each.pre_tune(self, number)
        own, policy = self.progress[number], self.search_policies[number]
        _, results = policy.continue_search_one_round(trials, measurer)
        self.best_costs[number] = min([self.best_costs[number], *(result.result.cost for result in results)])
        own.best.append(float(self.best_costs[number]))
        self.trials[number] += len(results)
        self.ct += len(results)
        session = policy.session
        own.exhausted = session.exhausted or not results or 0 < (early_stopping or 0) <= session.since_improvement
        for each in self.callbacks:
            each.post_tune(self, number)
        return len(results)

    def _policies(self, given: str | Sequence[SearchPolicy], params: Mapping[str, Any] | None) -> list[SearchPolicy]:
        if not isinstance(given, str):
            listed = check_list("search_policy", given, "a policy for each task", of=SearchPolicy)
            if len(listed) != len(self.tasks):
                raise ArgumentError(f"search_policy: {len(listed)} policies for {len(self.tasks)} tasks; give one each")
            return listed
        check_choice("search_policy", given, ("default", "sketch.xgb", "sketch.random"))
        preloaded = [PreloadMeasuredStates(self.load_log_file)] if self.load_log_file else []
        model = RandomModel() if given == "sketch.random" else XGBModel(model_file=self.load_model_file)
        return [SketchPolicy(task, model, params, verbose=0, init_search_callbacks=preloaded) for task in self.tasks]

    def _restore(self, log_file: str, size: int) -> None:
        """Rounds and best costs of the tasks, by the records of an earlier run."""
        numbers = {(task.workload_key, str(task.target)): n for n, task in enumerate(self.tasks)}
        costs: list[list[float]] = [[] for _ in self.tasks]
        for inp, result in RecordReader(log_file):
            number = numbers.get((inp.workload_key, inp.target))
            if number is not None:
                costs[number].append(result.result.cost)
        for number, found in enumerate(costs):
            rounds = [found[:end] for end in range(size, len(found) + size, size)]
            self.progress[number].best = [min(UNKNOWN, *each) for each in rounds]
            self.best_costs[number] = self.progress[number].cost


def derive_similarity_tag(dag: ComputeDAG, log_base: float = 1.618) -> str:
    """A word that tasks of similar speed share: the tags of their operations and the size of their work.

    Empty where no operation has the attribute `auto_scheduler_task_scheduler_tag`.
    """
    tags = [str(op.attrs[_TAG]) for op in dag.ops if isinstance(op, ComputeOp) and _TAG in op.attrs]
    return "_".join([*tags, str(int(math.log(dag.flop_ct + 1, log_base)))]) if tags else ""


def _weighted(weights: Sequence[float]) -> Callable[[Sequence[float]], float]:
    return lambda costs: sum(cost * weight for cost, weight in zip(costs, weights, strict=True))
