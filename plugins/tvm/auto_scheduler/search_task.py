"""`SearchTask`: a computation on a target, to be tuned without a template, and the options of its search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pegbox.compute.tensor import Tensor
from pegbox.errors import ArgumentError, RecordError, TuningError
from pegbox.plugins.tvm.auto_scheduler.base_task import PACKED, TASK_INPUT_BUFFER_TABLE, BaseTask, HardwareParams
from pegbox.plugins.tvm.auto_scheduler.cost_model import XGBModel
from pegbox.plugins.tvm.auto_scheduler.measure import (
    MeasureCallback,
    ProgramBuilder,
    ProgramMeasurer,
    ProgramRunner,
    builder_of,
    runner_of,
)
from pegbox.plugins.tvm.auto_scheduler.measure_record import load_best_record
from pegbox.plugins.tvm.auto_scheduler.search_policy import SearchPolicy, SketchPolicy
from pegbox.plugins.tvm.auto_scheduler.state_object import StateObject
from pegbox.plugins.tvm.notice import means_nothing
from pegbox.plugins.tvm.target import TargetLike
from pegbox.schedule.te.schedule import TESchedule

__all__ = [
    "TASK_INPUT_BUFFER_TABLE",
    "HardwareParams",
    "SearchTask",
    "TuningOptions",
    "auto_schedule",
    "create_task",
]


class TuningOptions:
    """How a search runs.

    Args:
        num_measure_trials: measurements of new states; 0 measures nothing.
        early_stopping: end after so many trials without an improvement.
        num_measures_per_round: trials before the cost model learns again; 64, the default, leaves it to pegbox's tuner,
            which learns more often.
        verbose: 0 shows no progress.
        builder, runner: "local", or objects of `LocalBuilder` and `LocalRunner`.
        measure_callbacks: `RecordToFile`, and objects of classes that derive from `PythonBasedMeasureCallback`.
    """

    def __init__(
        self,
        num_measure_trials: int = 0,
        early_stopping: int | None = None,
        num_measures_per_round: int = 64,
        verbose: int = 1,
        builder: str | ProgramBuilder = "local",
        runner: str | ProgramRunner = "local",
        measure_callbacks: Sequence[MeasureCallback] | None = None,
    ) -> None:
        self.num_measure_trials = num_measure_trials
        self.early_stopping = early_stopping or -1
        self.num_measures_per_round = num_measures_per_round
        self.verbose = verbose
        self.builder, self.runner = builder_of(builder), runner_of(runner)
        self.measure_callbacks = list(measure_callbacks or ())

    def measurer(self) -> ProgramMeasurer:
        """What measures by these options."""
        return ProgramMeasurer(self.builder, self.runner, self.measure_callbacks, self.verbose)


class SearchTask(BaseTask):
    """A computation on a target, with its search. Arguments and errors are those of `BaseTask`."""

    def tune(self, tuning_options: TuningOptions, search_policy: SearchPolicy | None = None) -> None:
        """Search; the records are the result (`RecordToFile`).

        Raises:
            TuningError: the tuner, the records or the measuring broke.
        """
        policy = SketchPolicy(self, XGBModel()) if search_policy is None else search_policy
        options = tuning_options
        policy.search(
            options.num_measure_trials, options.early_stopping, options.num_measures_per_round, options.measurer()
        )

    def apply_best(
        self, log_file: str, include_compatible: bool = False, layout_rewrite_option: int | None = None
    ) -> tuple[TESchedule, list[Tensor]]:
        """The te schedule of the best record, and the kernel's arguments.

        Raises:
            RecordError: there is none, or it is of another space, or the file cannot be read.
            ArgumentError: a layout that the records are not of.
        """
        option = self.layout_rewrite_option if layout_rewrite_option is None else layout_rewrite_option
        if (option == PACKED) != (self.layout_rewrite_option == PACKED):
            raise ArgumentError(
                f"apply_best(layout_rewrite_option={option}): the records are of kernels that take their inputs "
                f"{'packed' if option != PACKED else 'as they are'}; tune a SearchTask(layout_rewrite_option={option})"
            )
        state = self._best(log_file, include_compatible)
        return state.schedule()

    def print_best(self, log_file: str, print_mode: str = "schedule") -> str:
        """The computation and the best schedule as te code, which runs.

        Raises:
            RecordError: there is none, or it is of another space, or the file cannot be read.
            ArgumentError: another mode than "schedule".
        """
        if print_mode != "schedule":
            raise ArgumentError(
                f"print_mode={print_mode!r}: 'schedule' is what there is; tvm.build(schedule, args).get_source() gives "
                "the LLVM text of a kernel"
            )
        state = self._best(log_file, False)
        return state.sketch.code(state.values)

    def _best(self, log_file: str, include_compatible: bool) -> StateObject:
        found, _ = load_best_record(log_file, self.workload_key, self.target, include_compatible)
        if found is None:
            raise RecordError(
                f"{log_file!r} has no record of {self.workload_key} on {str(self.target)!r} that ran; tune it first: "
                "task.tune(TuningOptions(..., measure_callbacks=[RecordToFile(...)]))"
            )
        return self.state_of(found.space, found.config)


def register_task_input_buffer(
    workload_key: str, input_name: str, input_data: Any, overwrite: bool = False, save_to_file: bool = False
) -> Any:
    """Let an array stand for an input when the workload is measured: SearchTask(..., task_inputs=[input_name]).

    Raises:
        ArgumentError: there is one already, and `overwrite` is not set.
    """
    table = TASK_INPUT_BUFFER_TABLE.setdefault(workload_key, {})
    if input_name in table and not overwrite:
        raise ArgumentError(f"the input {input_name!r} has an array already; overwrite=True takes another one")
    if save_to_file:
        means_nothing("register_task_input_buffer(save_to_file=...)", "arrays stay in memory; numpy.save keeps them")
    table[input_name] = input_data.numpy() if hasattr(input_data, "numpy") else input_data
    return input_data


def get_task_input_buffer(workload_key: str, input_name: str) -> Any:
    """The array that stands for an input.

    Raises:
        ArgumentError: there is none.
    """
    table = TASK_INPUT_BUFFER_TABLE.get(workload_key, {})
    if input_name not in table:
        raise ArgumentError(f"the input {input_name!r} has no array; give SearchTask(..., task_inputs={{name: array}})")
    return table[input_name]


def create_task(
    func: str | Callable[..., Any],
    args: Sequence[Any],
    target: TargetLike,
    target_host: TargetLike | None = None,
    hardware_params: HardwareParams | None = None,
) -> SearchTask:
    """`SearchTask(func=, args=, target=)`, as it was called before TVM 0.8. Raises as that."""
    return SearchTask(func, args, target=target, target_host=target_host, hardware_params=hardware_params)


def auto_schedule(
    task: SearchTask, search_policy: SearchPolicy | None = None, tuning_options: TuningOptions | None = None
) -> tuple[TESchedule, list[Tensor]]:
    """Search, and give the te schedule of the best state and the kernel's arguments, as before TVM 0.8.

    Raises:
        TuningError: the tuner, the records or the measuring broke, or no state ran.
    """
    policy = SketchPolicy(task, XGBModel()) if search_policy is None else search_policy
    task.tune(tuning_options or TuningOptions(), policy)
    best = policy.session.best
    if best is None:
        raise TuningError(
            f"auto_schedule({task!r}): no state ran; give TuningOptions(num_measure_trials=...), and see the failures "
            "in the file of RecordToFile"
        )
    return policy.state_of(best.config).schedule()
