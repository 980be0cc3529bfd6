"""The callback that writes the records of a search, and the records of an earlier run."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pegbox.codegen.targets.host import describe_host
from pegbox.errors import ArgumentError
from pegbox.measure.baselines.baseline import Baseline
from pegbox.measure.result import Result
from pegbox.records.history import check_host, latest_baseline, latest_by_config, own_records, trials_of
from pegbox.records.journal import Journal
from pegbox.records.record import Circumstances, Record
from pegbox.records.runs import new_run, run_to_go_on
from pegbox.search.loop.callbacks import Callback
from pegbox.search.loop.state import SearchState
from pegbox.search.loop.trial import Trial
from pegbox.shown import value_text
from pegbox.task.group import TaskGroup, Tasks, task_of, tasks_of

if TYPE_CHECKING:
    from pegbox.space import Config


Resume: TypeAlias = bool | Literal["edited"]
"""True to continue a run from its records; "edited" to use those of other code of the template, too."""

_REMEDY = (
    "start a new search in another file, or in this one without resuming; or take them over with resume='edited' "
    "(--resume-edited), if the edit changes no program"
)


class Recorder(Callback):
    """A callback that appends every trial to the journal before other callbacks see it."""

    essential = True

    def __init__(self, journal: Journal, task: Tasks, tuner: str, seed: int, run: str | None = None) -> None:
        self.journal = journal
        self.task = task
        self.tuner = tuner
        self.seed = seed
        self.run = run or new_run()

    def check_host(self, host: str) -> None:
        """Check that the file's records of the task come from the kind of machine that measures now.

        Args:
            host: the kind of a cluster's machines; empty if this machine measures.

        Raises:
            RecordError: the records come from other machines, or the file is damaged.
        """
        path = self.journal.path
        if path.exists():
            tasks = tasks_of(self.task)
            own = [record for record in self.journal.read() if any(map(record.is_of, tasks))]
            held = [record for record in own if record.target == str(tasks[0].target)]
            check_host(held, str(path), host, remedy="write into another file")

    def on_trial(self, trial: Trial, state: SearchState) -> None:
        self.append(trial.config, trial.result)

    def on_remeasured(self, trial: Trial, state: SearchState) -> None:
        self.append(trial.config, trial.result, remeasured=True, baseline=state.baseline)

    def append(
        self, config: Config, result: Result, *, remeasured: bool = False, baseline: Baseline | None = None
    ) -> None:
        """Write one result."""
        around = Circumstances(tuner=self.tuner, seed=self.seed, run=self.run, remeasured=remeasured, baseline=baseline)
        self.journal.append(Record.of(task_of(self.task, config), config, result, **around))


@dataclass(frozen=True)
class Recording:
    """The records of one run: its `history`, from the records `held`, and the callbacks that write its trials.

    The history has the latest result of each configuration, and `trials` has the results of the trials themselves.
    """

    history: Sequence[tuple[Config, Result]] = ()
    trials: Mapping[Config, Result] = field(default_factory=dict)
    held: Sequence[Record] = ()
    callbacks: Sequence[Recorder] = ()

    def baseline(self, host: str) -> Baseline | None:
        """Find the baseline of the best on this host, or on this machine if `host` is empty."""
        return latest_baseline(self.held, host or describe_host())

    @property
    def best_cost(self) -> float:
        """The best seconds, infinity if nothing ran."""
        return min((result.cost for _, result in self.history), default=math.inf)

    def trials_left(self, trials: int | None) -> int | None:
        """Compute the number of `trials` left after those in the history."""
        return trials if trials is None or not self.history else max(trials - len(self.history), 0)

    def finished(self, trials: int | None) -> str:
        """Write the message if the history leaves nothing to measure; empty otherwise."""
        if not trials or self.trials_left(trials):
            return ""
        held = len(self.history)
        count = f"{trials} of {trials}" if held == trials else f"{held} (more than {trials})"
        return f"{count} trials are in the records; raise --trials (trials=...) to go on"


def open_recording(
    records: str | os.PathLike[str] | Journal | None, task: Any, *, resume: Resume, tuner: str, seed: int
) -> Recording:
    """Open the recording of a run of `task` in the file; with `resume`, the task's records in it are the history.

    Raises:
        ArgumentError: `resume` without `records`, or a word other than "edited".
        RecordError: the file is damaged or cannot be written, or its records of this task are from another space or
            target, or all are of other code of the template without `resume="edited"`.
    """
    if not isinstance(resume, bool) and (not isinstance(resume, str) or resume != "edited"):
        raise ArgumentError(f"resume={value_text(resume)} is not valid; choose from False, True and 'edited'")
    if records is None:
        if resume:
            raise ArgumentError("resume=True needs records: name the file that the earlier run wrote")
        return Recording()
    journal = records if isinstance(records, Journal) else Journal(records)
    edited = resume == "edited"
    held: list[Record] = []
    history: list[tuple[Config, Result]] = []
    trials: dict[Config, Result] = {}
    for each in tasks_of(task):
        own = own_records(journal, each, edited=edited, remedy=_REMEDY) if resume else []
        history += latest_by_config(own, each, source=str(journal.path)).items()
        trials |= latest_by_config(trials_of(own), each, source=str(journal.path))
        held += own
    if isinstance(task, TaskGroup):
        held.sort(key=lambda record: record.result.timestamp)
    journal.check_writable()
    return Recording(history, trials, held, [Recorder(journal, task, tuner, seed, run_to_go_on(held))])
