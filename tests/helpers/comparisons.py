"""Comparisons without measuring: from curves that a test writes down, or on a small artificial task."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from pegbox.comparison import Comparison, Landscape, Run, Setup, TaskInfo, compare
from pegbox.hooks import registry
from pegbox.measure.result import Result
from pegbox.search.models.report import ModelReport
from pegbox.search.testing import ArtificialMeasurer, small_space
from pegbox.space import Config, ConfigSpace


def best_so_far(costs: Sequence[float]) -> tuple[float, ...]:
    return tuple(min(costs[: count + 1]) for count in range(len(costs)))


def landscape(optimum: float, trials: int) -> Landscape:
    """The features of a space on which random search ends at twice the optimum."""
    random = [optimum * (2.0 + (trials - count) / trials) for count in range(1, trials + 1)]
    return Landscape(3, 0.0, optimum, 4.0 * optimum, 9.0 * optimum, tuple(random), 30.0)


def made(
    costs: Mapping[str, Sequence[Sequence[float]]],
    *,
    task: str = "job",
    recorded_best: float | None = None,
    trials: int | None = None,
    models: Mapping[str, float] | None = None,
) -> Comparison:
    """The report of tuners whose runs (one per seed) measured these costs."""
    runs = [
        Run(
            task=task,
            tuner=tuner,
            seed=seed,
            curve=best_so_far(measured),
            final_cost=min(measured, default=math.inf),
            failures={"timeout": failed} if (failed := sum(cost == math.inf for cost in measured)) else {},
            seconds=12.5,
            tuner_seconds=0.001 * len(measured),
            model=ModelReport(len(measured), 10, models[tuner]) if models and tuner in models else None,
        )
        for tuner, some in costs.items()
        for seed, measured in enumerate(some)
    ]
    count = trials or max(len(run.curve) for run in runs)
    seeds = max(len(some) for some in costs.values())
    source = "space.jsonl" if recorded_best is not None else ""
    known = None if recorded_best is None else landscape(recorded_best, count)
    info = TaskInfo(task, "llvm", 2e9, 44, recorded_best, source=source, host="here", landscape=known)
    setup = Setup((info,), tuple(costs), count, tuple(range(seeds)), planned=len(runs), version="0.1.0")
    return Comparison(setup, tuple(runs))


@dataclass
class FakeTask:
    name: str = "job"
    space: ConfigSpace = field(default_factory=small_space)
    flop: float = 1e9


class InOrder:
    """The space from the front, or from the back."""

    def __init__(self, space: ConfigSpace, *, seed: int = 0, backwards: bool = False) -> None:
        configs = list(space.iterate())
        self.walk: Iterator[Config] = iter(configs[::-1] if backwards else configs)
        self.told: list[Config] = []

    def ask(self, n: int) -> list[Config]:
        fresh = (config for config in self.walk if config not in self.told)
        return [config for _, config in zip(range(n), fresh, strict=False)]

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        self.told += configs


def by_index(config: Config) -> float:
    return 1.0 / (1 + config.index)


def compared(tuners: Any = ("walk", "walk:backwards=yes"), tasks: Any = None, **options: Any) -> Comparison:
    """A comparison on 44 configurations, of which the later ones are faster."""
    settings: dict[str, Any] = {
        "trials": 5,
        "seeds": 2,
        "measurer": lambda task: ArtificialMeasurer(by_index),
    }
    resolve = registry.resolve
    with patch.object(registry, "resolve", lambda kind, name: InOrder if name == "walk" else resolve(kind, name)):
        return compare(tasks or FakeTask(), tuners, **{**settings, **options})
