"""The callback that keeps records of a search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.measure.result import Result
from pegbox.records.journal import Journal
from pegbox.records.record import Record
from pegbox.search.loop.callbacks import Callback
from pegbox.search.loop.outcome import Trial
from pegbox.search.loop.state import SearchState

if TYPE_CHECKING:
    from pegbox.space import Config
    from pegbox.task.task import Task


class Recorder(Callback):
    """Appends every trial to the journal before anything else sees it."""

    essential = True

    def __init__(self, journal: Journal, task: Task, tuner: str, seed: int) -> None:
        self.journal = journal
        self.task = task
        self.tuner = tuner
        self.seed = seed

    def on_trial(self, trial: Trial, state: SearchState) -> None:
        self.append(trial.config, trial.result)

    def on_remeasured(self, trial: Trial, state: SearchState) -> None:
        self.append(trial.config, trial.result, remeasured=True)

    def append(self, config: Config, result: Result, *, remeasured: bool = False) -> None:
        """Write one result."""
        record = Record.of(self.task, config, result, tuner=self.tuner, seed=self.seed, remeasured=remeasured)
        self.journal.append(record)
