"""`Session`: a search of one task that goes on in rounds, each as long as its caller wants."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pegbox.errors import TuningError
from pegbox.records.runs import new_run
from pegbox.search.factory.create import make_tuner, tuner_label
from pegbox.search.loop.callbacks import CallbackLike, check_callbacks
from pegbox.search.loop.noise import NoiseWatch
from pegbox.search.loop.options import PriorTrials, SearchOptions, check_history
from pegbox.search.loop.outcome import Trial, TuneResult
from pegbox.search.loop.tuning import run
from pegbox.search.models.inputs import TransferSource, tuner_inputs
from pegbox.search.problem import local_measurer, problem_of
from pegbox.search.protocols import TunerFactory
from pegbox.task.task import Task

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pegbox.measure.result import Result
    from pegbox.measure.runners.runner import RunnerLike
    from pegbox.records.recorded_space import RecordedSpace
    from pegbox.records.simulation import SimulatedRunner
    from pegbox.space import Config


class Session:
    """One tuner over all rounds: what it learned in a round serves the next one, and no configuration comes twice.

    Where the trials of several tasks are shared out (`pegbox.search.allocation`), each task has a session.

    Args:
        task, tuner, seed, transfer: as for `pegbox.tune`.
        history: what is known already; the tuner learns from it, and none of it is measured again.

    Attributes:
        best: the fastest trial so far, history included; None where nothing ran.
        trials: of all rounds, in order, without the history.
        since_improvement: how many of them came after the best.
        exhausted: the tuner has nothing left to propose.
        run: its name in records.

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
        problem.check_space()
        self.task = task
        self.name = tuner_label(tuner)
        self.seed = seed
        self.run = new_run()
        self.best: Trial | None = None
        self.trials: list[Trial] = []
        self.since_improvement = 0
        self.exhausted = False
        self._tuner = make_tuner(tuner, problem.space, seed=seed, **tuner_inputs(tuner, problem.task, transfer))
        self._untold = check_history("history", history)

    @property
    def best_cost(self) -> float:
        """Seconds; infinity where nothing ran."""
        best = math.inf if self.best is None else self.best.cost
        return min([best, *(result.cost for _, result in self._untold)])

    def round(
        self,
        trials: int,
        *,
        early_stopping: int | None = None,
        batch_size: int | None = None,
        callbacks: Iterable[CallbackLike] = (),
        finalists: int = 0,
        runner: RunnerLike | SimulatedRunner = "local",
        timeout: float | str = 10.0,
        measure_options: Mapping[str, Any] | None = None,
    ) -> TuneResult:
        """Measure so many more configurations at most.

        Args:
            finalists: so many of the fastest of this round are measured again at its end.
            early_stopping, batch_size, callbacks, runner, timeout, measure_options: as for `pegbox.tune`.

        Raises:
            ArgumentError, UnknownName, TuningError: as `pegbox.tune`; what was measured until then counts, here and in
                later rounds.
        """
        measurer = local_measurer(measure_options, timeout=timeout, runner=runner, seed=self.seed, reserved=["best"])
        problem = problem_of(self.task, runner, measurer)
        watches: list[CallbackLike] = []
        if isinstance(self.task, Task) and not problem.simulated:
            watches.append(NoiseWatch(self.task.target.num_cores))
        with problem.open(best=self.best_cost) as opened:
            try:
                result = run(
                    self._tuner,
                    opened,
                    SearchOptions(
                        trials,
                        early_stopping=early_stopping,
                        batch_size=batch_size,
                        finalists=finalists,
                        callbacks=[*check_callbacks(callbacks), *watches],
                        name=self.name,
                    ),
                    subject=problem.subject,
                    space=problem.whole,
                    searched=problem.space,
                    prior=PriorTrials(self._untold),
                )
            except TuningError as error:
                self._take_in(error.result)
                raise
            self._take_in(result)
        return result

    def _take_in(self, result: TuneResult) -> None:
        self._untold = [(trial.config, trial.result) for trial in result.untold]
        self.exhausted = result.stopped_because == "exhausted"
        for trial in result.history:
            self._consider(trial)
        for trial in result.trials:
            self.trials.append(replace(trial, number=len(self.trials)))
            self.since_improvement += 1
            if self._consider(self.trials[-1]):
                self.since_improvement = 0

    def _consider(self, trial: Trial) -> bool:
        """Make a trial the best if it is faster than all before; says whether it was."""
        better = trial.ok and (self.best is None or trial.cost < self.best.cost)
        if better:
            self.best = trial
        return better
