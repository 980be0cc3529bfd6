"""`SearchOptions`, the limits and settings of a search, and `PriorTrials`, the trials that it starts from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pegbox.checks import check_flag, check_instance, check_int, check_list, check_seconds, check_text
from pegbox.errors import ArgumentError
from pegbox.measure.baselines.baseline import Baseline
from pegbox.measure.result import Failed, Ok, Result
from pegbox.search.loop.callbacks import CallbackLike, check_callbacks
from pegbox.search.loop.state import Limits
from pegbox.shown import value_text
from pegbox.space import Config
from pegbox.store.store import TuningStore

DEFAULT_FINALISTS = 6
_CONFIGS = "configurations of the task's space, such as [task.space.get(0)]"


@dataclass(frozen=True)
class SearchOptions:
    """The limits and settings of a search.

    Attributes:
        trials: the largest number of new measurements; None if only the budget limits them.
        budget_seconds: the longest time of the search.
        early_stopping: a number of trials without improvement after which the search ends.
        batch_size: the number of configurations to ask the tuner for at a time; None means the tuner's own
            `batch_size`, else 16, or the number that the measurer measures at once (`machines`) if that is larger.
        finalists: the number of the fastest within noise to measure again at the end, which decides the winner; 0 skips
            that.
        callbacks: functions of a trial, or `Callback` objects.
        progress: show the progress of `tune`.
        baseline: ask the measurer at the end for costs to compare with, if it has any.
        name: the tuner's name in messages; None for that of its class.
        store: the store that keeps the best of a task; None keeps nothing.
        first: configurations to propose before those of the tuner, and to measure again at the end with the fastest.

    Raises:
        ArgumentError: an option is outside its domain, or there is no limit.
    """

    trials: int | None = None
    budget_seconds: float | None = None
    early_stopping: int | None = None
    batch_size: int | None = None
    finalists: int = DEFAULT_FINALISTS
    callbacks: Iterable[CallbackLike] = ()
    progress: bool = False
    baseline: bool = False
    name: str | None = None
    store: TuningStore | None = None
    first: Sequence[Config] = ()

    def __post_init__(self) -> None:
        _ = self.limits
        if self.batch_size is not None:
            check_int("batch_size", self.batch_size)
        check_int("finalists", self.finalists, minimum=0)
        check_flag("progress", self.progress)
        check_flag("baseline", self.baseline)
        if self.name is not None:
            check_text("name", self.name)
        if self.store is not None:
            check_instance("store", self.store, TuningStore, "a pegbox.store.TuningStore, or None")
        object.__setattr__(self, "first", tuple(check_list("first", self.first, _CONFIGS, of=Config)))

    @classmethod
    def of(
        cls,
        trials: int | None,
        budget: float | str | None,
        early_stopping: int | None,
        batch_size: int | None,
        callbacks: Iterable[CallbackLike],
        *,
        progress: bool,
        finalists: int = DEFAULT_FINALISTS,
        store: TuningStore | None = None,
        first: Sequence[Config] = (),
    ) -> SearchOptions:
        """Make the options of `tune`, which asks for a baseline, and needs at least one trial."""
        if trials is not None:
            check_int("trials", trials)  # without a trial, the result would look as if nothing valid had been found
        seconds = None if budget is None else check_seconds("budget", budget)
        listed = check_callbacks(callbacks)
        limits = (trials, seconds, early_stopping, batch_size)
        return cls(*limits, finalists, listed, progress, baseline=True, store=store, first=first)

    def then(self, configs: Sequence[Config]) -> SearchOptions:
        """Return options that propose these configurations after the `first` ones."""
        return replace(self, first=[*self.first, *configs])

    @property
    def limits(self) -> Limits:
        """The conditions that end the search."""
        return Limits(self.trials, self.budget_seconds, self.early_stopping)


def check_history(name: str, given: object) -> list[tuple[Config, Result]]:
    """Return the configurations with their results as a list of pairs; raise `ArgumentError` for anything else."""
    wanted = "pairs of a configuration and its result, as (trial.config, trial.result)"
    pairs = check_list(name, given, wanted, of=tuple)
    for pair in pairs:
        match pair:
            case (Config(), Ok() | Failed()):
                continue
        raise ArgumentError(f"{name}: {value_text(pair)} is not a pair; give {wanted}")
    return pairs


@dataclass(frozen=True)
class PriorTrials:
    """The trials that a search starts from: they may win, and the search does not repeat them.

    Attributes:
        results: the latest result of each configuration, which is reported to the tuner first.
        trials: the results of the trials themselves, where `results` has remeasurements, since only they are comparable
            with new trials.
        baseline: the costs to compare with, for a search that measures none.
        earlier: the number of other configurations that the tuner knows from earlier rounds.
    """

    results: Sequence[tuple[Config, Result]] = ()
    trials: Mapping[Config, Result] = field(default_factory=dict)
    baseline: Baseline | None = None
    earlier: int = 0

    def __post_init__(self) -> None:
        check_history("results", self.results)
        check_instance("trials", self.trials, Mapping, "the result of each configuration")  # type: ignore[type-abstract]
