"""`Session`: a search of one task in rounds, each as long as its caller wants."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pegbox.checks import check_keywords
from pegbox.errors import TuningError
from pegbox.records.runs import new_run
from pegbox.search.factory import tuner_label
from pegbox.search.loop.callbacks import check_callbacks
from pegbox.search.loop.options import PriorTrials, SearchOptions, check_history
from pegbox.search.loop.outcome import TuneResult
from pegbox.search.loop.trial import Trial
from pegbox.search.models.inputs import TransferSource, tuner_over
from pegbox.search.problem import check_recording_host, local_measurer, problem_of
from pegbox.search.protocols import TunerFactory
from pegbox.store.store import user_store
from pegbox.task.task import Task

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pegbox.measure.result import Result
    from pegbox.measure.runners.runner import RunnerLike
    from pegbox.records.recorded_space import RecordedSpace
    from pegbox.records.simulation import SimulatedRunner
    from pegbox.space import Config


class Session:
    """A search in rounds with one tuner, which keeps its knowledge; no configuration comes twice.

    If several tasks share trials (`pegbox.search.allocation`), each task has a session.

    Args:
        task, tuner, seed, transfer: as for `pegbox.tune`.
        history: earlier results; the tuner learns from them, and their configurations are not measured again.

    Attributes:
        best: the fastest trial so far, including history; None if nothing ran.
        trials: the trials of all rounds in order, without the history.
        since_improvement: the number of trials after the best.
        exhausted: True if the tuner has nothing left to propose.
        run: the search's name in records.

    Raises:
        ArgumentError, UnknownName, PluginError, SpaceError: as `pegbox.tune`.
    """

    def __init__(
        self,
        task: Task | RecordedSpace,
        *,
        tuner: str | TunerFactory = "bayes",
        seed: int = 0,
        history: Iterable[tuple[Config, Result]] = (),
        transfer: TransferSource | Sequence[TransferSource] | None = None,
    ) -> None:
        problem = problem_of(task, "local", local_measurer(None, timeout=10.0))
        self.task = task
        self.name = tuner_label(tuner)
        self.seed = seed
        self.run = new_run()
        self.best: Trial | None = None
        self.trials: list[Trial] = []
        self.since_improvement = 0
        self.exhausted = False
        self._tuner = tuner_over(tuner, problem.task, seed=seed, transfer=transfer)
        self._unreported = check_history("history", history)
        self._told = 0

    @property
    def best_cost(self) -> float:
        """The seconds of the best; infinity if nothing ran."""
        best = math.inf if self.best is None else self.best.cost
        return min([best, *(result.cost for _, result in self._unreported)])

    def round(
        self,
        trials: int,
        *,
        runner: RunnerLike | SimulatedRunner = "local",
        timeout: float | str = 10.0,
        measure_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> TuneResult:
        """Measure at most `trials` more configurations.

        Args:
            runner, timeout, measure_options: as for `pegbox.tune`.
            options: other fields of `SearchOptions`: `early_stopping`, `batch_size`, `callbacks`, `store` (the user's),
                or `finalists`, the number of this round's fastest to measure again at its end (0).

        Raises:
            ArgumentError, UnknownName, TuningError: as `pegbox.tune`; earlier measurements count, here and in later
                rounds.
        """
        measurer = local_measurer(measure_options, timeout=timeout, runner=runner, seed=self.seed, reserved=["best"])
        problem = problem_of(self.task, runner, measurer)
        check_keywords(SearchOptions, options)
        callbacks = [*check_callbacks(options.get("callbacks", ())), *problem.watches]
        defaults: dict[str, Any] = {"finalists": 0, "store": user_store()}
        limits = SearchOptions(trials, **{**defaults, **options, "callbacks": callbacks, "name": self.name})
        if not self._told:
            limits = limits.then(problem.preferred)
        with problem.open(best=self.best_cost) as opened:
            if not self.trials:
                check_recording_host(callbacks, opened)
            try:
                result = problem.search(
                    self._tuner, opened, limits, prior=PriorTrials(self._unreported, earlier=self._told)
                )
            except TuningError as error:
                self._take_in(error.result)
                raise
            self._take_in(result)
        return result

    def _take_in(self, result: TuneResult) -> None:
        self._told += len(self._unreported) + len(result.trials) - len(result.untold)
        self._unreported = [(trial.config, trial.result) for trial in result.untold]
        self.exhausted = result.stopped_because == "exhausted"
        for trial in result.history:
            self._consider(trial)
        for trial in result.trials:
            self.trials.append(replace(trial, number=len(self.trials)))
            self.since_improvement += 1
            if self._consider(self.trials[-1]):
                self.since_improvement = 0

    def _consider(self, trial: Trial) -> bool:
        """Make a trial the best if it is faster than all before; return whether it was."""
        better = trial.ok and (self.best is None or trial.cost < self.best.cost)
        if better:
            self.best = trial
        return better
