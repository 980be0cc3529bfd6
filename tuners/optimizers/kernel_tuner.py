"""The tuner `kernel_tuner`: the strategies of Kernel Tuner, by default its genetic algorithm.

Van Werkhoven, "Kernel Tuner: A Search-Optimizing GPU Code Auto-Tuner" (FGCS 90, 2019).
"""

from __future__ import annotations

import importlib
import pkgutil
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pegbox.checks import check_choice, check_int
from pegbox.errors import TuningError
from pegbox.tuners.optimizers.library_tuner import FiniteCosts, LibraryTuner
from pegbox.tuners.optimizers.strategy_thread import Evaluate, Point, StrategyThread
from pegbox.tuners.rows import WHOLE, Digits, every_row

NO_STRATEGIES = {"common", "wrapper", "brute_force"}
"""The modules that are not strategies, or that walk the space in order."""


class KernelTunerTuner(LibraryTuner):
    """A strategy of Kernel Tuner. It gets a list of all configurations, or of random ones of a large space.

    `strategy` is the name of a module in `kernel_tuner.strategies`. `budget` is the number of trials for which it
    plans; after its end, configurations are random. It treats conditional knobs as always existing.
    """

    package = "kernel_tuner"
    extra = "kernel-tuner"
    modules = ("kernel_tuner",)

    def __init__(self, space: Any, *, seed: int = 0, strategy: str = "genetic_algorithm", budget: int = 200) -> None:
        super().__init__(space, seed=seed, strategy=strategy, budget=budget)

    def begin(self, seed: int, *, strategy: str = "genetic_algorithm", budget: int = 200) -> None:
        tune = _tune_of(strategy)
        rows = every_row(self._space)
        if rows is None:
            rows = self._space.sample(WHOLE, self._rng)  # Kernel Tuner needs a list
        self._rows: dict[Point, Digits] = {}
        for row in rows:
            self._rows.setdefault(self._point(row), row)
        names = [one.name for one in self._parameters.parameters]
        search = partial(_search, tune, names, list(self._rows), check_int("budget", budget))
        self._strategy = StrategyThread(search, seed)
        # Otherwise the thread would wait until the program ends.
        weakref.finalize(self, self._strategy.stop).atexit = False
        self._asked: set[Point] = set()
        self._finite = FiniteCosts()

    def propose(self) -> tuple[Digits, Any]:
        if self._parameters.parameters:
            for point in self._strategy.wanted():
                if point not in self._asked:
                    self._asked.add(point)
                    return self._row(point), point
            error = self._strategy.error
            if error is not None and not self._strategy.costs:
                raise TuningError(f"kernel_tuner: the strategy failed at once: {error}") from error
        # All points for which it waits are being measured, or it has ended.
        left = self._visited.sample(1, self._rng)
        return left[0] if len(left) else next(iter(self._rows.values())), None

    def learn(self, row: Digits, handle: Any, cost: float) -> None:
        finite = self._finite(cost)
        for point in (self._point(row), handle):
            if point is not None:
                self._strategy.costs[point] = finite

    def _row(self, point: Point) -> Digits:
        row = self._rows.get(point)
        names = (one.name for one in self._parameters.parameters)
        return row if row is not None else self._parameters.row(dict(zip(names, point, strict=True)))

    def _point(self, row: Digits) -> Point:
        """Return the values of all parameters of a row."""
        values = self._parameters.point(row)
        return tuple(values.get(one.name, 0) for one in self._parameters.parameters)


def _tune_of(strategy: str) -> Callable[..., Any]:
    """Find the function of a strategy. Raises `ArgumentError` for a name that Kernel Tuner does not have."""
    from kernel_tuner import strategies

    known = sorted({one.name for one in pkgutil.iter_modules(strategies.__path__)} - NO_STRATEGIES)
    check_choice("strategy", strategy, known)
    found: Callable[..., Any] = importlib.import_module(f"kernel_tuner.strategies.{strategy}").tune
    return found


def _search(
    tune: Callable[..., Any], names: Sequence[str], points: Sequence[Point], budget: int, evaluate: Evaluate
) -> None:
    """Run a strategy on a list of configurations until it ends, or has seen `budget` costs."""
    from kernel_tuner.interface import Options
    from kernel_tuner.searchspace import Searchspace
    from kernel_tuner.util import TuningBudget

    params = {name: sorted(set(column)) for name, column in zip(names, zip(*points, strict=True), strict=True)}
    cache = {str(place): dict(zip(names, point, strict=True)) for place, point in enumerate(points)}
    spent = TuningBudget(max_fevals=budget)
    options = Options(
        strategy_options=Options(max_fevals=budget),
        tune_params=params,
        objective=["time"],
        objective_higher_is_better=[False],
        budget=spent,
        max_fevals=budget,
        verbose=False,
        cache={},
    )
    space = Searchspace(None, None, None, from_cache={"tune_params": params, "cache": cache})
    tune(space, _Runner(names, evaluate, spent), options)


class _Runner:
    """The runner that provides a strategy with costs."""

    def __init__(self, names: Sequence[str], evaluate: Evaluate, spent: Any) -> None:
        self._names, self._evaluate, self._spent = names, evaluate, spent
        self._known: set[Point] = set()

    def add_strategy_time(self, seconds: float) -> None:
        """Ignore the time of the strategy, which pegbox measures itself."""

    def run(self, configs: Sequence[Sequence[Any]], options: Any) -> list[dict[str, Any]]:
        points = [tuple(config) for config in configs]
        self._spent.add_evaluations(len({*points} - self._known))
        self._known.update(points)
        costs = self._evaluate(points)
        return [
            {**dict(zip(self._names, point, strict=True)), "time": cost}
            for point, cost in zip(points, costs, strict=True)
        ]
