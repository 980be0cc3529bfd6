"""The runs of a comparison: equal budget, several seeds, a common start, winners measured again together.

Every tuner gets each task with each seed, the same random configurations to start from and the same number of trials.
Runs of one seed stand next to each other and their order rotates from seed to seed, so that a machine that warms up or
slows down favours nobody. A run's own minimum is the luckiest of many; therefore all winners of a task are measured
again at the end, side by side, and the final numbers are those. What was recorded before needs no second measurement.
Medians, intervals and tests follow the advice of Hoefler and Belli, "Scientific Benchmarking of Parallel Computing
Systems" (SC 2015).
"""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pegbox
from pegbox.comparison.answers import Answers, finish_of, tell_of
from pegbox.comparison.computation import with_computations
from pegbox.comparison.contenders import Tuners, read_seeds, read_tasks, read_tuners
from pegbox.comparison.contest import Contest, Finish, Plan, RunSpec, reason_of
from pegbox.comparison.jsonform import REPORT
from pegbox.comparison.parcel import pack
from pegbox.comparison.pool import RunPool, open_pool, read_jobs
from pegbox.comparison.report import Comparison
from pegbox.comparison.run_job import Notice
from pegbox.comparison.runs import Run, Setup, TaskInfo
from pegbox.comparison.testbed import Testbed, open_testbed
from pegbox.errors import ComparisonError, PegboxError
from pegbox.output import check_output
from pegbox.search.loop.outcome import validated
from pegbox.search.problem import MeasurerFactory
from pegbox.search.protocols import SearchTask

if TYPE_CHECKING:
    from pegbox.space import Config

RunListener: TypeAlias = Callable[[Run, TaskInfo, int, int], object]
"""Hears of each finished run: the run, its task, how many are finished, how many there will be."""


class ComparisonInterrupted(KeyboardInterrupt):
    """Ctrl-C ended a comparison; `result` is the `Comparison` of the runs that were finished."""

    def __init__(self, message: str, result: Comparison) -> None:
        super().__init__(message)
        self.result = result


