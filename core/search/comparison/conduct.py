"""An honest comparison of tuners: the same budget, several seeds, one start, winners measured again together.

Every tuner gets each task with each seed, the same random configurations to start from and the same number of trials.
Runs of one seed stand next to each other and their order rotates from seed to seed, so that a machine that warms up or
slows down favours nobody. A run's own minimum is the luckiest of many; therefore all winners of a task are measured
again at the end, side by side, and the final numbers are those. What was recorded before needs no second measurement.
Medians, intervals and tests follow the advice of Hoefler and Belli, "Scientific Benchmarking of Parallel Computing
Systems" (SC 2015).
"""

from __future__ import annotations

import datetime
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pegbox
from pegbox.errors import ComparisonError
from pegbox.hooks import registry
from pegbox.records.record import describe_host
from pegbox.search.callbacks import CallbackLike
from pegbox.search.checks import check_int
from pegbox.search.comparison.contenders import (
    Contender,
    Tuners,
    draw_start,
    interleaved,
    read_seeds,
    read_tasks,
    read_tuners,
)
from pegbox.search.comparison.report import Comparison
from pegbox.search.comparison.runs import Run, Setup, TaskInfo, best_curve, counted_failures, is_cost
from pegbox.search.comparison.started import StartedTuner
from pegbox.search.create import make_tuner
from pegbox.search.loop import run as search
from pegbox.search.outcome import BestTrial, Trial, TuneResult
from pegbox.search.protocols import FeatureSource, Lookup, Measurer, SearchTask, Tuner

if TYPE_CHECKING:
    from pegbox.space import Config

MeasurerFactory: TypeAlias = Callable[[Any], AbstractContextManager[Measurer]]
"""Opens a measurer for a task, e.g. `LocalMeasurer`; leaving the context stops its workers. Where the measurer has a
`clock`, a function that gives seconds, the run is timed by it: a simulation's is virtual."""

RunHearer: TypeAlias = Callable[[Run, TaskInfo, int, int], object]
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
    measurer: MeasurerFactory,
    trials: int = 200,
    seeds: int | Sequence[int] = 10,
    start: int = 1,
    batch_size: int | None = None,
    callbacks: Callable[[str, str, int], Sequence[CallbackLike]] | None = None,
    describe: Callable[[str, SearchTask], TaskInfo] | None = None,
    program: Callable[[SearchTask], FeatureSource | None] | None = None,
    on_run: RunHearer | None = None,
    save: str | os.PathLike[str] | None = None,
    lookup: Lookup = registry.resolve,
    clock: Callable[[], float] = time.monotonic,
) -> Comparison:
    """Run every tuner on every task with every seed.

    Args:
        tuners: specs such as "random" or "xgb:plan_size=32", factories, or a mapping of names to them.
        measurer: opens a measurer for a task; each run gets a fresh one.
        seeds: a count (0, 1, ...) or the seeds themselves.
        start: how many random configurations each run begins with, the same for all tuners with one seed. They are
            told to the tuner and count as trials.
        callbacks: `callbacks(task name, tuner, seed)` makes the callbacks of one run.
        describe: what a report says of a task; of recorded ones, the best recorded too.
        program: the program features of a task, for tuners that declare `program`.
        on_run: hears of each finished run.
        save: a file to which the report so far is written after every run.

    Raises:
        ArgumentError, UnknownName: no tuner, two of one name, an option out of its domain; before anything is measured.
        SpaceError: a task has no valid configuration; likewise.
        ComparisonError: a run broke; the report of the finished ones is in its `result`.
        ComparisonInterrupted: Ctrl-C (a `KeyboardInterrupt`); likewise.
    """
    check_int("trials", trials)
    plan = _Plan(
        tasks=read_tasks(tasks),
        contenders=read_tuners(tuners),
        seeds=read_seeds(seeds),
        trials=trials,
        start=check_int("start", start, minimum=0, maximum=trials),
        measurer=measurer,
        batch_size=batch_size,
        callbacks=callbacks,
        describe=describe or describe_live,
        program=program or (lambda task: None),
        lookup=lookup,
        clock=clock,
    )
    return _Conductor(plan, on_run, save).conduct()


def describe_live(name: str, task: SearchTask) -> TaskInfo:
    """What a report says of a task that is measured here and now."""
    return TaskInfo(name=name, target=str(getattr(task, "target", "")), flop=task.flop, host=describe_host())


@dataclass(frozen=True)
class _Plan:
    """Everything that was decided before the first run."""

    tasks: Mapping[str, SearchTask]
    contenders: Sequence[Contender]
    seeds: tuple[int, ...]
    trials: int
    start: int
    measurer: MeasurerFactory
    batch_size: int | None
    callbacks: Callable[[str, str, int], Sequence[CallbackLike]] | None
    describe: Callable[[str, SearchTask], TaskInfo]
    program: Callable[[SearchTask], FeatureSource | None]
    lookup: Lookup
    clock: Callable[[], float]

    @property
    def planned(self) -> int:
        return len(self.tasks) * len(self.contenders) * len(self.seeds)


