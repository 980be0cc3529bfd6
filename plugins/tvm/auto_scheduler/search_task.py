"""`SearchTask`: a computation on a target, to be tuned without a template, and the options of its search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pegbox.errors import ArgumentError, RecordError, TuningError
from pegbox.plugins.tvm.auto_scheduler.base_task import BaseTask
from pegbox.plugins.tvm.auto_scheduler.compute_dag import State
from pegbox.plugins.tvm.auto_scheduler.measure_record import load_best_record
from pegbox.plugins.tvm.auto_scheduler.search_policy import SketchPolicy, XGBModel
from pegbox.plugins.tvm.runners import measuring
from pegbox.plugins.tvm.target import TargetLike
from pegbox.te import Tensor, TESchedule


class TuningOptions:
    """The options of a search.

    Args:
        num_measure_trials: measurements of new states; 0 measures nothing.
        early_stopping: end after so many trials without an improvement.
        num_measures_per_round: trials before the cost model learns again; 64, the default, leaves it to pegbox's tuner.
        verbose: 0 shows no progress.
        builder, runner: "local", or a `LocalBuilder` and a `LocalRunner`.
        measure_callbacks: `RecordToFile`, and objects of classes that derive from `PythonBasedMeasureCallback`.
    """

    def __init__(
        self,
        num_measure_trials: int = 0,
        early_stopping: int | None = None,
        num_measures_per_round: int = 64,
        verbose: int = 1,
        builder: object = "local",
        runner: object = "local",
        measure_callbacks: Sequence[Any] | None = None,
    ) -> None:
        self.num_measure_trials = num_measure_trials
        self.early_stopping = early_stopping
        self.num_measures_per_round = num_measures_per_round
        self.verbose = verbose
        self.measuring = measuring(builder, runner)
        self.measure_callbacks = list(measure_callbacks or ())


class SearchTask(BaseTask):
    """A computation on a target, with its search. Arguments and errors are those of `BaseTask`."""

    def tune(self, tuning_options: TuningOptions, search_policy: SketchPolicy | None = None) -> None:
        """Search; the result is in the records, see `RecordToFile`. Raises as `SketchPolicy.search`."""
        (search_policy or _policy(self)).search(tuning_options)

    def apply_best(self, log_file: str) -> tuple[TESchedule, list[Tensor]]:
        """Make the te schedule of the best record, and the arguments of the kernel.

        Raises `RecordError` if there is none, it is of another space, or the file cannot be read.
        """
        return self._best(log_file).schedule()

    def print_best(self, log_file: str, print_mode: str = "schedule") -> str:
        """Write the computation and the best schedule as te code, which runs. Raises as `apply_best`."""
        if print_mode != "schedule":
            raise ArgumentError(f"print_mode={print_mode!r}: give 'schedule'; get_source() shows the code of a module")
        return str(self._best(log_file))

    def _best(self, log_file: str) -> State:
        found, _ = load_best_record(log_file, self.workload_key, self.target)
        if found is None:
            raise RecordError(
                f"{log_file!r} has no record of {self.workload_key} on {str(self.target)!r} that ran; tune it first: "
                "task.tune(TuningOptions(..., measure_callbacks=[RecordToFile(...)]))"
            )
        return found.state


def create_task(func: str | Callable[..., Any], args: Sequence[Any], target: TargetLike) -> SearchTask:
    """Make a task, as before TVM 0.8. Raises as `SearchTask`."""
    return SearchTask(func, args, target=target)


def auto_schedule(
    task: SearchTask, search_policy: SketchPolicy | None = None, tuning_options: TuningOptions | None = None
) -> tuple[TESchedule, list[Tensor]]:
    """Search, and make the te schedule of the best state, as before TVM 0.8.

    Raises `TuningError` if the search broke, or no state ran.
    """
    policy = search_policy or _policy(task)
    policy.search(tuning_options or TuningOptions())
    if policy.session.best is None:
        raise TuningError(f"auto_schedule({task!r}): no state ran; give TuningOptions(num_measure_trials=...)")
    return State(task.inner, policy.session.best.config).schedule()


def _policy(task: SearchTask) -> SketchPolicy:
    return SketchPolicy(task, XGBModel())