def compare(
    tasks: SearchTask | Sequence[SearchTask],
    tuners: Tuners,
    *,
    measurer: MeasurerFactory | None = None,
    runner: object = "local",
    seeds: int | Sequence[int] = 10,
    jobs: Any = 1,
    on_run: RunListener | None = None,
    save: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Comparison:
    """Run every tuner on every task with every seed.

    Args:
        tasks: one or several; a `RecordedSpace` among them is simulated.
        tuners: specs such as "random" or "xgb:plan_size=32", factories, or a mapping of names to them.
        measurer: opens a measurer for a task; each run gets a fresh one. Where all is recorded none is needed.
        runner: a `SimulatedRunner` simulates every task; any other one is the measurer's affair.
        seeds: a count (0, 1, ...) or the seeds themselves.
        jobs: how many runs are made at the same time, "auto", or a cluster; see `pegbox.comparison.pool`.
        on_run: hears of each finished run.
        save: a file to which the report so far is written after every run.
        options: the other fields of the `Plan`.

    Raises:
        ArgumentError, UnknownName: no tuner, two of one name, an option out of its domain; before anything is measured.
        SpaceError: a task has no valid configuration; likewise.
        RecordError: records of another task or space; likewise.
        MeasureError: no cluster answers; likewise.
        ComparisonError: a run broke; the report of the finished ones is in its `result`.
        ComparisonInterrupted: Ctrl-C (a `KeyboardInterrupt`); likewise.
    """
    plan = Plan(read_tuners(tuners), read_seeds(seeds), **options)
    check_output(save, REPORT)
    testbeds = [open_testbed(name, task, measurer=measurer, runner=runner) for name, task in read_tasks(tasks).items()]
    contest = Contest(plan, with_computations(testbeds))
    return _Experiment(contest, read_jobs(jobs, contest), on_run, save).run()


class _Broken(Exception):
    """The run of an entry has broken; `error` says how."""

    def __init__(self, entry: RunSpec, error: Exception) -> None:
        super().__init__(entry, error)
        self.entry, self.error = entry, error


@contextmanager
def _named(entry: RunSpec) -> Iterator[None]:
    """Errors of the body are those of this run."""
    try:
        yield
    except Exception as error:
        raise _Broken(entry, error) from error


class _Experiment:
    """A comparison in progress."""

    def __init__(
        self, contest: Contest, jobs: Any, on_run: RunListener | None, save: str | os.PathLike[str] | None
    ) -> None:
        self.contest = contest
        self.plan = contest.plan
        self.testbeds = contest.testbeds
        self.jobs = jobs
        self.most_jobs = 1
        self.on_run = on_run
        self.save = save
        self.planned = len(contest.testbeds) * len(contest.plan.contenders) * len(contest.plan.seeds)
        self.runs: list[Run] = []
        self.winners: dict[str, list[Config | None]] = {testbed.info.name: [] for testbed in contest.testbeds}
        self.began = time.monotonic()
        self.started = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")

    def run(self) -> Comparison:
        self.contest.rehearse()
        pool = None if self.jobs == 1 else open_pool(self.jobs, pack(self.contest))
        try:
            if pool is None:
                for task in range(len(self.testbeds)):
                    self._one_by_one(task)
            else:
                self._side_by_side(pool)
            return self._saved(self._report(""))
        except KeyboardInterrupt as error:
            message, _, report = self._cut_short("interrupted")
            raise ComparisonInterrupted(message, report) from error
        except _Broken as broken:
            told = f"{self.contest.name(broken.entry)}: {reason_of(broken.error)}"
            raise self._error(told) from broken.error
        except Exception as error:
            raise self._error(reason_of(error)) from error
        finally:
            if pool is not None:
                pool.close()

    def _one_by_one(self, task: int) -> None:
        try:
            for entry in self.contest.entries(task):
                with _named(entry):
                    finish = self.contest.run(entry)
                self._add(entry, finish)
        except Exception:
            with suppress(Exception):  # the first error is the one to tell of
                self._measure_winners(self.testbeds[task])
            raise
        self._measure_winners(self.testbeds[task])

    def _side_by_side(self, pool: RunPool) -> None:
        """All runs of all tasks; where one breaks, those that have begun are finished."""
        entries = [entry for task in range(len(self.testbeds)) for entry in self.contest.entries(task)]
        told: set[Notice] = set()
        found = Answers(pool, entries)
        try:
            for entry, answer in found:
                self.most_jobs = found.jobs
                tell_of(answer, told)
                with _named(entry):
                    finish = finish_of(answer)
                self._add(entry, finish)
        except Exception:
            with suppress(Exception):
                self._measure_all_winners()
            raise
        self._measure_all_winners()

    def _measure_all_winners(self) -> None:
        for testbed in self.testbeds:
            self._measure_winners(testbed)

    def _add(self, entry: RunSpec, finish: Finish) -> None:
        info = self.testbeds[entry.task].info
        self.winners[info.name].append(self.contest.winner(entry, finish))
        self.runs.append(finish.run)
        if self.on_run:
            self.on_run(self.runs[-1], info, len(self.runs), self.planned)
        if self.save and len(self.runs) < self.planned:
            self._saved(self._report(f"{len(self.runs)} of {self.planned} runs are finished"))

    def _measure_winners(self, testbed: Testbed) -> None:
        """All distinct winners of a task, in one session; recorded costs are what they are."""
        winners = self.winners[testbed.info.name]
        distinct = list(dict.fromkeys(config for config in winners if config is not None))
        if testbed.problem.simulated or not distinct:
            return
        with testbed.problem.open() as opened:
            results = opened.remeasure(distinct)
        costs = {config: validated(result).cost for config, result in zip(distinct, results, strict=True)}
        places = [place for place, run in enumerate(self.runs) if run.task == testbed.info.name]
        for place, config in zip(places, winners, strict=True):
            if config is not None:
                self.runs[place] = replace(self.runs[place], final_cost=costs[config])

    def _error(self, told: str) -> ComparisonError:
        message, kept, report = self._cut_short(told)
        return ComparisonError(message, report, reason=f"{told}; {self._count()} are finished{kept}")

    def _count(self) -> str:
        return f"{len(self.runs)} of {self.planned} runs"

    def _cut_short(self, told: str) -> tuple[str, str, Comparison]:
        """Return the message, the place of the report if it is in a file, and the report of the finished runs.

        `told` begins with the run that broke. It may be the file that broke: the report is only in memory then.
        """
        count = self._count()
        report = self._report(f"{count} are finished: {told}")
        kept = place = ""
        if self.save:
            with suppress(PegboxError):
                self._saved(report)
                place = f" and in {os.fspath(self.save)}"
                kept = f", and kept in {os.fspath(self.save)}"
        return f"{told}; the report of the {count} that were finished is in error.result{place}", kept, report

    def _report(self, note: str) -> Comparison:
        hosts = {run.task: run.host for run in self.runs if run.host}
        infos = tuple(replace(t.info, host=hosts.get(t.info.name, t.info.host)) for t in self.testbeds)
        tasks, tuners = [info.name for info in infos], [contender.name for contender in self.plan.contenders]
        setup = Setup(
            tasks=infos,
            tuners=tuple(tuners),
            trials=self.plan.trials,
            seeds=self.plan.seeds,
            start=self.plan.start,
            experience=self.plan.experience,
            planned=self.planned,
            jobs=self.most_jobs,
            note=note,
            started=self.started,
            seconds=time.monotonic() - self.began,
            version=pegbox.__version__,
        )
        places = {seed: place for place, seed in enumerate(self.plan.seeds)}
        order = sorted(self.runs, key=lambda run: (tasks.index(run.task), tuners.index(run.tuner), places[run.seed]))
        return Comparison(setup, tuple(order))

    def _saved(self, report: Comparison) -> Comparison:
        if self.save:
            report.save(self.save)
        return report
