"""The strengths of tuners by features of spaces: scores on spaces with low and with high values of a feature."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pegbox.comparison.aggregate.performance import mean_of_spaces
from pegbox.comparison.landscape import Landscape
from pegbox.comparison.runs import TaskInfo
from pegbox.comparison.statistics import median

LEAST_SPACES = 4


@dataclass(frozen=True)
class Split:
    """The spaces, split by a feature: mean scores of tuners where it is at most the `bound`, and above."""

    feature: str
    bound: float
    low: Mapping[str, float]
    high: Mapping[str, float]


def _of(value: Callable[[Landscape], float]) -> Callable[[TaskInfo], float]:
    return lambda task: math.nan if task.landscape is None else value(task.landscape)


FEATURES: dict[str, Callable[[TaskInfo], float]] = {
    "configurations": lambda task: float(task.configurations or math.nan),
    "knobs": _of(lambda landscape: landscape.knobs),
    "share of failures": _of(lambda landscape: landscape.failures),
    "random trials to 95%": _of(lambda landscape: landscape.random_trials),
    "autocorrelation": _of(lambda landscape: landscape.autocorrelation),
    "fitness-distance correlation": _of(lambda landscape: landscape.fitness_distance),
}


def splits(tasks: Sequence[TaskInfo], scores: Mapping[str, Mapping[str, float]]) -> Iterator[Split]:
    """Split the tasks by each feature that differs; `scores` by tuner and task. None for few tasks."""
    for name, feature in FEATURES.items():
        values = {task.name: value for task in tasks if not math.isnan(value := feature(task))}
        if len(values) < LEAST_SPACES:
            continue
        bound = median(list(values.values()))
        low = {task for task, value in values.items() if value <= bound}
        if len(low) == len(values):
            continue
        yield Split(
            name,
            bound,
            {tuner: mean_of_spaces([s for task, s in some.items() if task in low]) for tuner, some in scores.items()},
            {
                tuner: mean_of_spaces([s for task, s in some.items() if task in values and task not in low])
                for tuner, some in scores.items()
            },
        )
