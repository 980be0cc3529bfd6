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
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pegbox
from pegbox.checks import check_instance, check_int
from pegbox.comparison.computation import with_computations
from pegbox.comparison.contenders import (
    Contender,
    Tuners,
    interleaving,
    read_seeds,
    read_tasks,
    read_tuners,
)
from pegbox.comparison.jsonform import REPORT
from pegbox.comparison.report import Comparison
from pegbox.comparison.runs import Run, Setup, TaskInfo
from pegbox.comparison.testbed import CommonStartTuner, Testbed, draw_start, open_testbed
from pegbox.errors import ComparisonError, TuningError
from pegbox.output import check_output
from pegbox.search.factory.base import TunerInputs
from pegbox.search.factory.create import declared_inputs, make_tuner
from pegbox.search.loop.callbacks import CallbackLike
from pegbox.search.loop.outcome import TuneResult, validated
from pegbox.search.loop.tuning import run as search
from pegbox.search.models.experience import shipped_experience
from pegbox.search.problem import MeasurerFactory
from pegbox.search.protocols import FeatureSource, Prior, SearchTask, Tuner

if TYPE_CHECKING:
    from pegbox.space import Config

RunListener: TypeAlias = Callable[[Run, TaskInfo, int, int], object]
"""Hears of each finished run: the run, its task, how many are finished, how many there will be."""


class ComparisonInterrupted(KeyboardInterrupt):
    """Ctrl-C ended a comparison; `result` is the `Comparison` of the runs that were finished."""

    def __init__(self, message: str, result: Comparison) -> None:
        super().__init__(message)
        self.result = result


@dataclass(frozen=True)
class Plan:
    """What all runs of a comparison have in common: each of the `contenders` gets each of the `seeds`.

    `start` is how many random configurations each run begins with, the same for all tuners with one seed; they are told
    to the tuner and count among its `trials`. `callbacks(task name, tuner, seed)` makes the callbacks of one run,
    `program` the program features of a task, for tuners that declare them. Without `experience` no tuner is given any.
    """

    contenders: Sequence[Contender]
    seeds: tuple[int, ...]
    trials: int = 200
    start: int = 1
    experience: bool = True
    batch_size: int | None = None
    callbacks: Callable[[str, str, int], Sequence[CallbackLike]] | None = None
    program: Callable[[SearchTask], FeatureSource | None] | None = None

    def __post_init__(self) -> None:
        check_int("start", self.start, minimum=0, maximum=check_int("trials", self.trials))
        check_instance("experience", self.experience, bool, "True, or False to compare tuners without it")


