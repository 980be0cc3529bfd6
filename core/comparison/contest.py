"""The contest: each tuner on each task with each seed, and how one of these runs is made."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pegbox.checks import check_instance, check_int
from pegbox.comparison.contenders import Contender, interleaving
from pegbox.comparison.runs import Run
from pegbox.comparison.testbed import CommonStartTuner, Testbed, draw_start
from pegbox.errors import TuningError
from pegbox.measure.machine.blas import blas_threads
from pegbox.measure.machine.run_delay import Reading, reading
from pegbox.origin import explained
from pegbox.search.factory.base import TunerInputs
from pegbox.search.factory.create import declared_inputs, make_tuner
from pegbox.search.loop.callbacks import CallbackLike
from pegbox.search.loop.options import SearchOptions
from pegbox.search.loop.outcome import TuneResult
from pegbox.search.loop.tuning import run as search
from pegbox.search.models.experience import shipped_experience
from pegbox.search.protocols import FeatureSource, Prior, SearchTask, Tuner

if TYPE_CHECKING:
    from pegbox.space import Config


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


@dataclass(frozen=True)
class RunSpec:
    """One run that is to be made: places in the lists of tasks and of contenders, and the seed."""

    task: int
    contender: int
    seed: int


@dataclass(frozen=True)
class Finish:
    """A run that was made, and the digits of the configuration that won it; None where none was valid."""

    run: Run
    winner: tuple[int, ...] | None


class Contest:
    """The runs of a plan on testbeds, made one at a time in this process."""

    def __init__(self, plan: Plan, testbeds: Sequence[Testbed]) -> None:
        self.plan = plan
        self.testbeds = testbeds
        self._features: dict[int, FeatureSource | None] = {}

    def entries(self, task: int) -> list[RunSpec]:
        """All runs on a task, in the order of their making."""
        contenders = list(self.plan.contenders)
        return [
            RunSpec(task, contenders.index(contender), seed)
            for contender, seed in interleaving(contenders, self.plan.seeds)
        ]

    def rehearse(self) -> None:
        """Make every tuner and draw every start once: what cannot work is said before anything is measured."""
        for task, testbed in enumerate(self.testbeds):
            draw_start(testbed, self.plan.seeds[0], 1)
            for contender in range(len(self.plan.contenders)):
                self._tuner(RunSpec(task, contender, self.plan.seeds[0]))

    def name(self, entry: RunSpec) -> str:
        """The run in messages, as in its line of progress."""
        task, contender = self.testbeds[entry.task].info.name, self.plan.contenders[entry.contender].name
        return f"{task}, seed {entry.seed}, {contender}"

    def run(self, entry: RunSpec) -> Finish:
        """Make one run. Raises `TuningError` where the tuner breaks, `KeyboardInterrupt` on Ctrl-C."""
        testbed, contender = self.testbeds[entry.task], self.plan.contenders[entry.contender]
        with _threads(testbed):
            began = reading() if testbed.side_by_side else None
            made = self._tuner(entry)
            result = self._search(entry, made)
            waited = _waited(began, reading())
        if result.stopped_because == "interrupted":
            raise KeyboardInterrupt
        experienced = self._experience(entry) is not None and getattr(made, "experienced", True)
        run = Run.of(testbed.info.name, contender.name, entry.seed, result, experienced=bool(experienced))
        run = replace(run, waited=waited)
        return Finish(run, None if result.best is None else tuple(result.best.config.digits))

    def _search(self, entry: RunSpec, made: Tuner) -> TuneResult:
        plan, testbed, name = self.plan, self.testbeds[entry.task], self.plan.contenders[entry.contender].name
        problem = testbed.problem
        with problem.open() as opened:
            return search(
                CommonStartTuner(made, draw_start(testbed, entry.seed, plan.start)),
                opened,
                SearchOptions(
                    plan.trials,
                    batch_size=plan.batch_size,
                    finalists=0 if problem.simulated else 1,
                    callbacks=plan.callbacks(testbed.info.name, name, entry.seed) if plan.callbacks else (),
                    name=name,
                ),
                subject=problem.subject,
                space=problem.whole,
                searched=problem.space,
            )

    def _tuner(self, entry: RunSpec) -> Tuner:
        given = self.plan.contenders[entry.contender].tuner
        takes = declared_inputs(given)
        program = self._program(entry.task) if "program" in takes else None
        inputs: TunerInputs = {"program": program, "experience": self._experience(entry)}
        return make_tuner(given, self.testbeds[entry.task].problem.space, seed=entry.seed, **inputs)

    def _experience(self, entry: RunSpec) -> Prior | None:
        """Give the tuner's experience with other workloads."""
        tuner = self.plan.contenders[entry.contender].tuner
        wanted = self.plan.experience and "experience" in declared_inputs(tuner)
        return shipped_experience(self.testbeds[entry.task].problem.task) if wanted else None

    def _program(self, task: int) -> FeatureSource | None:
        """The program features of the task, made when the first tuner declares that it wants them."""
        if task not in self._features:
            self._features[task] = self.plan.program(self.testbeds[task].problem.task) if self.plan.program else None
        return self._features[task]

    def winner(self, entry: RunSpec, finish: Finish) -> Config | None:
        """The configuration that won a run."""
        space = self.testbeds[entry.task].problem.whole
        return None if finish.winner is None else space.config(finish.winner)


@contextlib.contextmanager
def _threads(testbed: Testbed) -> Iterator[None]:
    """One thread of linear algebra in runs that may be made side by side: the sums, which depend on the number of
    threads, are then the same however many runs are made at once."""
    with blas_threads(1) if testbed.side_by_side else contextlib.nullcontext():
        yield


def _waited(began: Reading | None, ended: Reading | None) -> float:
    """The share of the time in which this thread waited for a core that others had; 0 where it is not known."""
    if began is None or ended is None:
        return 0.0
    return min(1.0, (ended.waited - began.waited) / max(1, ended.clock - began.clock))


def reason_of(error: Exception) -> str:
    """Describe the error, without a tuning run's remarks on its own trials."""
    return error.reason if isinstance(error, TuningError) else explained(error)
