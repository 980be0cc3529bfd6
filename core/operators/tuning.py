"""Tuning of several tasks under one budget."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pegbox.checks import check_int, check_seconds, with_checked_keywords
from pegbox.errors import ArgumentError
from pegbox.records.journal import Journal
from pegbox.search.allocation import GradientAllocation, Progress
from pegbox.search.factory import tuner_label
from pegbox.search.loop.callbacks import CallbackLike
from pegbox.search.loop.outcome import Trial
from pegbox.search.loop.recorder import Recorder
from pegbox.search.protocols import TunerFactory
from pegbox.search.session import Session
from pegbox.space import Config
from pegbox.store import TuningStore, user_store
from pegbox.task.speed_text import format_seconds
from pegbox.task.task import Task

if TYPE_CHECKING:
    from pegbox.measure.runners.runner import RunnerLike

_ROUND = 16
"""The trials of one task until the next is chosen; fewer where the trials of all leave no two rounds for each."""


@with_checked_keywords
def tune(
    tasks: Sequence[Task],
    *,
    trials: int | None = None,
    budget: float | str | None = None,
    tuner: str | TunerFactory = "bayes",
    seed: int = 0,
    records: str | os.PathLike[str] | Journal | None = None,
    runner: RunnerLike = "local",
    timeout: float | str = 10.0,
    callbacks: Iterable[CallbackLike] = (),
    progress: bool = True,
    measure_options: Mapping[str, Any] | None = None,
    store: TuningStore | Literal["user"] | None = "user",
    first: Sequence[Sequence[Config]] = (),
) -> list[Trial | None]:
    """Search the spaces of several tasks in rounds, that task next whose search promises to save the most time.

    Args:
        trials: of all tasks together, at least one for each; None where only the budget limits.
        budget: the time of all together; the round that runs when it ends is finished.
        progress: print a line for each round (on standard error).
        first: the configurations of each task that are measured before those of the tuner.
        tuner, seed, records, runner, timeout, callbacks, measure_options, store: as for `pegbox.tune`.

    Returns:
        The best trial of each task, None where nothing ran. Ctrl-C ends the search early.

    Raises:
        ArgumentError, UnknownName, PluginError, SpaceError, RecordError, TuningError: as `pegbox.tune`.
    """
    if trials is None and budget is None:
        raise ArgumentError("tune(shapes=[...]): no limit; give trials=..., budget='10m' or both")
    left: float = math.inf if trials is None else check_int("trials", trials, minimum=len(tasks))
    end = math.inf if budget is None else time.monotonic() + check_seconds("budget", budget)
    size = int(min(_ROUND, max(1, left // (2 * len(tasks))))) if left < math.inf else _ROUND
    sessions = [Session(task, tuner=tuner, seed=seed) for task in tasks]
    recorders = [_recorders(each, records, tuner_label(tuner)) for each in sessions]
    costs = [Progress(task.flop, similar=task.name) for task in tasks]
    options: dict[str, Any] = {
        "runner": runner,
        "timeout": timeout,
        "measure_options": measure_options,
        "store": user_store() if store == "user" else store,
    }
    heard = list(callbacks)
    while left > 0 and time.monotonic() < end and (number := GradientAllocation().next(costs)) is not None:
        session = sessions[number]
        each = [*recorders[number], *heard]
        start = first[number] if first and not session.trials else ()
        result = session.round(int(min(size, left)), finalists=2, callbacks=each, first=start, **options)
        left -= max(1, len(result.trials))
        costs[number].best.append(session.best_cost)
        costs[number].exhausted = session.exhausted or not result.trials
        if progress:
            print(_line(session, tasks[number]), file=sys.stderr)
        if result.stopped_because == "interrupted":
            break
    return [session.best for session in sessions]


def _recorders(
    session: Session, records: str | os.PathLike[str] | Journal | None, tuner: str
) -> Sequence[CallbackLike]:
    """The callbacks that write a session's trials."""
    if records is None:
        return ()
    assert isinstance(session.task, Task)
    journal = records if isinstance(records, Journal) else Journal(records)
    recorder = Recorder(journal, session.task, tuner, session.seed, session.run)
    recorder.check_host("")
    return (recorder,)


def _line(session: Session, task: Task) -> str:
    arguments = ", ".join(f"{name}={value}" for name, value in task.workload[1].items())
    best = "nothing ran" if session.best is None else format_seconds(session.best.cost)
    return f"{task.name}({arguments}): {len(session.trials)} trials, best {best}"
