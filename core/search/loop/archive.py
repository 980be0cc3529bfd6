"""`load_result`: the result of one or several searches, read from their records."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import chain
from typing import Any

from pegbox.checks import check_list, check_path
from pegbox.errors import ArgumentError, RecordError, SpaceError
from pegbox.records.history import best, latest_baseline, trials_of
from pegbox.records.journal import Journal
from pegbox.records.library import choose_records, rows_of
from pegbox.records.record import FUNCTION, Record
from pegbox.records.runs import by_run
from pegbox.search.loop.best_trial import BestTrial, Gain
from pegbox.search.loop.outcome import TuneResult
from pegbox.search.loop.trial import Trial
from pegbox.search.objective import Objective
from pegbox.search.subject import Subject
from pegbox.shown import value_text
from pegbox.space import Config
from pegbox.space.seen_space import SeenSpace
from pegbox.task.task import Task


def load_result(
    file: str | os.PathLike[str] | Journal,
    task: Task | Objective | None = None,
    *,
    args: Sequence[Any] | None = None,
    host: str | None = None,
    target: str | None = None,
) -> TuneResult:
    """Read the result of the searches in a file of records, to print it, draw it and write it as a page.

    `result.trials` are all trials in the order of the records, one run after the other, and `result.runs` has the
    number of trials in each; `elapsed` is the time from the first to the last, including pauses. The phases of the time
    are not recorded.

    Args:
        file: records of one task (.jsonl, also packed as .gz or .xz).
        task: their task; by default the registered template that they name, with their arguments. Give it for a
            template in your own file. Give the `Objective` of a function, or else the space has only the recorded
            values.
        args, host, target: the template's arguments, the machine and the target, to choose from a file that holds
            several.

    Raises:
        ArgumentError: `task` is neither a task nor an objective.
        RecordError: there is no such file, it is damaged, it does not hold one task on one machine, or its records are
            from another space than the task's.
    """
    if task is not None and not isinstance(task, Task | Objective):
        raise ArgumentError(f"task={value_text(task)}: give a task from pegbox.create_task, or a pegbox.Objective")
    if args is not None:
        args = check_list("args", args, "the template's arguments as a list or tuple", error=RecordError)
    journal = file if isinstance(file, Journal) else Journal(check_path("file", file, error=RecordError))
    source = str(journal.path)
    records = choose_records(journal.read(), source, task=task, args=args, host=host, target=target)
    if task is not None or records[0].target != FUNCTION:
        found, rows = rows_of(records, source, task)
        return _result(records, found, [Config(found.space, tuple(row.tolist())) for row in rows])
    try:
        configs = SeenSpace([record.config for record in records]).configs
    except (SpaceError, TypeError) as error:
        raise RecordError(f"{source!r}: a config cannot be read: {error}") from error
    return _result(records, None, configs)


def gain_of(winner: Record, records: Sequence[Record]) -> Gain | None:
    """Compute the gain of the run that found the winner, on its machine; None if there is nothing to compare."""
    return Gain.of([r for r in trials_of(records) if (r.run, r.host) == (winner.run, winner.host)], winner)


def _result(records: Sequence[Record], task: Task | Objective | None, each_config: Sequence[Config]) -> TuneResult:
    """Make the result; `task` is None for a function that is known only by its records."""
    configs = dict(zip(map(id, records), each_config, strict=True))
    subject = Subject(
        records[0].name,
        task if isinstance(task, Task) else None,
        flop=0.0 if task is None else task.flop,
        bytes_moved=float(getattr(task, "bytes_moved", 0.0)),
        unit="s" if isinstance(task, Task) else (task or records[0]).unit,
    )
    began = min(record.result.timestamp - record.result.total_seconds for record in records)

    def trial(number: int, record: Record) -> Trial:
        result = record.result
        speed, elapsed = subject.gflops(result), result.timestamp - began
        return Trial(number, configs[id(record)], result, speed, elapsed, remeasured=record.remeasured)

    runs = by_run(trials_of(records))
    trials = [trial(number, record) for number, record in enumerate(chain.from_iterable(runs))]
    numbers: dict[object, int] = {each.config: each.number for each in trials}
    # Each record points to the trial of its own run, in case several runs tried the config.
    for number, record in enumerate(chain.from_iterable(runs)):
        numbers[record.run, configs[id(record)]] = number

    def number_of(record: Record) -> int:
        config = configs[id(record)]
        return numbers.get((record.run, config), numbers[config])

    again = {id(r): trial(number_of(r), r) for r in records if r.remeasured}
    winner = best(records)
    found, gain = None, None
    if winner is not None:
        found = again.get(id(winner)) or trial(number_of(winner), winner)
        gain = gain_of(winner, records) if subject.unit == "s" else None
    baseline = latest_baseline(records, records[0].host)
    return TuneResult(
        best=BestTrial.of(found, subject=subject, baseline=baseline, gain=gain),
        trials=trials,
        elapsed=max(each.elapsed for each in trials),
        phases={},
        stopped_because="recorded",
        tuner=" and ".join(dict.fromkeys(record.tuner for record in records if record.tuner)) or "an unknown tuner",
        finalists=tuple(again.values()),
        subject=subject,
        recorded_runs=tuple(map(len, runs)),
    )
