"""The records files that commands read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pegbox.measure import MOST_RUN_QUEUE_WAIT, Baseline, Ok
from pegbox.plugins.cli.exits import NothingFound
from pegbox.records import History, Journal, Record, by_run, by_task, call, latest_baseline, trials_of
from pegbox.records import best as best_of
from pegbox.report import escaped
from pegbox.search import Objective, gain_of, lost_threads, waiting
from pegbox.task import format_cost, format_speed

if TYPE_CHECKING:
    from pegbox.space import Config
    from pegbox.task import Task, TaskGroup


def best_config(path: Path, task: Task | TaskGroup) -> Config:
    """Find the best configuration of the task, or of all tasks of a group, in the file.

    Raises NothingFound if no trial of it succeeded, RecordError if the file is damaged or of another space.
    """
    history = History(Journal(path).read(), source=str(path))
    config = history.best_config(task)
    if config is None:
        raise NothingFound(history.absence(task))
    return config


@dataclass(frozen=True)
class HistorySummary:
    """The records of one task on one target, with the best, if any.

    Trials of an emulator are never the best.
    """

    records: Sequence[Record]

    @cached_property
    def trials(self) -> Sequence[Record]:
        """The records without those measured again at the end of a search."""
        return trials_of(self.records)

    @cached_property
    def best(self) -> Record | None:
        """The fastest record; None if nothing valid was found."""
        return best_of([record for record in self.records if not record.emulated])

    @cached_property
    def baseline(self) -> Baseline | None:
        """The baselines of the latest run on the machine of the best; those of another machine only give the work."""
        if (known := latest_baseline(self.records, "" if self.best is None else self.best.host)) is not None:
            return known
        elsewhere = latest_baseline(self.records)
        return None if elsewhere is None else replace(elsewhere, numpy=None, roofline=None)

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of trials, of runs, of failures, and of trials in an emulator."""
        trials = self.trials
        return {
            "trials": len(trials),
            "runs": len(by_run(trials)),
            "failed": sum(not record.result.ok for record in trials),
            "emulated": sum(record.emulated for record in trials),
        }

    def to_json(self) -> dict[str, Any]:
        """Describe the task, its trials and its best, or None without a best."""
        first, best = self.records[0], self.best
        return {
            "task": first.name,
            "ref": first.ref or None,
            "args": first.args,
            "kwargs": dict(first.kwargs),
            "target": first.target,
            **self.counts,
            **{name: None if best is None else getattr(best, name) for name in ("cost", "config", "tuner", "host")},
            "baseline": None if self.baseline is None else self.baseline.to_json(),
        }

    def __str__(self) -> str:
        first, best, counts = self.records[0], self.best, self.counts
        task = call(first.name, first.kwargs, first.args) + (f" of {first.ref}" if first.ref else "")
        where = ", a function of Python" if first.target == Objective.target else f" on {first.target}"
        several = f" of {counts['runs']} runs" if counts["runs"] > 1 else ""
        emulated = f", {counts['emulated']} in an emulator (their times mean nothing)" if counts["emulated"] else ""
        line = f"{task}{where}: {counts['trials']} trials{several}, {counts['failed']} failed{emulated}"
        if best is None:
            return f"{line}\n  nothing valid"
        by = f" ({best.tuner}, on {best.host})" if best.tuner else ""
        lines = [line, f"  best: {self._speed(best)}{by}", *(f"  {rated}" for rated in self._ratings(best))]
        # The choices are in AutoTVM's JSON shape: [name, kind, value] for each knob.
        choices = ", ".join(f"{name}={value}" for name, _, value in best.config.get("entity", []))
        return "\n".join([*lines, f"  config {best.config.get('index')}: {escaped(choices)}"])

    def _speed(self, best: Record) -> str:
        known = self.baseline
        moved = {} if known is None else {"flop": known.flop, "bytes_moved": known.read + known.written}
        cost = format_cost(best.cost, best.unit if best.target == Objective.target else "s")
        return ", ".join(filter(None, [cost, format_speed(best.cost, **moved)]))

    def _ratings(self, best: Record) -> Iterator[str]:
        """Rate the best, as far as the records allow."""
        result = best.result if isinstance(best.result, Ok) else Ok((best.cost,))
        known = self.baseline
        if known is not None and (compared := known.text(best.cost, result.costs, result.wait_in_costs)):
            yield compared
        if best.target != Objective.target and (gain := gain_of(best, self.records)) is not None:
            yield str(gain)
        if lost := lost_threads(self.trials, [record for record in self.records if record.remeasured], best):
            yield f"note: {lost}"
        elif result.run_queue_wait >= MOST_RUN_QUEUE_WAIT:
            yield f"note: {waiting(result.run_queue_wait, result.threads or (known.cores if known else 1))}"


def summaries(paths: Sequence[Path]) -> list[HistorySummary]:
    """Make a summary for each task, target and space in the files, in the order of first appearance.

    Seconds of whole models are left out.

    Raises RecordError if a file cannot be read.
    """
    records = [record for path in paths for record in Journal(path).read() if not record.of_model]
    return [HistorySummary(each) for each in by_task(records)]
