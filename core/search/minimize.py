"""`pegbox.minimize`: searches a space for the configuration for which a function of one's own costs least."""

from __future__ import annotations

import os
from collections.abc import Iterable

from pegbox.checks import with_checked_keywords
from pegbox.errors import ArgumentError
from pegbox.records.journal import Journal
from pegbox.search.loop.callbacks import CallbackLike
from pegbox.search.loop.options import DEFAULT_FINALISTS, SearchOptions
from pegbox.search.loop.outcome import TuneResult
from pegbox.search.loop.recorder import Resume
from pegbox.search.objective import CostFunction, Objective
from pegbox.search.problem import problem_of
from pegbox.search.protocols import TunerFactory
from pegbox.search.tune import search_problem
from pegbox.space import ConfigSpace


@with_checked_keywords
def minimize(
    function: CostFunction | Objective,
    space: ConfigSpace | None = None,
    *,
    tuner: str | TunerFactory = "bayes",
    trials: int | None = 100,
    budget: float | str | None = None,
    early_stopping: int | None = None,
    records: str | os.PathLike[str] | Journal | None = None,
    resume: Resume = False,
    seed: int = 0,
    batch_size: int | None = None,
    callbacks: Iterable[CallbackLike] = (),
    progress: bool = True,
    repeat: int | None = None,
    unit: str | None = None,
    name: str | None = None,
) -> TuneResult:
    """Search the space for the configuration for which `function(config)` is least.

    The function is called in this process, with one configuration at a time (`config["block"].val`), and returns a
    number above 0. One that raises, or returns NaN, infinity or something else, makes a failed trial with the reason.

    Args:
        function: of a configuration; or an `Objective`, which knows its space.
        space: a `ConfigSpace`.
        trials: configurations to try; None when only the budget limits.
        budget: seconds, or text such as "60s", "5m", "1m30s"; a call that runs is not cut short.
        seed: of the tuner.
        repeat, unit, name: those of `Objective`: calls for each configuration (1), the costs' unit, a name for records.
        tuner, early_stopping, records, resume, batch_size, callbacks, progress: as for `tune`.

    Returns:
        The `TuneResult` that `tune` returns: `.best.config`, `.best.cost`, `.trials`. Its costs are the function's.
        Ctrl-C, in the function too, ends the search early, and everything found is in the result.

    Raises:
        ArgumentError: no function of one argument, no space, or an option outside its domain.
        UnknownName, PluginError: no such tuner.
        SpaceError: no configuration of the space is valid.
        RecordError: the file is damaged, or its records of that name are of another space.
        TuningError: the tuner or the records broke; what was measured is in its `result`.
    """
    objective = _objective(function, space, {"repeat": repeat, "unit": unit, "name": name})
    options = SearchOptions.of(
        trials,
        budget,
        early_stopping,
        batch_size,
        callbacks,
        progress=progress,
        finalists=DEFAULT_FINALISTS if objective.repeat > 1 else 0,
    )
    problem = problem_of(objective, "local", None)
    return search_problem(problem, tuner, options, records=records, resume=resume, seed=seed)


def _objective(function: CostFunction | Objective, space: ConfigSpace | None, options: dict[str, object]) -> Objective:
    """Make the objective. Raises `ArgumentError` for an objective together with its own arguments."""
    given = {name: value for name, value in options.items() if value is not None}
    if not isinstance(function, Objective):
        return Objective(function, space, **given)  # type: ignore[arg-type]  # it checks them
    for name, value in {"space": space, **given}.items():
        if value is not None:
            raise ArgumentError(f"{name}={value!r}: {function!r} has its own; leave it out")
    return function
