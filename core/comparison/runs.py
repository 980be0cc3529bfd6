"""The results of a comparison as plain data: its setup, and one curve per task, tuner and seed."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

from pegbox.checks import check_cost, check_instance, check_int
from pegbox.comparison.landscape import Landscape
from pegbox.errors import ArgumentError
from pegbox.records.recorded_space import seconds_of
from pegbox.search.loop.outcome import TuneResult
from pegbox.search.loop.trial import failure_counts, format_counts
from pegbox.search.models.report import ModelReport
from pegbox.shown import value_text
from pegbox.task.speed_text import format_cost, format_speed

_MOST_TRIALS = 2**53  # the largest count of a float
NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class Run:
    """The run of a tuner on a task with a seed. Costs and times are seconds; infinity if nothing valid was found.

    `curve` is the best cost so far after each trial; `final_cost` is the winner's, measured again together with the
    others (as recorded, if the run was simulated). `failures` counts failed trials by kind. `tuner_seconds` is the time
    of the tuner itself (proposing and learning), `seconds` the time of the whole run: on the virtual clock if
    simulated. `dropped` counts proposals that were left out: repeated, or more than requested. `experienced` is True
    for a tuner that began with experience: measurements of other workloads. `run_queue_wait` is the share of its real
    time in which a simulated run waited for a core that other programs, or other runs, used. `times` are the recorded
    seconds of compiling and running until the end of each trial, without those of the tuner; empty without records.
    `library` names the library of the tuner's optimizer with its version; it is empty for pegbox's own tuners.
    """

    task: str
    tuner: str
    seed: int
    curve: tuple[float, ...]
    final_cost: float
    config: Any = None
    failures: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    tuner_seconds: float = 0.0
    stopped_because: str = "trials"
    host: str = ""
    """The machines of a cluster that measured."""

    model: ModelReport | None = None
    dropped: int = 0
    experienced: bool = False
    run_queue_wait: float = 0.0
    times: tuple[float, ...] = ()
    library: str = ""

    @classmethod
    def of(cls, task: str, tuner: str, seed: int, result: TuneResult, *, experienced: bool = False) -> Run:
        """Make the run of a tuning result, with its own final cost."""
        return cls(
            task=task,
            tuner=tuner,
            seed=seed,
            curve=tuple(result.best_costs()),
            final_cost=math.inf if result.best is None else result.best.cost,
            config=None if result.best is None else result.best.config.to_json(),
            failures=failure_counts(trial.result for trial in result.trials),
            seconds=result.elapsed,
            tuner_seconds=sum(result.phases.get(phase, 0.0) for phase in ("propose", "learn")),
            stopped_because=result.stopped_because,
            host=next((trial.result.host for trial in result.trials if trial.result.host), ""),
            model=result.model if result.model is not None and result.model.pairs else None,
            dropped=sum(result.dropped.values()),
            experienced=experienced,
        )

    def simulated(self, result: TuneResult) -> Run:
        """Add the recorded seconds of each trial of the tuning result."""
        check_instance("result", result, TuneResult, "the result of a search")
        spent = (sum(seconds_of(trial.result)) for trial in result.trials if not trial.remeasured)
        return replace(self, times=tuple(accumulate(spent)))

    @property
    def not_recorded(self) -> int:
        """The number of trials without a recorded result in a simulation."""
        return self.failures.get(NOT_RECORDED, 0)

    @property
    def invalid(self) -> int:
        """The number of failed trials, except those without a recorded result."""
        return sum(self.failures.values()) - self.not_recorded

    def best_after(self, trials: int) -> float:
        """Find the best cost after `trials`; a run that exhausted its space earlier keeps its best."""
        trials = check_int("trials", trials, minimum=0)
        return self.curve[min(trials, len(self.curve)) - 1] if self.curve and trials > 0 else math.inf

    def trials_to(self, cost: float) -> float:
        """Count the trials until the best was at most `cost`; infinity if it never was."""
        cost = check_cost("cost", cost)
        found = (count for count, best in enumerate(self.curve, start=1) if best <= cost < math.inf)
        return float(next(found, math.inf))

    def area(self, best_known: float, trials: int) -> float:
        """Compute the mean over `trials` of the share of the best known speed: 0 until something valid is found.

        A run that ended early keeps its best for the remaining trials.
        """
        trials = check_int("trials", trials, maximum=_MOST_TRIALS)
        best_known = check_cost("best_known", best_known)
        if not 0 < best_known < math.inf or not self.curve:
            return 0.0
        left = max(trials - len(self.curve), 0)
        total = math.fsum(best_known / cost for cost in self.curve[:trials]) + left * best_known / self.curve[-1]
        return total / trials


@dataclass(frozen=True)
class BrokenRun:
    """A run without a result, with the reason: the tuner raised, took too long, or was left out after others had."""

    task: str
    tuner: str
    seed: int
    reason: str

    def __str__(self) -> str:
        return f"{self.task}, seed {self.seed}, {self.tuner}: {self.reason}"


@dataclass(frozen=True)
class TaskInfo:
    """A task of a comparison. `configurations` counts the valid ones if that is known; `unit` is that of its costs.

    `recorded_best` is the best cost of the recorded space of the simulation, None for live runs; `source` and `host`
    are the origin of the costs. `computation` is the name of the first task that computes the same thing, on one
    machine, and empty if no other does; `apart` explains why a task with the arithmetic of an earlier one is not
    compared with it. `landscape` has the features of the space and random search's expectation, if its costs are known;
    `digest` is the digest of its content, empty if unknown.
    """

    name: str
    target: str = ""
    flop: float = 0.0
    configurations: int | None = None
    recorded_best: float | None = None
    source: str = ""
    host: str = ""
    bytes_moved: float = 0.0
    unit: str = "s"
    computation: str = ""
    apart: str = ""
    landscape: Landscape | None = None
    digest: str = ""

    def speed(self, seconds: float) -> str:
        """Write the speed of a call of that many seconds, in words; empty if unknown."""
        return format_speed(seconds, flop=self.flop, bytes_moved=self.bytes_moved)

    @property
    def simulated(self) -> bool:
        return self.recorded_best is not None


@dataclass(frozen=True)
class Setup:
    """The settings of a comparison. `started` is ISO 8601, `seconds` its duration in real time.

    Without `experience`, no tuner got measurements of other workloads. `jobs` is the number of simultaneous runs.
    `planned` counts all planned runs; `note` explains why some are missing, or is empty. `suite` and `suite_digest`
    name the suite of the tasks, and `missing` are its problems that could not be opened, with the reasons.
    """

    tasks: tuple[TaskInfo, ...]
    tuners: tuple[str, ...]
    trials: int
    seeds: tuple[int, ...]
    start: int = 1
    experience: bool = True
    planned: int = 0
    jobs: int = 1
    note: str = ""
    started: str = ""
    seconds: float = 0.0
    version: str = ""
    suite: str = ""
    suite_digest: str = ""
    missing: tuple[str, ...] = ()

    @property
    def simulated(self) -> bool:
        """True if the results of any task come from records."""
        return any(task.simulated for task in self.tasks)

    def task(self, name: str) -> TaskInfo:
        """Find the task of that name. Raises `ArgumentError` if there is none."""
        for task in self.tasks:
            if isinstance(name, str) and task.name == name:
                return task
        known = ", ".join(repr(task.name) for task in self.tasks)
        raise ArgumentError(f"no task is called {value_text(name)} in this comparison; its tasks are {known}")


def print_run(run: Run, task: TaskInfo, number: int, planned: int) -> None:
    """Print to standard error."""
    print(run_line(run, task, number, planned), file=sys.stderr, flush=True)


def run_line(run: Run, task: TaskInfo, number: int, planned: int) -> str:
    """Describe a run, its result and its time."""
    place = f"[{number:>{len(str(planned))}}/{planned}]"
    best = run.curve[-1] if run.curve else math.inf
    found = format_cost(best, task.unit) if best < math.inf else "nothing valid"
    speed = f" ({written})" if (written := task.speed(best)) else ""
    failed = f", {format_counts(run.failures)}" if run.failures else ""
    early = f", {run.stopped_because}" if run.stopped_because != "trials" else ""
    clock = "virtual s" if task.simulated else "s"
    spent = f"{len(run.curve)} trials, {run.seconds:.1f} {clock}{failed}{early}"
    return f"{place} {task.name}, seed {run.seed}, {run.tuner}: {found}{speed}; {spent}"
