"""The experiment: each tuner on each task with each seed, and the making of one run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pegbox.checks import check_flag, check_instance, check_int, check_seconds
from pegbox.comparison.arguments import TunerLike
from pegbox.comparison.benchmark import Benchmark, CommonStartTuner
from pegbox.comparison.runs import Run
from pegbox.errors import TuningError
from pegbox.measure.machine.blas import blas_threads
from pegbox.measure.machine.run_delay import Reading, reading
from pegbox.origin import explained
from pegbox.search.factory import TunerInputs, check_tuner, declared_inputs, make_tuner
from pegbox.search.loop.callbacks import CallbackLike
from pegbox.search.loop.options import SearchOptions
from pegbox.search.loop.outcome import TuneResult
from pegbox.search.models.experience import shipped_experience
from pegbox.search.models.inputs import group_tuner
from pegbox.search.protocols import FeatureSource, SearchTask, Tuner
from pegbox.task.group import TaskGroup

MOST_TRIALS = 1_000_000
"""The largest number of trials of a run; the report keeps a cost for each trial."""


@dataclass(frozen=True)
class Plan:
    """The common settings of all runs of a comparison: each of the `tuners` gets each of the `seeds`.

    `start` is the number of random configurations that each run begins with, the same for all tuners with one seed;
    they are reported to the tuner and count among its `trials`. `callbacks(task name, tuner, seed)` makes the callbacks
    of one run, and `program` the program features of a task, for tuners that declare them. Without `experience`, no
    tuner gets any. If a run breaks, the comparison ends, or continues with `keep_going`. A run that takes longer than
    `run_timeout` seconds is killed, which needs processes.
    """

    tuners: Mapping[str, TunerLike]
    seeds: tuple[int, ...]
    trials: int = 200
    start: int = 1
    experience: bool = True
    batch_size: int | None = None
    callbacks: Callable[[str, str, int], Sequence[CallbackLike]] | None = None
    program: Callable[[SearchTask], FeatureSource | None] | None = None
    keep_going: bool = False
    run_timeout: float | None = None

    def __post_init__(self) -> None:
        check_int("start", self.start, minimum=0, maximum=check_int("trials", self.trials, maximum=MOST_TRIALS))
        check_instance("experience", self.experience, bool, "True, or False to compare tuners without it")
        check_flag("keep_going", self.keep_going)
        if self.run_timeout is not None:
            check_seconds("run_timeout", self.run_timeout)


@dataclass(frozen=True)
class RunSpec:
    """One run to make: the names of the task and of the tuner, and the seed."""

    task: str
    tuner: str
    seed: int

    def __str__(self) -> str:
        return f"{self.task}, seed {self.seed}, {self.tuner}"


@dataclass(frozen=True)
class Experiment:
    """The runs of a plan on benchmark problems, by the name of each, made one at a time in this process."""

    plan: Plan
    benchmarks: Mapping[str, Benchmark]
    _features: dict[tuple[str, str], FeatureSource | None] = field(default_factory=dict)

    @property
    def planned(self) -> int:
        """The number of all runs."""
        return len(self.benchmarks) * len(self.plan.tuners) * len(self.plan.seeds)

    def specs(self, task: str) -> list[RunSpec]:
        """List all runs on a task: all tuners with one seed, then with the next; the first tuner rotates by seed."""
        names, specs = list(self.plan.tuners), []
        for turn, seed in enumerate(self.plan.seeds):
            first = turn % len(names)
            specs += [RunSpec(task, name, seed) for name in (*names[first:], *names[:first])]
        return specs

    def rehearse(self) -> None:
        """Make every tuner and draw every start once, to raise their errors before anything is measured.

        In a comparison that continues without broken runs, the runs raise these errors themselves, except those of an
        unknown tuner or option.
        """
        seed = self.plan.seeds[0]
        if self.plan.keep_going:
            for tuner in self.plan.tuners.values():
                check_tuner(tuner)
            return
        for task, benchmark in self.benchmarks.items():
            benchmark.draw_start(seed, 1)
            for tuner in self.plan.tuners:
                self._tuner(RunSpec(task, tuner, seed))

    def run(self, spec: RunSpec) -> Run:
        """Make one run. Raises `TuningError` if the tuner breaks, `KeyboardInterrupt` on Ctrl-C.

        If runs may be simultaneous, linear algebra has one thread, because its sums depend on the number of threads,
        and must not depend on the number of runs.
        """
        side_by_side = self.benchmarks[spec.task].side_by_side
        with blas_threads(1) if side_by_side else contextlib.nullcontext():
            began = reading() if side_by_side else None
            tuner, inputs = self._tuner(spec)
            result = self._search(spec, tuner)
            run_queue_wait = _run_queue_wait(began, reading())
        if result.stopped_because == "interrupted":
            raise KeyboardInterrupt
        experienced = inputs["experience"] is not None and bool(getattr(tuner, "experienced", True))
        run = Run.of(spec.task, spec.tuner, spec.seed, result, experienced=experienced)
        if self.benchmarks[spec.task].problem.simulated:
            run = run.simulated(result)
        return replace(run, run_queue_wait=run_queue_wait, library=str(getattr(tuner, "library", "")))

    def _search(self, spec: RunSpec, tuner: Tuner) -> TuneResult:
        plan, benchmark = self.plan, self.benchmarks[spec.task]
        problem = benchmark.problem
        options = SearchOptions(
            plan.trials,
            batch_size=plan.batch_size,
            finalists=0 if problem.simulated else 1,
            callbacks=plan.callbacks(spec.task, spec.tuner, spec.seed) if plan.callbacks else (),
            name=spec.tuner,
        )
        start = benchmark.draw_start(spec.seed, plan.start)
        with problem.open() as opened:
            return problem.search(CommonStartTuner(tuner, start), opened, options)

    def _tuner(self, spec: RunSpec) -> tuple[Tuner, TunerInputs]:
        """Make the tuner of a run; return its inputs, too (for a group, those of its first task)."""
        task = self.benchmarks[spec.task].problem.task
        if not isinstance(task, TaskGroup):
            inputs = self._inputs(spec, task)
            return make_tuner(self.plan.tuners[spec.tuner], task.space, seed=spec.seed, **inputs), inputs
        made = group_tuner(
            task,
            lambda each: make_tuner(
                self.plan.tuners[spec.tuner], each.space, seed=spec.seed, **self._inputs(spec, each)
            ),
        )
        return made, self._inputs(spec, task.first)

    def _inputs(self, spec: RunSpec, task: SearchTask) -> TunerInputs:
        """Make the inputs of a run's tuner over a task."""
        takes = declared_inputs(self.plan.tuners[spec.tuner])
        return {
            "program": self._program(spec.task, task) if "program" in takes else None,
            "experience": shipped_experience(task) if self.plan.experience and "experience" in takes else None,
        }

    def _program(self, name: str, task: SearchTask) -> FeatureSource | None:
        """Return the program features of a task, made for the first tuner that declares them."""
        key = name, task.name
        if key not in self._features:
            self._features[key] = self.plan.program(task) if self.plan.program else None
        return self._features[key]


def _run_queue_wait(began: Reading | None, ended: Reading | None) -> float:
    """Compute the share of the time in which this thread waited for a core that others used; 0 if unknown."""
    if began is None or ended is None:
        return 0.0
    return min(1.0, (ended.run_queue_wait - began.run_queue_wait) / max(1, ended.ended - began.clock))


def reason_of(error: Exception) -> str:
    """Describe the error, without a tuning run's remarks on its own trials."""
    return error.reason if isinstance(error, TuningError) else explained(error)
