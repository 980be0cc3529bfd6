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
"""The reason for the end of a search; "recorded" for a result read from records, which do not tell."""

_LIMITS: tuple[StopReason, ...] = ("trials", "budget", "early stopping")

MANY_KNOBS, SHOWN_KNOBS = 12, 6
"""A result with more knobs than the first number lists only as many as the second; the page lists all."""


@dataclass(frozen=True)
class TuneResult:
    """All measurements of a run. `print` shows a summary, `plot` and `to_html` draw it.

    `best` (a `BestTrial`) is None if nothing valid was found: `best.config` is the configuration for `pegbox.build`,
    `best.cost` its seconds, `best.baseline` NumPy's time for the same computation and the machine's limits. `trials`
    are all trials in order, each with `config`, `cost` and `result`; `history` are the trials that a resumed run read
    from its records, which precede them. `subject` is the computation or function: its name, task, and work.

    `elapsed` and `phases` are wall-clock seconds of the run, and the phases add up to nearly all of it. `finalists` are
    the careful measurements that `best` was picked from; `model` reports the quality of the tuner's model on unseen
    trials. If `simulated`, all seconds are those of the virtual clock: the recorded seconds of the trials, and the
    present ones of the tuner. `dropped` counts proposals that were not measured, by reason: repeated, or more than
    requested. `uneven` is `Measurer.uneven`. `recorded_runs` are the numbers of `trials` of each run, if they were read
    from the records of several. `untold` are the trials that were not reported to the tuner because a limit or an error
    cut their batch short.
    """

    best: BestTrial | Any  # None if nothing ran; `Any` lets users write `result.best.config` without a check
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
        """The tuned task, for a group the winner's; None for a function, or if only a space is known."""
        task = self.subject.task
        if not isinstance(task, TaskGroup):
            return task
        return task.first if self.best is None else task.task_of(self.best.config)

    @property
    def implementation(self) -> str:
        """The name of the implementation that won the search of a group; empty otherwise."""
        group = self.subject.task
        return group.implementation_of(self.best.config) if isinstance(group, TaskGroup) and self.best else ""

    @property
    def unit(self) -> str:
        """The unit of the costs, "s" for seconds."""
        return self.subject.unit

    @property
    def runs(self) -> Sequence[int]:
        """The number of trials of each run: one number, except for records of several runs."""
        return self.recorded_runs or (len(self.all_trials),)

    @property
    def all_trials(self) -> Sequence[Trial]:
        """All trials: recorded ones first, then those of this run."""
        return (*self.history, *self.trials)

    @property
    def by_implementation(self) -> dict[str, list[Trial]]:
        """All trials of each implementation of a group by its name; empty for a single task."""
        group = self.subject.task
        if not isinstance(group, TaskGroup):
            return {}
        found: dict[str, list[Trial]] = {name: [] for name in group.tasks}
        for trial in self.all_trials:
            found[group.implementation_of(trial.config)].append(trial)
        return found

    @property
    def trials_of_winner(self) -> Sequence[Trial]:
        """All trials in the winner's space; for a group, those of the implementation that won."""
        return self.by_implementation.get(self.implementation, self.all_trials)

    if not TYPE_CHECKING:  # type checkers know the attributes

        def __getattr__(self, name: str) -> NoReturn:
            own = name in BestTrial.__dataclass_fields__ or hasattr(BestTrial, name)
            where = f"; use result.best.{name}" if own and not name.startswith("_") else ""
            raise AttributeError(f"a TuneResult has no attribute {name!r}{where}", name=name, obj=self)

    @property
    def failures(self) -> dict[str, int]:
        """The number of failed trials by kind, most frequent first; a simulation's missing results are not failures."""
        return failure_counts(trial.result for trial in self.all_trials if not trial.not_recorded)

    @property
    def emulated(self) -> bool:
        """True if an emulator timed the best: its seconds show nothing about a processor."""
        return self.best is not None and self.best.result.emulated

    @property
    def notes(self) -> list[str]:
        """The notes on the timings, and advice to continue if NumPy is faster. Empty for a simulation."""
        if self.simulated or not self.goes_on:
            return self.noise
        more = f"trials={2 * len(self.all_trials)} with records and resume=True"
        return [*self.noise, f"slower than NumPy: go on with more trials, such as {more}"]

    @property
    def noise(self) -> list[str]:
        """A note on the timings, or empty: that other programs used the cores, or that the best's time in the search
        differs from its time when it was measured again. Always empty for a simulation.
        """
        if self.simulated or self.unit != "s":
            return []
        return remarks(self.all_trials, self.finalists, self.best, self._threads, uneven=self.uneven)

    @property
    def _threads(self) -> int:
        """The number of threads of each kernel, if it is known."""
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

        Costs are single measurements, including those of `history`, so that the luckiest counts; `best.cost` was
        measured with more care. Each run starts afresh.
        """
        return self.all_best_costs()[len(self.history) :]

    def all_best_costs(self) -> list[float]:
        """Compute `best_costs` after each of all trials."""
        costs = iter([trial.cost for trial in self.all_trials])
        return [best for count in self.runs for best in accumulate(islice(costs, count), min)]

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Write a picture of the search (.png, .svg, .pdf) with matplotlib: every trial, and the best so far.

        Raises `ArgumentError` without matplotlib, for an unknown suffix, or if nothing ran.
        """
        check_plot(path)
        if not any(trial.ok for trial in self.all_trials):
            raise ArgumentError(f"plot to {os.fspath(path)!r}: there is nothing to draw, because no trial ran")
        save_plot(self, path)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write one HTML file with the curve, the knobs' influence, and the best's program before and after scheduling.

        The file loads nothing from elsewhere. Without matplotlib, it has advice on installing it in place of the curve.
        Raises `ArgumentError` if the file cannot be written.
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
        """Write the winner's configuration; of many knobs, only those with most influence, if that is known."""
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
        """The implementation that won, with the trials and the best of each; empty for a single task."""
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
        """Describe the trials, their time, and the reason for the end."""
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
        """The first trial that failed; None if none did."""
        return next((trial for trial in self.all_trials if not trial.ok and not trial.not_recorded), None)

    def first_failure(self) -> str:
        """Write the first failure's reason, or its first line if there is a winner; then its configuration."""
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
