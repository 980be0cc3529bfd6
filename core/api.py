"""The functions of `pegbox`, which resolve names to objects: create_task, create_tuner, tune, build, lower, ..."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

from pegbox.checks import (
    check_callable,
    check_flag,
    check_list,
    check_path,
    check_seconds,
    check_text,
    with_checked_keywords,
)
from pegbox.codegen.compiled import COMPILE_SECONDS
from pegbox.codegen.targets.target import Target, target_of
from pegbox.compute.axis import SizeVar
from pegbox.compute.sizes import GivenSizes
from pegbox.compute.tensor import Tensor
from pegbox.errors import ArgumentError
from pegbox.loops.module import IRModule
from pegbox.loops.nodes import BlockRealize, Function
from pegbox.loops.passes import lower_function
from pegbox.loops.visit import walk
from pegbox.output import write_file
from pegbox.records.history import current_history
from pegbox.records.recorded_space import RecordedSpace
from pegbox.records.simulation import SimulatedRunner
from pegbox.schedule.schedule import Schedule
from pegbox.schedule.te.program import at_sizes, program_of, variables_of
from pegbox.schedule.te.replay import check_arguments, replay
from pegbox.schedule.te.replay_state import check_legal
from pegbox.schedule.te.schedule import TESchedule
from pegbox.search.asktell import create_tuner
from pegbox.search.loop.callbacks import CallbackLike
from pegbox.search.models.inputs import program_features
from pegbox.search.models.prediction import PREDICTED, compiled_predictions, predicted_configs
from pegbox.search.problem import local_measurer
from pegbox.search.tune import tune
from pegbox.shown import value_text
from pegbox.space.config import Config
from pegbox.space.given_config import GivenConfig, given_config
from pegbox.store import best_config
from pegbox.task.group import TaskGroup, Tasks, task_of, tasks_of
from pegbox.task.task import Task, create_task

if TYPE_CHECKING:
    from pathlib import Path

    from distributed import Client

    from pegbox.codegen.program import Program
    from pegbox.codegen.runtime.kernel import Kernel
    from pegbox.codegen.runtime.runtime_module import RuntimeModule
    from pegbox.codegen.runtime.sized_kernel import SizedKernel
    from pegbox.comparison import Comparison
    from pegbox.comparison.arguments import Tuners
    from pegbox.measure.runners.runner import RunnerLike
    from pegbox.suites import Suite

__all__ = ["build", "compare", "create_task", "create_tuner", "export", "lower", "tune"]


@overload
def lower(what: IRModule, *, simple_mode: bool = False) -> IRModule: ...


@overload
def lower(
    what: TESchedule | Schedule | Function,
    args: Sequence[Tensor] = (),
    name: str | None = None,
    *,
    simple_mode: bool = False,
    sizes: GivenSizes | None = None,
) -> Function: ...


@with_checked_keywords
def lower(
    what: TESchedule | Schedule | Function | IRModule,
    args: Sequence[Tensor] = (),
    name: str | None = None,
    *,
    simple_mode: bool = False,
    sizes: GivenSizes | None = None,
) -> Function | IRModule:
    """Lower a schedule to its plain loop program; `print` shows it, `.allocations` and `.loops("C")` answer questions.

    Args:
        what: a schedule, a program with blocks, or a module of such programs. A lowered program is returned unchanged.
        simple_mode: make the program easier to read: loops whose splits do not divide stay whole, with tests inside,
            instead of being cut, and an illegal TE schedule is shown, too, with the place marked and a warning.
        args: the function's arguments in call order (all but TE schedules know them already).
        name: the function's name; by default "main", or the program's own name.
        sizes: the value of each size variable of a TE schedule, {"n": 128}. Without them, `simple_mode` shows the
            program for example sizes, and a warning says which.

    Raises:
        ArgumentError: the arguments are not the program's, or in another order; or the sizes are not its size
            variables.
        ScheduleError: the schedule is not legal, or an argument is missing.
    """
    if isinstance(what, IRModule):
        return IRModule({label: lower(func, simple_mode=simple_mode) for label, func in what.functions.items()})
    if isinstance(what, Task):
        raise ArgumentError(f"lower({what!r}): a task has a program for each configuration; use task.lowered(config)")
    args = _check_program("lower", what, args, name)
    if isinstance(what, TESchedule):
        program = program_of(what, args, name or "main", sizes=sizes, shown=simple_mode)
        return lower_function(program, simple=simple_mode)
    if sizes is not None and check_flag("sizes", sizes):
        raise ArgumentError(
            f"sizes={value_text(sizes)}: only a TE schedule has size variables, not a {type(what).__name__}"
        )
    func = what if isinstance(what, Function) else what.func
    if not check_flag("simple_mode", simple_mode):
        check_legal(func)
    if args and func.params != tuple(t.buffer for t in args):
        raise ArgumentError(
            f"arguments {[t.name for t in args]}: the schedule's are {[b.name for b in func.params]}, in this order; "
            "leave them out, or make the tir.Schedule with others"
        )
    if name is not None and name != func.name:
        func = replace(func, name=name)
    if not func.allocs and not any(isinstance(s, BlockRealize) for s in walk(func.body)):
        return func
    return lower_function(func, simple=simple_mode)


def _check_program(caller: str, what: object, args: object, name: object) -> list[Tensor]:
    """List the arguments. Raises `ArgumentError` unless given a schedule or program, tensors, and a name."""
    if not isinstance(what, TESchedule | Schedule | Function):
        hint = f"; did you mean pegbox.create_task({what!r}, args=...)?" if isinstance(what, str) else ""
        raise ArgumentError(
            f"{caller}({value_text(what)}): a {type(what).__name__} is not a program; give a schedule "
            f"(te.create_schedule, tir.Schedule), a program or a module{' or a task' if caller == 'build' else ''}"
            f"{hint}"
        )
    if name is not None:
        check_text(f"{caller}: name", name)
    return check_list(f"{caller}: args", args, "the kernel's tensors in call order, such as [A, B, C]", of=Tensor)


def _build_sized(
    schedule: TESchedule,
    args: list[Tensor],
    variables: Sequence[SizeVar],
    machine: Target,
    name: str | None,
    timeout: float,
) -> SizedKernel:
    """Make a kernel that is compiled when it is called, from a copy of the schedule as it is now."""
    from pegbox.codegen import SizedKernel

    check_arguments(schedule, args)
    return SizedKernel(name or "main", args, variables, _SizedEmitter(schedule.copy(), args, machine), timeout=timeout)


@dataclass(frozen=True)
class _SizedEmitter:
    """A function that makes the program of a schedule for some sizes, which can be pickled."""

    schedule: TESchedule
    args: list[Tensor]
    machine: Target

    def __call__(self, sizes: Mapping[SizeVar, int], called: str) -> Program:
        from pegbox.codegen import emit

        return emit(lower_function(replay(*at_sizes(self.schedule, self.args, sizes), called).func), self.machine)


@overload
def build(
    what: IRModule,
    args: Sequence[Tensor] = (),
    target: str | Target | None = None,
    *,
    timeout: float | str = COMPILE_SECONDS,
) -> RuntimeModule: ...


@overload
def build(
    what: Task | TaskGroup | TESchedule | Schedule | Function,
    args: Sequence[Tensor] = (),
    target: str | Target | None = None,
    *,
    name: str | None = None,
    config: GivenConfig | None = None,
    sizes: GivenSizes | None = None,
    timeout: float | str = COMPILE_SECONDS,
) -> Kernel | SizedKernel: ...


@with_checked_keywords
def build(
    what: Task | TaskGroup | TESchedule | Schedule | Function | IRModule,
    args: Sequence[Tensor] = (),
    target: str | Target | None = None,
    *,
    name: str | None = None,
    config: GivenConfig | None = None,
    sizes: GivenSizes | None = None,
    timeout: float | str = COMPILE_SECONDS,
) -> Kernel | SizedKernel | RuntimeModule:
    """Compile to a kernel that is called on NumPy arrays; a module to kernels by name, `built["mm_relu"](a, b, c)`.

    `what` is a task, a schedule, a program with blocks or a lowered one, or a module of such programs. A task is built
    with `config` (a configuration, its index, `result.best`, a record, or the values of all knobs by name), or else
    with the best of the records that `apply_history_best` put in effect, or else with the best in the user's store, or
    else with the first predicted one that can be compiled: then its `origin` is "predicted, not tuned". A stored
    configuration that can no longer be built is skipped, with a warning. A group of implementations is built with the
    best configuration of all its tasks; without measurements, with the predicted one of its first task. A schedule or
    program is built as it is, for `target` (by default that of the `with pegbox.Target(...):` block around the call,
    else this machine); `args`, `name` and `sizes` are those of `lower`. A TE schedule with size variables and no
    `sizes` becomes a `SizedKernel`, which compiles once for each set of sizes that it is called with. `timeout` limits
    the time that LLVM may take for a kernel, in seconds or as text ("2m").

    Raises:
        ArgumentError: the records in effect hold none of the task, or a target is given for a task, which has its own.
        InvalidConfig, ScheduleError, CompileError: the candidate cannot be built, or not within `timeout`.
    """
    from pegbox.codegen import build as compiled  # LLVM is loaded when first needed
    from pegbox.codegen import build_module, emit
    from pegbox.operators.choice import compiled_stored

    seconds = check_seconds("timeout", timeout)
    if isinstance(args, str | Target):
        raise ArgumentError(
            f"build(..., {str(args)!r}): the second argument is the kernel's tensors; give the target by its name: "
            f"target={str(args)!r}"
        )
    if isinstance(what, Task | TaskGroup):
        if target is not None:
            raise ArgumentError(f"target={target!r}: the task is for {what.target} already; pass it to create_task")
        if args or name is not None:
            raise ArgumentError("build(task): its template names the kernel and its arguments; leave args and name out")
        if (chosen := _chosen(what, config)) is not None:
            return compiled(task_of(what, chosen).lower(chosen), timeout=seconds)
        stored = best_config(what)
        if (
            stored is not None
            and (known := compiled_stored(task_of(what, stored), stored, timeout=seconds)) is not None
        ):
            return known
        kernel, _ = next(compiled_predictions(tasks_of(what)[0], timeout=seconds))
        kernel.origin = PREDICTED
        return kernel
    if config is not None:
        raise ArgumentError(f"config={value_text(config)}: only a task has configurations, not {type(what).__name__}")
    machine = target_of(target)
    if isinstance(what, IRModule):
        if args or name is not None:
            raise ArgumentError("build(module): its functions know their arguments and names; leave args and name out")
        return build_module(lower(what), machine, timeout=seconds)
    args = _check_program("build", what, args, name)
    if isinstance(what, TESchedule) and sizes is None and (variables := variables_of(what)):
        return _build_sized(what, args, variables, machine, name, seconds)
    return compiled(emit(lower(what, args, name, sizes=sizes), machine), timeout=seconds)


def _chosen(task: Tasks, config: GivenConfig | None) -> Config | None:
    """Find the configuration that was asked for, or else the best of the records in effect; None without these."""
    if config is not None:
        return task.given_config(config) if isinstance(task, TaskGroup) else given_config(task.space, config)
    history = current_history()
    if history is None:
        return None
    best = history.best_config(task)
    if best is None:
        raise ArgumentError(f"build({task.name}): {history.absence(task)}")
    return best


@with_checked_keywords
def export(
    task: Task | TaskGroup, config: GivenConfig | None, path: str | os.PathLike[str], *, header: bool = True
) -> None:
    """Write the kernel as `.o` (object file) or `.so` (shared library), and a C header next to it.

    Args:
        config: as for `build`; None chooses as `build` does, and skips a stored configuration that can no longer be
            built, with a warning.
        path: the file to write.
        header: write the header, too.

    Raises:
        ArgumentError: the suffix is neither .o nor .so, the folder does not exist, the path is a folder or a file that
            pegbox did not write, or the records in effect hold none of the task.
        CompileError: the system has no linker for a shared library.
    """
    from pegbox.codegen import c_header, check_export, write_object, write_shared_library
    from pegbox.operators.choice import made_of_stored

    if not isinstance(task, Task | TaskGroup):
        raise ArgumentError(f"export({value_text(task)}, ...): not a task; make one with pegbox.create_task(...)")
    out = check_path("export: path", path)
    writers: dict[str, Callable[[Program, Path], None]] = {".o": write_object, ".so": write_shared_library}
    if out.suffix not in writers:
        raise ArgumentError(f"export to {str(out)!r}: the name must end in .o (object file) or .so (shared library)")
    beside = check_export(out, header=header)

    def written(chosen: Config) -> Program:
        program = task_of(task, chosen).lower(chosen)
        writers[out.suffix](program, out)
        return program

    chosen, program = _chosen(task, config), None
    if chosen is None and (stored := best_config(task)) is not None:
        program = made_of_stored(task_of(task, stored), stored, lambda: written(stored))
    if program is None:
        program = written(chosen or next(predicted_configs(tasks_of(task)[0])))
    if beside is not None:
        write_file(beside, c_header(program))


@with_checked_keywords
def compare(
    tasks: Task | TaskGroup | RecordedSpace | Sequence[Task | TaskGroup | RecordedSpace] | None = None,
    tuners: Tuners = (),
    *,
    suite: str | os.PathLike[str] | Suite | None = None,
    trials: int = 200,
    seeds: int | Sequence[int] = 10,
    start: int = 1,
    experience: bool = True,
    runner: RunnerLike | SimulatedRunner = "local",
    timeout: float | str = 10.0,
    batch_size: int | None = None,
    callbacks: Callable[[str, str, int], Sequence[CallbackLike]] | None = None,
    progress: bool = True,
    save: str | os.PathLike[str] | None = None,
    measure_options: Mapping[str, Any] | None = None,
    jobs: int | str | Client = 1,
    log: str | os.PathLike[str] | None = None,
    keep_going: bool | None = None,
    run_timeout: float | str | None = None,
) -> Comparison:
    """Compare tuners honestly: the same trials, seeds and start for each, interleaved; differences carry a test.

    `print` shows the report; it has `.plot(path)`, `.to_html(path)` and `.save(path)`. See docs/compare.md, and
    docs/suites.md for comparisons over many spaces.

    Args:
        tasks: one or several. A group of implementations (`task.with_implementations()`) counts as one task; each tuner
            shares its trials out among them. A `RecordedSpace` is answered from its records, on a virtual clock.
        tuners: names with options ("xgb:plan_size=32"), factories, `MyTuner.with_options(alpha=2)` of classes that
            derive from `BaseTuner`; or a mapping from names for the report to these.
        trials: the number of trials of each run, at most 1,000,000.
        seeds: the number of seeds (0, 1, ...), or the seeds themselves.
        start: the random configurations that each run begins with, the same for all tuners with one seed; they are
            reported to the tuner and count as trials.
        experience: let tuners that can begin with measurements of other workloads. With it they may all find the best
            soon; False compares what each learns by itself.
        runner: as for `tune`; a `SimulatedRunner` simulates every task.
        callbacks: `callbacks(task name, tuner, seed)` makes the callbacks of one run.
        progress: print a line for each finished run on standard error.
        save: a file that is kept up to date with the report of the finished runs; see `Comparison.load`.
        timeout, batch_size, measure_options: as for `tune`.
        jobs: the number of runs made at the same time, each in its own process; "auto" makes one on each core if
            nothing is timed. Or the cluster that makes them: "dask:scheduler=tcp://host:8786", or a
            `distributed.Client`. More than one job is allowed only if nothing is timed: on recorded spaces, and on an
            `Objective` that is `pure`. The results are those of `jobs=1`.
        suite: a benchmark suite whose problems replace `tasks`: the name of one that ships, or a folder.
        log: a file to which each finished run is appended at once. Runs that are already in it are not repeated, so
            that the same call continues a comparison that was killed.
        keep_going: continue after a run breaks, and name it in the report; the default with a suite.
        run_timeout: the time after which a run is killed: seconds, or text such as "5m". Ten minutes by default with a
            suite, else no limit; only allowed if nothing is timed.

    Raises:
        ArgumentError, UnknownName, SpaceError, RecordError: an argument cannot be compared; nothing was measured yet.
        MeasureError: the cluster does not answer, or cannot make the runs.
        ComparisonError: a run broke; the report of the finished ones is in its `result`.
        ComparisonInterrupted: Ctrl-C was pressed; a `KeyboardInterrupt` that has a `result`, too.
    """
    from pegbox.comparison import compare as compare_tuners  # most programs only search and never need it
    from pegbox.comparison.arguments import SUITE_TIMEOUT, check_suite
    from pegbox.comparison.display import run_listener
    from pegbox.comparison.runs import print_run

    problems = check_suite(tasks, suite)
    limit = SUITE_TIMEOUT if run_timeout is None and suite is not None and callbacks is None else run_timeout
    measurer = local_measurer(measure_options, timeout=timeout, runner=runner)
    if callbacks is not None:
        check_callable("callbacks", callbacks, "a function (task name, tuner, seed) that makes the callbacks of a run")
    shown = check_flag("progress", progress)
    table = shown and suite is not None
    with run_listener(trials) if table else nullcontext(print_run if shown else None) as listener:
        return compare_tuners(
            problems,
            tuners,
            measurer=measurer,
            runner=runner,
            trials=trials,
            seeds=seeds,
            start=start,
            experience=experience,
            batch_size=batch_size,
            callbacks=callbacks,
            program=program_features,
            on_run=listener,
            save=save,
            jobs=jobs,
            log=log,
            keep_going=suite is not None if keep_going is None else keep_going,
            run_timeout=None if limit is None else check_seconds("run_timeout", limit),
        )
