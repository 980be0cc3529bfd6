"""`TuneResult`: the trials of a run, the best of them, and the time of each phase."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias

from pegbox.checks import check_flag, check_path
from pegbox.errors import ArgumentError
from pegbox.measure.result import Failed, FailureKind
from pegbox.output import check_output, write_file
from pegbox.report.figure import check_plot
from pegbox.report.page import PAGE
from pegbox.search.charts.influence import main_knobs
from pegbox.search.charts.page import page
from pegbox.search.charts.picture import save_plot
from pegbox.search.loop.best_trial import BestTrial
from pegbox.search.loop.remarks import remarks
from pegbox.search.loop.trial import Trial, failure_counts, format_counts
from pegbox.search.models.report import ModelReport
from pegbox.search.subject import Subject
from pegbox.task.group import TaskGroup
from pegbox.task.speed_text import format_seconds

if TYPE_CHECKING:
    from pegbox.task.task import Task

StopReason: TypeAlias = Literal[
    "trials", "budget", "early stopping", "exhausted", "interrupted", "stopped by a callback", "error", "recorded"
]
"""The reason for the end of a search; "recorded" in a result that was read from records, which have none."""

_LIMITS: tuple[StopReason, ...] = ("trials", "budget", "early stopping")

MANY_KNOBS, SHOWN_KNOBS = 12, 6
"""The number of knobs from which on a result lists only some, and the number that it lists; the page lists all."""


@dataclass(frozen=True)
class TuneResult:
    """Everything that a run measured. `print` shows a summary, `plot` and `to_html` draw it.

    `best` (a `BestTrial`) is None when nothing valid was found: `best.config` is what `pegbox.build` takes, `best.cost`
    its seconds, `best.baseline` what NumPy takes for the same and what the machine could. `trials` are all trials in
    their order, each with `config`, `cost` and `result`; `history` are those that a resumed run had from its records,
    which come before. `subject` is the computation or function: its name, task, and work.

    `elapsed` and `phases` are wall-clock seconds of the run, and the phases add up to nearly all of it. `finalists` are
    the careful measurements that `best` was picked from; `model` says how good the tuner's model was on trials that it
    had not seen. Where `simulated`, all seconds are those of the virtual clock: those of the trials when they were
    recorded, and those of the tuner now. `dropped` counts proposals that were not measured, by reason: repetitions, and
    more than was asked for. `uneven` is `Measurer.uneven`. `recorded_runs` are the numbers of `trials` of each run,
    where they were read from the records of several. `untold` are the trials that were not reported to the tuner, as a
    limit or an error cut their batch short.
    """

    best: BestTrial | Any  # None where nothing ran; `Any` spares `result.best.config` a check that most never need
    trials: Sequence[Trial]
    elapsed: float
    phases: Mapping[str, float]
    stopped_because: StopReason
    tuner: str = "tuner"
    subject: Subject = Subject()
    finalists: Sequence[Trial] = ()
    model: ModelReport | None = None
    simulated: bool = False
    dropped: Mapping[str, int] = field(default_factory=dict)
    history: Sequence[Trial] = ()
    recorded_runs: Sequence[int] = ()
    uneven: str = field(default="", repr=False, compare=False)
    untold: Sequence[Trial] = field(default=(), repr=False, compare=False)

    @property
    def task(self) -> Task | None:
        """The task that was tuned, for a group the winner's; None for a function, and where only a space is known."""
        task = self.subject.task
        if not isinstance(task, TaskGroup):
            return task
        return task.first if self.best is None else task.task_of(self.best.config)

    @property
    def implementation(self) -> str:
        """The name of the implementation that won, where a group was searched; empty otherwise."""
        group = self.subject.task
        return group.implementation_of(self.best.config) if isinstance(group, TaskGroup) and self.best else ""

    @property
    def unit(self) -> str:
        """The unit of the costs, "s" for seconds."""
        return self.subject.unit

    @property
    def runs(self) -> Sequence[int]:
        """The number of trials of each run: one number, except for records of several runs, which follow each other."""
        return self.recorded_runs or (len(self.all_trials),)

    @property
    def all_trials(self) -> Sequence[Trial]:
        """Recorded ones first, then those of this run."""
        return (*self.history, *self.trials)

    @property
    def by_implementation(self) -> dict[str, list[Trial]]:
        """All trials of each implementation of a group by its name; empty where a task alone was searched."""
        group = self.subject.task
        if not isinstance(group, TaskGroup):
            return {}
        found: dict[str, list[Trial]] = {name: [] for name in group.tasks}
        for trial in self.all_trials:
            found[group.implementation_of(trial.config)].append(trial)
        return found

    @property
    def trials_of_winner(self) -> Sequence[Trial]:
        """All trials of the winner's space; for a group, those of the implementation that won."""
        return self.by_implementation.get(self.implementation, self.all_trials)

    if not TYPE_CHECKING:  # type checkers know the attributes

        def __getattr__(self, name: str) -> NoReturn:
            own = name in BestTrial.__dataclass_fields__ or hasattr(BestTrial, name)
            where = f"; use result.best.{name}" if own and not name.startswith("_") else ""
            raise AttributeError(f"a TuneResult has no attribute {name!r}{where}", name=name, obj=self)

    @property
    def failures(self) -> dict[str, int]:
        """The number of failed trials by kind, the most frequent first; those not recorded are not failures."""
        return failure_counts(trial.result for trial in self.all_trials if not trial.not_recorded)

    @property
    def emulated(self) -> bool:
        """True if the best was timed by an emulator: its seconds show nothing about a processor."""
        return self.best is not None and self.best.result.emulated

    @property
    def notes(self) -> list[str]:
        """The notes on the timings, and advice to go on where NumPy is faster. Empty for a simulation."""
        if self.simulated or not self.goes_on:
            return self.noise
        more = f"trials={2 * len(self.all_trials)} with records and resume=True"
        return [*self.noise, f"slower than NumPy: go on with more trials, such as {more}"]

    @property
    def noise(self) -> list[str]:
        """A note on the timings, if there is one: that other programs used the cores, or that the best took another
        time in the search than when it was measured again. Empty for a simulation.
        """
        if self.simulated or self.unit != "s":
            return []
        return remarks(self.all_trials, self.finalists, self.best, self._threads, uneven=self.uneven)

    @property
    def _threads(self) -> int:
        """The number of threads of each kernel, as far as it is known."""
        if self.task is not None:
            return self.task.target.num_cores
        known = None if self.best is None else self.best.baseline
        return 1 if known is None else int(known.cores)

    @property
    def not_recorded(self) -> int:
        """The number of trials for which a simulation had no answer."""
        return sum(trial.not_recorded for trial in self.trials)

    @property
    def finals(self) -> Sequence[Trial]:
        """The old name of `finalists`."""
        warnings.warn("TuneResult.finals is called finalists now", DeprecationWarning, stacklevel=2)
        return self.finalists

    @property
    def trials_per_second(self) -> float:
        return len(self.trials) / self.elapsed if self.elapsed > 0 else 0.0

    def best_costs(self) -> list[float]:
        """Compute the best cost so far after each of `trials`, in seconds; infinity until the first success.

        Costs are those of the trials, of `history` too, of which the luckiest counts; `best.cost` was measured with
        more care. Each run begins anew.
        """
        return self.all_best_costs()[len(self.history) :]

    def all_best_costs(self) -> list[float]:
        """Compute `best_costs` after each of all trials."""
        costs = iter([trial.cost for trial in self.all_trials])
        return [best for count in self.runs for best in accumulate(islice(costs, count), min)]

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Write a picture of the search (.png, .svg, .pdf) with matplotlib: every trial, and the best so far.

        Raises `ArgumentError` without matplotlib, for a suffix that it does not know, or when nothing ran.
        """
        check_plot(path)
        if not any(trial.ok for trial in self.all_trials):
            raise ArgumentError(f"plot to {os.fspath(path)!r}: there is nothing to draw, because no trial ran")
        save_plot(self, path)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write one HTML file with the curve, the knobs' influence, and the best's program before and after scheduling.

        It loads nothing from anywhere. Without matplotlib, which draws the curve, it says how to get it in its place.
        Raises `ArgumentError` where the file cannot be written.
        """
        check_output(check_path("path", path), PAGE)
        write_file(path, page(self))

    def __repr__(self) -> str:
        if self.best is None:
            return f"<TuneResult: nothing valid after {self.spent()}>"
        quality = "; ".join(self.best.quality)
        lines = [f"<TuneResult: {self.best.speed} after {self.spent()}", quality, f"config: {self.best.config}>"]
        return "\n  ".join(filter(None, lines))

    def __str__(self) -> str:
        nothing = "nothing valid was found" if self.all_trials else "nothing was tried"
        parts = [
            self.spent(rate=True),
            *filter(None, [self.shares]),
            self.best.text(self._config_text()) if self.best else nothing,
        ]
        parts += [f"  note: {line}" for line in self.notes]
        if self.failures:
            parts.append(f"  failed: {format_counts(self.failures)}{self.first_failure()}")
        if self.not_recorded:
            first = next(str(getattr(trial.result, "message", "")) for trial in self.trials if trial.not_recorded)
            parts.append(f"  not recorded: {self.not_recorded} trials; the first: {first}")
        if self.dropped:
            parts.append(f"  proposals not measured: {format_counts(self.dropped)}")
        if self.model is not None and self.model.trust:
            parts.append(f"  the model's predictions were {self.model.trust} ({self.model})")
        return "\n".join(parts)

    def _config_text(self) -> str:
        """Write the winner's configuration; of many knobs only those with most influence, where that is known."""
        config = self.best.config
        chosen = dict(config.items())
        names = main_knobs(self.trials_of_winner, SHOWN_KNOBS) if len(chosen) > MANY_KNOBS else []
        shown = ", ".join(f"{name}={chosen[name]}" for name in names if name in chosen)
        if not shown:
            return str(config)
        return (
            f"#{config.index}; the costs of the trials depend most on {shown} (of {len(chosen)} knobs, "
            "listed on the page and in result.best.config)"
        )

    @property
    def shares(self) -> str:
        """The implementation that won, with the trials and the best of each; empty where a task alone was searched."""
        groups = self.by_implementation
        if not groups:
            return ""
        won = [f"implementation: {self.implementation}"] if self.best else []
        each = [f"{name} {_best_of(trials)} in {_trials(len(trials))}" for name, trials in groups.items()]
        return "; ".join([*won, ", ".join(each)])

    @property
    def goes_on(self) -> bool:
        """True if the winner is slower than NumPy, and a limit ended the search: more trials may find a faster one."""
        return self.best is not None and self.best.is_below_numpy and self.stopped_because in _LIMITS

    @property
    def counted(self) -> str:
        """The number of trials, as text, with those from the records counted separately."""
        if self.stopped_because == "recorded":
            several = f" of {len(self.runs)} runs" if len(self.runs) > 1 else ""
            return _trials(len(self.trials), "recorded ") + several
        if self.history and self.trials:
            return f"{len(self.history)} recorded and {_trials(len(self.trials), 'new ')}"
        return _trials(len(self.history), "recorded ") if self.history else _trials(len(self.trials))

    def spent(self, *, rate: bool = False) -> str:
        """Describe the trials, their time, and why there are no more."""
        if self.stopped_because == "recorded":
            return f"{self.counted} with {self.tuner}"
        if self.history and not self.trials and self.stopped_because in ("trials", "exhausted"):
            return f"{self.counted}, none left"
        time = "s of recorded time" if self.simulated else "s"
        with_rate = check_flag("rate", rate) and self.trials
        speed = f" ({self.trials_per_second:.1f}/s)" if with_rate else ""
        return f"{self.counted} in {self.elapsed:.1f} {time}{speed} with {self.tuner}, stopped: {self.stopped_because}"

    @property
    def first_failed(self) -> Trial | None:
        """The first trial that failed; None where none did."""
        return next((trial for trial in self.all_trials if not trial.ok and not trial.not_recorded), None)

    def first_failure(self) -> str:
        """Write the first reason, or its first line where there is a winner; then its configuration."""
        trial = self.first_failed
        if trial is None or not isinstance(trial.result, Failed):
            return ""
        reason = trial.result.message if self.best is None else trial.result.message.partition("\n")[0]
        in_build = trial.result.kind in (FailureKind.INVALID, FailureKind.COMPILE_ERROR)
        group = self.subject.task
        owner, of = "task", ""
        if isinstance(group, TaskGroup):
            name = group.implementation_of(trial.config)
            owner, of = f"group.tasks[{name!r}]", f"{name} "
        again = f"; again: pegbox.build({owner}, config={trial.config.index})" if self.task and in_build else ""
        return f"; the first: {reason}\n    its config: {of}{trial.config}{again}"


def _trials(count: int, kind: str = "") -> str:
    return f"{count} {kind}trial{'s' if count != 1 else ''}"


def _best_of(trials: Sequence[Trial]) -> str:
    """Write the seconds of the fastest trial."""
    best = min((trial.cost for trial in trials), default=math.inf)
    return format_seconds(best) if best < math.inf else "nothing valid"
