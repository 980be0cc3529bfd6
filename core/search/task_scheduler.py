"""`TaskScheduler`: a search of several tasks in rounds; the tasks share trials and time."""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from pegbox.checks import check_int, check_mapping, check_seconds
from pegbox.errors import MeasureError, PluginError, SpaceError, TuningError
from pegbox.origin import users_level
from pegbox.records.history import best
from pegbox.records.journal import Journal
from pegbox.records.record import Circumstances, Record
from pegbox.search.allocation import Allocation, Progress
from pegbox.search.factory import check_tuner, tuner_label
from pegbox.search.loop.callbacks import Callback, CallbackLike, check_callbacks
from pegbox.search.loop.outcome import StopReason, TuneResult
from pegbox.search.loop.recorder import Recorder, Resume, open_recording
from pegbox.search.loop.state import SearchState
from pegbox.search.loop.trial import Trial
from pegbox.search.protocols import TunerFactory
from pegbox.search.session import Session
from pegbox.space import Config
from pegbox.task.task import Task

ROUND = 16
"""The number of trials of one task until the next is chosen; fewer if trials do not suffice for two rounds each."""

FIRST_ROUND = 1
"""The number of trials in a task's first round: only the known or predicted configuration, which needs no tuner."""

FAILURES = 3
"""The number of failing rounds in a row after which the machinery counts as broken, rather than one task."""

OnRound: TypeAlias = "Callable[[TaskScheduler, int, TuneResult], object]"
"""A function called after each round, with the number of the task and its result."""


