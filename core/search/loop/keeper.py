"""The callback that keeps the best of a search in the user's store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.errors import RecordError
from pegbox.records.record import Record
from pegbox.search.loop.callbacks import Callback
from pegbox.search.loop.interrupt import defer_interrupt
from pegbox.search.loop.outcome import TuneResult
from pegbox.search.loop.trial import Trial
from pegbox.task.group import task_of

if TYPE_CHECKING:
    from pegbox.search.loop.best_trial import BestTrial
    from pegbox.store import TuningStore
    from pegbox.task.group import Tasks


class Keeper(Callback):
    """A callback that stores the best of a task, or of each task of a group, after the search, however it ended.

    It writes nothing while candidates are timed.
    """

    def __init__(self, store: TuningStore, task: Tasks) -> None:
        self._store, self._task = store, task

    def on_end(self, result: TuneResult) -> None:
        if result.best is None or result.simulated:
            return
        try:
            best = [self._record(trial, result) for trial in self._best(result)]
            again = [self._record(trial, result) for trial in result.finalists]
        except RecordError:  # records cannot hold its arguments
            return
        with defer_interrupt():
            for record in best:
                self._store.keep(record, beside=[each for each in again if each.workload == record.workload])

    def _best(self, result: TuneResult) -> list[Trial | BestTrial]:
        """List the winner, and the fastest trials of the implementations that lost."""
        lost = [trials for name, trials in result.by_implementation.items() if name != result.implementation]
        again = {trial.config: trial for trial in result.finalists}
        fastest = [min(trials, key=lambda trial: trial.cost) for trials in lost if any(trial.ok for trial in trials)]
        return [result.best, *(again.get(trial.config, trial) for trial in fastest)]

    def _record(self, trial: Trial | BestTrial, result: TuneResult) -> Record:
        baseline = None if result.best is None else result.best.baseline
        return Record.of(
            task_of(self._task, trial.config),
            trial.config,
            trial.result,
            tuner=result.tuner,
            remeasured=trial.remeasured,
            baseline=baseline,
        )