def compare(
    tasks: SearchTask | Sequence[SearchTask],
    tuners: Tuners,
    *,
    measurer: MeasurerFactory | None = None,
    runner: object = "local",
    seeds: int | Sequence[int] = 10,
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
        on_run: hears of each finished run.
        save: a file to which the report so far is written after every run.
        options: the other fields of the `Plan`.

    Raises:
        ArgumentError, UnknownName: no tuner, two of one name, an option out of its domain; before anything is measured.
        SpaceError: a task has no valid configuration; likewise.
        RecordError: records of another task or space; likewise.
        ComparisonError: a run broke; the report of the finished ones is in its `result`.
        ComparisonInterrupted: Ctrl-C (a `KeyboardInterrupt`); likewise.
    """
    plan = Plan(read_tuners(tuners), read_seeds(seeds), **options)
    check_output(save, REPORT)
    testbeds = [open_testbed(name, task, measurer=measurer, runner=runner) for name, task in read_tasks(tasks).items()]
    return _Experiment(plan, with_computations(testbeds), on_run, save).run()


class _Experiment:
    """A comparison in progress."""

    def __init__(
        self, plan: Plan, testbeds: Sequence[Testbed], on_run: RunListener | None, save: str | os.PathLike[str] | None
    ) -> None:
        self.plan = plan
        self.testbeds = testbeds
        self.features: dict[str, FeatureSource | None] = {}
        self.on_run = on_run
        self.save = save
        self.planned = len(testbeds) * len(plan.contenders) * len(plan.seeds)
        self.runs: list[Run] = []
        self.winners: dict[str, list[Config | None]] = {testbed.info.name: [] for testbed in testbeds}
        self.began = time.monotonic()
        self.started = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")

    def run(self) -> Comparison:
        self._rehearse()
        try:
            for testbed in self.testbeds:
                self._task(testbed)
        except KeyboardInterrupt as error:
            raise ComparisonInterrupted(*self._cut_short("interrupted")) from error
        except Exception as error:
            raise ComparisonError(*self._cut_short(_reason(error))) from error
        return self._saved(self._report(""))

    def _rehearse(self) -> None:
        """Make every tuner and draw every start once: what cannot work is said before anything is measured."""
        for testbed in self.testbeds:
            draw_start(testbed, self.plan.seeds[0], 1)
            for contender in self.plan.contenders:
                self._tuner(testbed, contender, self.plan.seeds[0])

    def _task(self, testbed: Testbed) -> None:
        try:
            for contender, seed in interleaving(self.plan.contenders, self.plan.seeds):
                self._run(testbed, contender, seed)
        except Exception:
            with suppress(Exception):  # the first error is the one to tell of
                self._measure_winners(testbed)
            raise
        self._measure_winners(testbed)

    def _run(self, testbed: Testbed, contender: Contender, seed: int) -> None:
        plan, name = self.plan, testbed.info.name
        made = self._tuner(testbed, contender, seed)
        tuner = CommonStartTuner(made, draw_start(testbed, seed, plan.start))
        with testbed.problem.open() as opened:
            result = search(
                tuner,
                opened,
                trials=plan.trials,
                batch_size=plan.batch_size,
                callbacks=plan.callbacks(name, contender.name, seed) if plan.callbacks else (),
                space=testbed.problem.whole,
                searched=testbed.problem.space,
                flop=testbed.problem.flop,
                bytes_moved=testbed.problem.bytes_moved,
                name=contender.name,
                finalists=0 if testbed.problem.simulated else 1,
            )
        if result.stopped_because == "interrupted":
            raise KeyboardInterrupt
        experienced = self._experience(testbed, contender) is not None and getattr(made, "experienced", True)
        self._add(testbed, contender.name, seed, result, experienced=bool(experienced))

    def _tuner(self, testbed: Testbed, contender: Contender, seed: int) -> Tuner:
        given = contender.tuner
        takes = declared_inputs(given)
        program = self._program(testbed) if "program" in takes else None
        inputs: TunerInputs = {"program": program, "experience": self._experience(testbed, contender)}
        return make_tuner(given, testbed.problem.space, seed=seed, **inputs)

    def _experience(self, testbed: Testbed, contender: Contender) -> Prior | None:
        """What the tuner is given of other workloads."""
        wanted = self.plan.experience and "experience" in declared_inputs(contender.tuner)
        return shipped_experience(testbed.problem.task) if wanted else None

    def _program(self, testbed: Testbed) -> FeatureSource | None:
        """The program features of the task, made when the first tuner declares that it wants them."""
        name = testbed.info.name
        if name not in self.features:
            self.features[name] = self.plan.program(testbed.problem.task) if self.plan.program else None
        return self.features[name]

    def _add(self, testbed: Testbed, tuner: str, seed: int, result: TuneResult, *, experienced: bool) -> None:
        self.winners[testbed.info.name].append(None if result.best is None else result.best.config)
        self.runs.append(Run.of(testbed.info.name, tuner, seed, result, experienced=experienced))
        if self.on_run:
            self.on_run(self.runs[-1], testbed.info, len(self.runs), self.planned)
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

    def _cut_short(self, why: str) -> tuple[str, Comparison]:
        """The message and the report of what is finished."""
        count = f"{len(self.runs)} of {self.planned} runs"
        report = self._saved(self._report(f"{count} are finished: {why}"))
        kept = f" and in {os.fspath(self.save)}" if self.save else ""
        return f"{why}; the report of the {count} that were finished is in error.result{kept}", report

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
            note=note,
            started=self.started,
            seconds=time.monotonic() - self.began,
            version=pegbox.__version__,
        )
        order = sorted(self.runs, key=lambda run: (tasks.index(run.task), tuners.index(run.tuner)))
        return Comparison(setup, tuple(order))

    def _saved(self, report: Comparison) -> Comparison:
        if self.save:
            report.save(self.save)
        return report


def _reason(error: Exception) -> str:
    """What broke, without what a tuning run says of its own trials."""
    return error.reason if isinstance(error, TuningError) else f"{type(error).__name__}: {error}"