class _Conductor:
    """A comparison in progress."""

    def __init__(self, plan: _Plan, on_run: RunHearer | None, save: str | os.PathLike[str] | None) -> None:
        self.plan = plan
        self.on_run = on_run
        self.save = save
        self.infos = {name: plan.describe(name, task) for name, task in plan.tasks.items()}
        self.programs = {name: plan.program(task) for name, task in plan.tasks.items()}
        self.runs: list[Run] = []
        self.winners: dict[str, list[Config | None]] = {name: [] for name in plan.tasks}
        self.began = time.monotonic()
        self.started = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")

    def conduct(self) -> Comparison:
        self._rehearse()
        try:
            for name in self.plan.tasks:
                self._task(name)
        except KeyboardInterrupt as error:
            raise ComparisonInterrupted(*self._cut_short("interrupted")) from error
        except Exception as error:
            raise ComparisonError(*self._cut_short(str(error) or type(error).__name__)) from error
        return self._saved(self._report(""))

    def _rehearse(self) -> None:
        """Make every tuner and draw every start once: what cannot work is said before anything is measured."""
        for name, task in self.plan.tasks.items():
            draw_start(name, task, self.plan.seeds[0], 1)
            for contender in self.plan.contenders:
                self._tuner(name, contender, self.plan.seeds[0])

    def _task(self, name: str) -> None:
        try:
            for contender, seed in interleaved(self.plan.contenders, self.plan.seeds):
                self._run(name, contender, seed)
        except Exception:
            with suppress(Exception):  # the first error is the one to tell of
                self._measure_winners(name)
            raise
        self._measure_winners(name)

    def _run(self, name: str, contender: Contender, seed: int) -> None:
        plan, task = self.plan, self.plan.tasks[name]
        tuner = StartedTuner(self._tuner(name, contender, seed), draw_start(name, task, seed, plan.start))
        with plan.measurer(task) as opened:
            result = search(
                tuner,
                opened,
                trials=plan.trials,
                batch_size=plan.batch_size,
                callbacks=plan.callbacks(name, contender.name, seed) if plan.callbacks else (),
                space=task.space,
                flop=task.flop,
                name=contender.name,
                finalists=0 if self.infos[name].simulated else 1,
                clock=getattr(opened, "clock", plan.clock),
            )
        if result.stopped_because == "interrupted":
            raise KeyboardInterrupt
        self._add(name, contender.name, seed, result)

    def _tuner(self, name: str, contender: Contender, seed: int) -> Tuner:
        space, program = self.plan.tasks[name].space, self.programs[name]
        return make_tuner(contender.tuner, space, seed=seed, program=program, lookup=self.plan.lookup)

    def _add(self, task: str, tuner: str, seed: int, result: TuneResult) -> None:
        winner = _winner(result)
        self.winners[task].append(None if winner is None else winner.config)
        self.runs.append(_run(task, tuner, seed, result, winner))
        if self.on_run:
            self.on_run(self.runs[-1], self.infos[task], len(self.runs), self.plan.planned)
        if self.save and len(self.runs) < self.plan.planned:
            self._saved(self._report("not finished yet"))

    def _measure_winners(self, name: str) -> None:
        """All distinct winners of a task, in one session; recorded costs are what they are."""
        distinct = list(dict.fromkeys(config for config in self.winners[name] if config is not None))
        if self.infos[name].simulated or not distinct:
            return
        with self.plan.measurer(self.plan.tasks[name]) as opened:
            results = opened.remeasure(distinct)
        costs = {config: result.cost for config, result in zip(distinct, results, strict=True)}
        places = [place for place, run in enumerate(self.runs) if run.task == name]
        for place, config in zip(places, self.winners[name], strict=True):
            if config is not None:
                cost = costs[config]
                self.runs[place] = replace(self.runs[place], final_cost=cost if is_cost(cost) else math.inf)

    def _cut_short(self, why: str) -> tuple[str, Comparison]:
        """The message and the report of what is finished."""
        count = f"{len(self.runs)} of {self.plan.planned} runs"
        report = self._saved(self._report(f"{count} are finished: {why}"))
        kept = f" and in {os.fspath(self.save)}" if self.save else ""
        return f"{why}; the report of the {count} that were finished is in error.result{kept}", report

    def _report(self, note: str) -> Comparison:
        plan = self.plan
        tuners = [contender.name for contender in plan.contenders]
        tasks = list(plan.tasks)
        setup = Setup(
            tasks=tuple(self.infos.values()),
            tuners=tuple(tuners),
            trials=plan.trials,
            seeds=plan.seeds,
            start=plan.start,
            planned=plan.planned,
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


def _winner(result: TuneResult) -> Trial | BestTrial | None:
    """What the run's own second look found best, or else its fastest trial; never one whose cost is none."""
    if result.best is not None and is_cost(result.best.cost):
        return result.best
    return min((trial for trial in result.trials if is_cost(trial.cost)), key=lambda trial: trial.cost, default=None)


def _run(task: str, tuner: str, seed: int, result: TuneResult, winner: Trial | BestTrial | None) -> Run:
    costs = [trial.cost for trial in result.trials]
    return Run(
        task=task,
        tuner=tuner,
        seed=seed,
        curve=best_curve(costs),
        final_cost=math.inf if winner is None else winner.cost,
        config=None if winner is None else winner.config.to_json(),
        failures=counted_failures(costs, result.failures),
        seconds=result.elapsed,
        tuner_seconds=sum(result.phases.get(phase, 0.0) for phase in ("propose", "learn")),
        stopped_because=result.stopped_because,
        model=result.model if result.model is not None and result.model.pairs else None,
    )
