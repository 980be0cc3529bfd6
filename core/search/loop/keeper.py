"""The callback that keeps the best of a search in the user's store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.errors import RecordError
from pegbox.records.record import Record
from pegbox.search.loop.callbacks import Callback
from pegbox.search.loop.interrupt import defer_interrupt
from pegbox.search.loop.outcome import Trial, TuneResult

if TYPE_CHECKING:
    from pegbox.search.loop.outcome import BestTrial
    from pegbox.store import TuningStore
    from pegbox.task.task import Task


class Keeper(Callback):
    """A callback that keeps the best of a task in a store when the search is over, however it ended.

    Nothing is written while candidates are timed.
    """

    def __init__(self, store: TuningStore, task: Task) -> None:
        self._store, self._task = store, task

    def on_end(self, result: TuneResult) -> None:
        if result.best is None or result.simulated:
            return
        try:
            best = self._record(result.best, result)
        except RecordError:  # arguments that records cannot hold
            return
        with defer_interrupt():
            self._store.keep(best, beside=[self._record(trial, result) for trial in result.finalists])

    def _record(self, trial: Trial | BestTrial, result: TuneResult) -> Record:
        baseline = None if result.best is None else result.best.baseline
        return Record.of(
            self._task,
            trial.config,
            trial.result,
            tuner=result.tuner,
            remeasured=trial.remeasured,
            baseline=baseline,
        )
