"""`pegbox.sweep`: measures a whole space, or a uniform sample of it, into records."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pegbox.checks import check_int, check_seconds
from pegbox.errors import ArgumentError, RecordError
from pegbox.records.history import check_host, load_history, matching, of_code, to_config
from pegbox.records.journal import Journal
from pegbox.records.record import Record
from pegbox.records.recorded_space import RecordedSpace
from pegbox.search.loop.callbacks import CallbackLike, check_callbacks
from pegbox.search.loop.display import progress as progress_callback
from pegbox.search.loop.recorder import Recorder
from pegbox.search.problem import check_task, local_measurer, measuring_host
from pegbox.search.sweep.progress import Sweep, SweepResult
from pegbox.search.sweep.remeasurement import MOST
from pegbox.task.task import Task

if TYPE_CHECKING:
    from pegbox.measure.runners.runner import RunnerLike

_KEPT = 1 << 14
"""The number of builds kept from pass to pass, at some 20 kB each; others are built again."""

_ROUNDS = 3
"""The timings of a configuration in one of several passes: noise lasts longer than ten timings, so many short visits
say more than few long ones."""

_UNIFORM = ("sweep", "random")
"""The tuners whose configurations count as part of a uniform sample."""


def sweep(
    task: Task,
    *,
    records: str | os.PathLike[str] | Journal,
    configs: int | None = 5000,
    passes: int = 0,
    seed: int = 0,
    budget: float | str | None = None,
    runner: RunnerLike = "local",
    timeout: float | str = 10.0,
    callbacks: Iterable[CallbackLike] = (),
    progress: bool = True,
    measure_options: Mapping[str, Any] | None = None,
) -> SweepResult:
    """Measure a uniform sample of the task's space, in random order, and the fastest of it again until they are steady.

    Everything is written into `records` at once, and the same call goes on where it was stopped: what the file holds of
    the task counts as part of the sample.

    Args:
        records: the file.
        configs: how many configurations; None for the whole space.
        passes: how often all that ran is measured again before the fastest are, each time in other company. One
            measurement of a sample on a noisy machine is often 5% off; the costs of many short ones are not.
        seed: which sample, in which order.
        budget: stop after that time: seconds, or text such as "60s", "5m", "1m30s".
        runner, timeout, callbacks, progress, measure_options: as for `tune`.

    Ctrl-C ends the sweep early; the result says so.

    Raises:
        ArgumentError: an option outside its domain, or a whole space that is too large.
        RecordError: the file cannot be written, is damaged, or holds records of the task that were measured on another
            machine or chosen by a tuner.
        TuningError: the records or the measuring broke.
    """
    if not isinstance(task, Task):
        check_task(task)
        why = "is recorded already; to measure it" if isinstance(task, RecordedSpace) else "is no task; to sweep one"
        raise ArgumentError(f"{task!r} {why}, give the task: pegbox.create_task(...)")
    check_int("seed", seed, minimum=0)
    budget_seconds = None if budget is None else check_seconds("budget", budget)
    defaults = {"kept_builds": _KEPT, "rounds": _ROUNDS} if passes else {"kept_builds": MOST}
    measurer = local_measurer(
        measure_options, timeout=timeout, runner=runner, seed=seed, reserved=["best"], defaults=defaults
    )
    listeners = check_callbacks(callbacks)
    journal = records if isinstance(records, Journal) else Journal(records)
    own, known, before = _known(journal, task, whole=configs is None)
    plan = Sweep(
        task,
        configs,
        passes=passes,
        seed=seed,
        budget_seconds=budget_seconds,
        known=known,
        before=before,
        recorder=Recorder(journal, task, "sweep", seed, "sweep"),
        callbacks=[*([progress_callback()] if progress else []), *listeners],
        say=partial(print, file=sys.stderr, flush=True) if progress else lambda line: None,
    )
    journal.check_writable()
    best = min((result.cost for result in known.values() if result.ok), default=float("inf"))
    with measurer(task, best=best) as opened:
        check_host(own, str(journal.path), measuring_host(opened), remedy="sweep into another file", exact=True)
        return plan.run(opened)


def _known(journal: Journal, task: Task, *, whole: bool) -> tuple[list[Record], dict[Any, Any], Counter[Any]]:
    """Read the task's records: all of them, the latest results, and the number of remeasurements of each."""
    configs, results = load_history(journal, task)
    source = str(journal.path)
    own = of_code(matching(journal.read(), task, source=source), task, source=source) if configs else []
    tuners = {record.tuner.partition(":")[0].partition("(")[0] for record in own}
    if not whole and (chosen := sorted(tuners - set(_UNIFORM))):
        raise RecordError(
            f"{source!r} holds records of this task that {' and '.join(map(repr, chosen))} chose: they are not a "
            "uniform sample of the space; sweep into another file"
        )
    again = Counter(to_config(record, task, source=source) for record in own if record.remeasured)
    return own, dict(zip(configs, results, strict=True)), again
