"""The runs of a comparison: equal budget, several seeds, a common start, winners measured again together.

Every tuner gets each task with each seed, the same random configurations to start from and the same number of trials.
Runs with one seed follow each other, and their order rotates from seed to seed, so that a drift of the machine favours
none. A run's own minimum is the luckiest of many; therefore all winners of a task are measured again at the end,
together, and these are the final numbers. Recorded costs need no second measurement. Medians, intervals and tests
follow the advice of Hoefler and Belli, "Scientific Benchmarking of Parallel Computing Systems" (SC 2015).
"""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeAlias

import pegbox
from pegbox.comparison.arguments import Tuners, read_seeds, read_tasks, read_tuners
from pegbox.comparison.benchmark import Benchmark, open_benchmark, with_computations
from pegbox.comparison.experiment import Experiment, Plan, RunSpec, reason_of
from pegbox.comparison.jsonform import REPORT
from pegbox.comparison.payload import pack
from pegbox.comparison.pool import TOOK_LONGER, CompletedRuns, RunPool, open_pool, read_jobs, run_of
from pegbox.comparison.report import Comparison
from pegbox.comparison.run_job import Notice
from pegbox.comparison.run_log import RunLog
from pegbox.comparison.runs import BrokenRun, Run, Setup, TaskInfo
from pegbox.errors import ComparisonError, PegboxError
from pegbox.output import check_output
from pegbox.search.loop.trial import validated
from pegbox.search.problem import MeasurerFactory
from pegbox.search.protocols import SearchTask
from pegbox.suites import Suite
from pegbox.task.group import TaskGroup

RunListener: TypeAlias = Callable[[Run, TaskInfo, int, int], object]
"""A function called for each finished run: with the run, its task, and the numbers of finished and of all runs."""


HANGS = 2
"""The number of runs on a task that take too long, after which the tuner's other seeds are left out."""


class ComparisonInterrupted(KeyboardInterrupt):
    """Ctrl-C ended a comparison; `result` is the `Comparison` of the finished runs."""

    def __init__(self, message: str, result: Comparison) -> None:
        super().__init__(message)
        self.result = result