class TaskScheduler:
    """A search of several tasks in rounds; an allocation chooses the task of each.

    Args:
        tasks, tuner, seed: as for the sessions.
        records: the file of all trials; None for none.
        resume: continue from the tasks' records in the file.

    Attributes:
        sessions: the search of each task that has had a round, by the task's number.
        progress: the seconds of each task's best after each of its rounds.
        records: the trials of each task, those in the file first, and the remeasurements.

    Raises:
        ArgumentError, UnknownName, PluginError, RecordError: as `pegbox.tune`.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        *,
        tuner: str | TunerFactory = "bayes",
        seed: int = 0,
        records: str | os.PathLike[str] | Journal | None = None,
        resume: Resume = False,
    ) -> None:
        check_tuner(tuner)
        self.tasks = tuple(tasks)
        self._tuner, self._seed = tuner, seed
        label = tuner_label(tuner)
        recordings = [open_recording(records, task, resume=resume, tuner=label, seed=seed) for task in self.tasks]
        self.records = [list(each.held) for each in recordings]
        self._recorders = [
            [*each.callbacks, _Collector(held, task, label, seed)]
            for each, held, task in zip(recordings, self.records, self.tasks, strict=True)
        ]
        self._histories = [each.history for each in recordings]
        self.sessions: dict[int, Session] = {}
        self.progress = [
            Progress(task.flop, _after_rounds([result.cost for _, result in each.history]), similar=task.name)
            for task, each in zip(self.tasks, recordings, strict=True)
        ]

    @property
    def trials(self) -> list[int]:
        """The number of trials of each task, including those in the records."""
        measured = [len(self.sessions[n].trials) if n in self.sessions else 0 for n in range(len(self.tasks))]
        return [len(held) + new for held, new in zip(self._histories, measured, strict=True)]

    def search(
        self,
        allocation: Allocation,
        *,
        trials: int | None = None,
        budget: float | str | None = None,
        first: Callable[[int], Sequence[Config]] = lambda number: (),
        task_options: Callable[[int], Mapping[str, Any]] = lambda number: {},
        callbacks: Iterable[CallbackLike] = (),
        on_round: OnRound = lambda scheduler, number, result: None,
        measure_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> StopReason:
        """Search until a limit is reached, all spaces are exhausted, a callback stops it, or Ctrl-C is pressed.

        A task that cannot be measured, or has no valid configuration, is left out of further rounds, with a
        `RuntimeWarning`.

        Args:
            trials: the number of trials of all tasks together, including those in the records.
            budget: the time of all together; the running round is finished.
            first: a function of a task's number that returns the configurations to begin with.
            task_options: a function of a task's number that returns its measure options, which the next ones override.
            measure_options, options: as for `Session.round`.

        Raises:
            ArgumentError, UnknownName, TuningError: as `pegbox.tune`.
            MeasureError, TuningError: several tasks in a row cannot be measured.
            PluginError: the allocation chose no task that is left.
        """
        most = math.inf if trials is None else check_int("trials", trials)
        end = math.inf if budget is None else time.monotonic() + check_seconds("budget", budget)
        size = int(min(ROUND, max(1, most // (2 * len(self.tasks))))) if most < math.inf else ROUND
        heard, failures = check_callbacks(callbacks), 0
        own = {} if measure_options is None else check_mapping("measure_options", measure_options, "options by name")
        try:
            while True:
                if (spent := sum(self.trials)) >= most:
                    return "trials"
                if time.monotonic() >= end:
                    return "budget"
                if (number := self._next(allocation)) is None:
                    return "exhausted"
                progress = self.progress[number]
                wanted = size if progress.best else min(size, FIRST_ROUND)
                try:
                    session = self._session(number)
                except SpaceError as error:
                    self._leave_out(number, error)
                    continue
                try:
                    result = session.round(
                        int(min(wanted, most - spent)),
                        finalists=2,
                        callbacks=[*self._recorders[number], *heard],
                        first=() if self.trials[number] else first(number),
                        measure_options={**task_options(number), **own},
                        **options,
                    )
                except (MeasureError, TuningError) as error:
                    failures += 1
                    if failures == FAILURES or not _is_unmeasurable(error):
                        raise
                    self._leave_out(number, error)
                    continue
                failures = 0
                progress.best.append(self._cost(number))
                tried_all = self.trials[number] >= self.tasks[number].space.size
                progress.exhausted = session.exhausted or tried_all or not result.trials
                on_round(self, number, result)
                if result.stopped_because in ("interrupted", "stopped by a callback"):
                    return result.stopped_because
        except KeyboardInterrupt:  # between rounds, or the second one within a round
            return "interrupted"

    def add(self, number: int, record: Record) -> None:
        """Add a record measured outside the rounds to those of a task, and to the file."""
        self.records[number].append(record)
        for each in self._recorders[number]:
            if isinstance(each, Recorder):
                each.journal.append(replace(record, run=each.run))

    def _session(self, number: int) -> Session:
        """Return the search of a task; make it for the task's first round, since many of hundreds may have none."""
        if number not in self.sessions:
            task, history = self.tasks[number], self._histories[number]
            self.sessions[number] = Session(task, tuner=self._tuner, seed=self._seed, history=history)
        return self.sessions[number]

    def _cost(self, number: int) -> float:
        """Return the seconds of a task's best, by remeasurements if there are any."""
        found = best(self.records[number])
        return math.inf if found is None else found.cost

    def _leave_out(self, number: int, error: MeasureError | SpaceError | TuningError) -> None:
        """Remove a task from the search, with a warning."""
        self.progress[number].best.append(self._cost(number))
        self.progress[number].exhausted = True
        reason = getattr(error, "reason", "") or str(error)
        message = f"{self.tasks[number].name} cannot be measured, and is searched no further: {reason}"
        warnings.warn(message, RuntimeWarning, stacklevel=users_level())

    def _next(self, allocation: Allocation) -> int | None:
        """Ask for the task of the next round. Raises `PluginError` unless it is one of those left."""
        number = allocation.next(self.progress)
        if number is not None and number not in [n for n, each in enumerate(self.progress) if not each.exhausted]:
            raise PluginError(
                f"the allocation {type(allocation).__name__} chose task {number!r} of {len(self.tasks)}; choose one "
                "that is not exhausted, or None"
            )
        return number


class _Collector(Callback):
    """A callback that adds the records of a search to a list."""

    def __init__(self, records: list[Record], task: Task, tuner: str, seed: int) -> None:
        self._records, self._task = records, task
        self._tuner, self._seed = tuner, seed

    def on_trial(self, trial: Trial, state: SearchState) -> None:
        around = Circumstances(tuner=self._tuner, seed=self._seed, remeasured=trial.remeasured)
        self._records.append(Record.of(self._task, trial.config, trial.result, **around))

    on_remeasured = on_trial


def _is_unmeasurable(error: MeasureError | TuningError) -> bool:
    """Decide if measuring failed, rather than a tuner or a callback."""
    return isinstance(error, MeasureError) or isinstance(error.__cause__, MeasureError)


def _after_rounds(costs: Sequence[float]) -> list[float]:
    """Return the best cost after each round of an earlier search."""
    return [min(costs[:end]) for end in range(min(ROUND, len(costs)), len(costs) + ROUND, ROUND)] if costs else []