def compare(
    tasks: SearchTask | TaskGroup | Sequence[SearchTask | TaskGroup] | Suite,
    tuners: Tuners,
    *,
    measurer: MeasurerFactory | None = None,
    runner: object = "local",
    jobs: Any = 1,
    on_run: RunListener | None = None,
    save: str | os.PathLike[str] | None = None,
    log: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Comparison:
    """Run every tuner on every task with every seed, as `pegbox.compare` does, with the caller's measurer.

    Args:
        measurer: a function that opens a measurer for a task; each run gets a fresh one. None is needed if everything
            is recorded.
        runner: a `SimulatedRunner` simulates every task; the measurer handles any other one.
        on_run: a function of each finished run.
        options: `seeds` (a count, or the seeds), and other fields of `Plan`: `trials`, `start`, `experience`,
            `batch_size`, `callbacks`, `program`, `keep_going`, `run_timeout`.

    Raises the errors of `pegbox.compare`.
    """
    plan = Plan(read_tuners(tuners), read_seeds(options.pop("seeds", 10)), **options)
    check_output(save, REPORT)
    if isinstance(tasks, Suite):
        suite: Suite | None = tasks
        named: dict[str, SearchTask | TaskGroup] = {problem.name: problem.task for problem in tasks}
        problems = {problem.name: problem for problem in tasks}
    else:
        suite, named, problems = None, read_tasks(tasks), {}
    opened = [
        open_benchmark(
            name, task, trials=plan.trials, measurer=measurer, runner=runner, problem_of_suite=problems.get(name)
        )
        for name, task in named.items()
    ]
    benchmarks = with_computations(opened) if suite is None else opened
    experiment = Experiment(plan, {one.info.name: one for one in benchmarks})
    kept = None if log is None else RunLog(log, experiment)
    return _Progress(experiment, read_jobs(jobs, experiment), on_run, save, kept, suite).run()


class _Broken(Exception):
    """The error of a run."""

    def __init__(self, spec: RunSpec, error: Exception) -> None:
        super().__init__(spec, error)
        self.spec, self.error = spec, error


@contextmanager
def _named(spec: RunSpec) -> Iterator[None]:
    """Attribute errors of the body to this run."""
    try:
        yield
    except Exception as error:
        raise _Broken(spec, error) from error


class _Progress:
    """A comparison in progress."""

    def __init__(
        self,
        experiment: Experiment,
        jobs: Any,
        on_run: RunListener | None,
        save: str | os.PathLike[str] | None,
        log: RunLog | None,
        suite: Suite | None,
    ) -> None:
        self.experiment = experiment
        self.benchmarks = experiment.benchmarks
        self.jobs = jobs
        self.most_jobs = 1
        self.on_run = on_run
        self.save = save
        self.planned = experiment.planned
        self.log = log
        self.suite = suite
        self.runs: list[Run] = []
        self.broken: list[BrokenRun] = []
        self.saving = 0.0
        self.began = time.monotonic()
        self.started = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")

    def run(self) -> Comparison:
        self.experiment.rehearse()
        in_process = self.jobs == 1 and self.experiment.plan.run_timeout is None
        pool = None if in_process else open_pool(self.jobs, pack(self.experiment))
        try:
            if pool is None:
                for task in self.benchmarks:
                    with self._then_winners([task]):
                        self._one_by_one(task)
            else:
                with self._then_winners(list(self.benchmarks)):
                    self._side_by_side(pool)
            return self._saved(self._report(""))
        except KeyboardInterrupt as error:
            message, _, report = self._cut_short("interrupted")
            raise ComparisonInterrupted(message, report) from error
        except _Broken as broken:
            raise self._error(f"{broken.spec}: {reason_of(broken.error)}") from broken.error
        except Exception as error:
            raise self._error(reason_of(error)) from error
        finally:
            if pool is not None:
                pool.close()

    def _one_by_one(self, task: str) -> None:
        for spec in self._unfinished([task]):
            with self._breakable(spec):
                with _named(spec):
                    run = self.experiment.run(spec)
                self._add(spec, run)

    def _side_by_side(self, pool: RunPool) -> None:
        """Make all runs of all tasks; if one breaks, finish the running ones, or all."""
        shown: set[Notice] = set()
        keep_going = self.experiment.plan.keep_going
        completed = CompletedRuns(pool, self._unfinished(self.benchmarks), keep_going=keep_going)
        for spec, reply in completed:
            self.most_jobs = completed.jobs
            with self._breakable(spec):
                with _named(spec):
                    run = run_of(reply, shown)
                self._add(spec, run)
            if self._hangs(spec):
                why = f"left out: {HANGS} runs on this task took too long"
                left_out = completed.drop(spec.task, spec.tuner)
                self.broken += [BrokenRun(left.task, left.tuner, left.seed, why) for left in left_out]

    def _unfinished(self, tasks: Iterable[str]) -> list[RunSpec]:
        """List the runs of the tasks to make: those missing from the log."""
        left = []
        for spec in (spec for task in tasks for spec in self.experiment.specs(task)):
            run = None if self.log is None else self.log.find(spec)
            if run is None:
                left.append(spec)
            else:
                self.runs.append(run)
        return left

    @contextmanager
    def _breakable(self, spec: RunSpec) -> Iterator[None]:
        """Note a run of the body that breaks, in a comparison that continues without it."""
        try:
            yield
        except _Broken as broken:
            if not self.experiment.plan.keep_going:
                raise
            reason = reason_of(broken.error)
            self.broken.append(BrokenRun(spec.task, spec.tuner, spec.seed, reason))

    def _hangs(self, spec: RunSpec) -> bool:
        """Decide if the tuner took too long on this task so often that its other seeds are left out."""
        late = [
            each
            for each in self.broken
            if (each.task, each.tuner) == (spec.task, spec.tuner) and each.reason.startswith(TOOK_LONGER)
        ]
        return len(late) == HANGS

    def _add(self, spec: RunSpec, run: Run) -> None:
        self.runs.append(run)
        if self.log is not None:
            self.log.append(spec, run)
        if self.on_run:
            self.on_run(run, self.benchmarks[run.task].info, len(self.runs), self.planned)
        if self.save and len(self.runs) < self.planned:
            self._save_now_and_then()

    def _save_now_and_then(self) -> None:
        """Save the report, but spend at most a tenth of the time on it, as a report of thousands of runs is large."""
        now = time.monotonic()
        if self.saving > max((now - self.began) / 10, 1.0):
            return
        self._saved(self._report(f"{len(self.runs)} of {self.planned} runs are finished"))
        self.saving += time.monotonic() - now

    @contextmanager
    def _then_winners(self, tasks: Sequence[str]) -> Iterator[None]:
        """Measure the winners of the tasks after the body, even if the body fails, whose error is the one to report."""
        try:
            yield
        except Exception:
            with suppress(Exception):
                for task in tasks:
                    self._measure_winners(self.benchmarks[task])
            raise
        for task in tasks:
            self._measure_winners(self.benchmarks[task])

    def _measure_winners(self, benchmark: Benchmark) -> None:
        """Measure all distinct winners of a task in one session; recorded costs stay unchanged."""
        problem, name = benchmark.problem, benchmark.info.name
        if problem.simulated:
            return
        winners = {
            place: problem.full_space.from_json(run.config)
            for place, run in enumerate(self.runs)
            if run.task == name and run.config is not None
        }
        if not winners:
            return
        distinct = list(dict.fromkeys(winners.values()))
        with problem.open() as opened:
            results = opened.remeasure(distinct)
        costs = {config: validated(result).cost for config, result in zip(distinct, results, strict=True)}
        for place, config in winners.items():
            self.runs[place] = replace(self.runs[place], final_cost=costs[config])

    def _error(self, message: str) -> ComparisonError:
        whole, kept, report = self._cut_short(message)
        reason = f"{message}; {len(self.runs)} of {self.planned} runs are finished{kept}"
        return ComparisonError(whole, report, reason=reason)

    def _cut_short(self, message: str) -> tuple[str, str, Comparison]:
        """Return the whole message, the path of the report if it is in a file, and the report of the finished runs.

        `message` begins with the broken run. If writing the file failed, the report is only in memory.
        """
        count = f"{len(self.runs)} of {self.planned} runs"
        report = self._report(f"{count} are finished: {message}")
        kept = place = ""
        if self.save:
            with suppress(PegboxError):
                self._saved(report)
                place = f" and in {os.fspath(self.save)}"
                kept = f", and kept in {os.fspath(self.save)}"
        return f"{message}; the report of the {count} that were finished is in error.result{place}", kept, report

    def _report(self, note: str) -> Comparison:
        hosts = {run.task: run.host for run in self.runs if run.host}
        infos = [benchmark.info for benchmark in self.benchmarks.values()]
        if not note and self.broken:
            note = f"{len(self.broken)} of {self.planned} runs broke or were left out"
        plan, tasks, tuners = self.experiment.plan, list(self.benchmarks), list(self.experiment.plan.tuners)
        setup = Setup(
            tasks=tuple(replace(info, host=hosts.get(info.name, info.host)) for info in infos),
            tuners=tuple(tuners),
            trials=plan.trials,
            seeds=plan.seeds,
            start=plan.start,
            experience=plan.experience,
            planned=self.planned,
            jobs=self.most_jobs,
            note=note,
            started=self.started,
            seconds=time.monotonic() - self.began,
            version=pegbox.__version__,
            suite="" if self.suite is None else self.suite.name,
            suite_digest="" if self.suite is None else self.suite.digest,
            missing=() if self.suite is None else tuple(map(str, self.suite.missing)),
        )
        places = {seed: place for place, seed in enumerate(plan.seeds)}
        order = sorted(self.runs, key=lambda run: (tasks.index(run.task), tuners.index(run.tuner), places[run.seed]))
        return Comparison(setup, tuple(order), tuple(self.broken))

    def _saved(self, report: Comparison) -> Comparison:
        if self.save:
            report.save(self.save)
        return report
