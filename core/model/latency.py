"""The latency of models by the seconds of their tasks, and the fastest variant of each graph."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

from pegbox.graph.graph import Graph
from pegbox.model.model_task import ModelTask
from pegbox.search.allocation import UNKNOWN

MARGIN = 0.05
"""The share by which another variant must be ahead, since kernels are timed one by one."""
NEAR = 0.15
"""The share by which another variant's sum may be behind for the whole models to be timed in turns."""

Calls = Mapping[int, int]
"""The number of calls of each task, by the task's number."""

_T = TypeVar("_T")

Searched = tuple[tuple[int, int], ...]
"""The tasks computed by a search's kernels: each one's number, and that of its implementation."""


@dataclass(frozen=True)
class Latency:
    """The sum of the seconds of all calls of several models.

    Attributes:
        variants: for each model, the calls of each variant of its graph; the first variant is used without
            measurements.
        searches: for each search, the tasks that its kernels compute.
        decided: for each model, the variant that was the fastest as a whole, None if that was not measured; empty for
            none at all.
    """

    variants: tuple[tuple[Calls, ...], ...]
    searches: tuple[Searched, ...]
    decided: tuple[int | None, ...] = ()

    @classmethod
    def of(cls, graphs: Sequence[Sequence[Graph]], tasks: Sequence[ModelTask]) -> Latency:
        """Count the calls of tasks in the variants of each model's graph."""
        places = {id(node): number for number, task in enumerate(tasks) for node in task.nodes}
        calls = tuple(
            tuple(Counter(places[id(node)] for node in graph.nodes if id(node) in places) for graph in variants)
            for variants in graphs
        )
        return cls(calls, tuple(searches_of(tasks, _of_first_variants(calls))))

    @property
    def of_other_variants(self) -> list[bool]:
        """A flag for each search, True if the first variants call none of its tasks."""
        first = _of_first_variants(self.variants)
        return [all(number not in first for number, _ in each) for each in self.searches]

    def __call__(self, costs: Sequence[float]) -> float:
        """Sum up the seconds of all calls, given the seconds of each search; the fastest of a task counts.

        Tasks without a result are left out: their `UNKNOWN` seconds would hide the others.
        """
        known = [cost if cost < UNKNOWN else math.inf for cost in self.best(costs)]
        return sum(
            total if total < math.inf else _total(each[0], [cost if cost < math.inf else 0.0 for cost in known])
            for each, total in zip(self.variants, self._chosen_totals(known), strict=True)
        )

    def of_tasks(self, seconds: Sequence[float]) -> float:
        """Sum up the seconds of all calls in the fastest variant of each model; infinity if a task's are infinite."""
        return sum(self._chosen_totals(seconds))

    def best(self, costs: Sequence[float]) -> list[float]:
        """Find the seconds of the fastest implementation of each task."""
        found = [math.inf] * (max((number for each in self.searches for number, _ in each), default=-1) + 1)
        for searched, cost in zip(self.searches, costs, strict=True):
            for number, _ in searched:
                found[number] = min(found[number], cost)
        return found

    def by_task(self, found: Sequence[_T]) -> list[list[_T]]:
        """List, for each task, the results of its implementations' searches, in order."""
        pairs = {pair: each for searched, each in zip(self.searches, found, strict=True) for pair in searched}
        return [[pairs[pair] for pair in group] for _, group in groupby(sorted(pairs), key=lambda pair: pair[0])]

    def chosen(self, seconds: Sequence[float]) -> list[int]:
        """Choose the variant of each model: the one that was the fastest as a whole, or else the fastest by the seconds
        of tasks.

        If not all are known, it is the first.
        """
        decided = self.decided or (None,) * len(self.variants)
        return [
            preferred(self.totals(each, seconds), decided=number)
            for each, number in zip(self.variants, decided, strict=True)
        ]

    def candidates(self, seconds: Sequence[float]) -> list[list[int]]:
        """List the variants of each model to time as a whole: the chosen one, and the best of the others.

        Others that are far behind, or have an unknown task, do not take part.
        """
        found = []
        for number, each in zip(self.chosen(seconds), self.variants, strict=True):
            totals = self.totals(each, seconds)
            near = [place for place, total in enumerate(totals) if total <= (1 + NEAR) * totals[number] < math.inf]
            others = sorted(set(near) - {number}, key=lambda place: totals[place])
            found.append([number, *others[:1]])
        return found

    def calls(self, seconds: Sequence[float]) -> list[int]:
        """Count the calls of each task by all models in their chosen variants."""
        return self.calls_of(self.chosen(seconds), len(seconds))

    def calls_of(self, numbers: Sequence[int | None], tasks: int) -> list[int]:
        """Count the calls of each of the tasks in one variant of each model; None means no calls of that model."""
        found = [0] * tasks
        for number, variants in zip(numbers, self.variants, strict=True):
            for task, count in {} if number is None else variants[number].items():
                found[task] += count
        return found

    def _chosen_totals(self, seconds: Sequence[float]) -> list[float]:
        """Sum up the calls of the chosen variant of each model."""
        numbers = self.chosen(seconds)
        return [_total(each[number], seconds) for each, number in zip(self.variants, numbers, strict=True)]

    @staticmethod
    def totals(variants: Sequence[Calls], seconds: Sequence[float]) -> list[float]:
        """Sum up the calls of each variant of a model."""
        return [_total(calls, seconds) for calls in variants]


def searches_of(tasks: Sequence[ModelTask], first: Collection[int]) -> list[Searched]:
    """List the searches of all implementations, equal ones once.

    Those of the tasks in `first` precede the others, and the first one of each task precedes its further ones.
    """
    pairs = [(number, place) for number, task in enumerate(tasks) for place in range(len(task.implementations))]
    groups: dict[str, list[tuple[int, int]]] = {}
    for number, place in sorted(pairs, key=lambda pair: (pair[0] not in first, pair[1])):
        task = tasks[number].implementations[place].task
        groups.setdefault(f"{task.workload} {task.target} {task.fingerprint}", []).append((number, place))
    return [tuple(each) for each in groups.values()]


def preferred(totals: Sequence[float], *, decided: int | None = None) -> int:
    """Choose a variant by the seconds of all: the first, unless another one is ahead by more than `MARGIN`.

    Args:
        decided: the variant that was the fastest as a whole, which is chosen if all its seconds are known.
    """
    if decided is not None and totals[decided] < math.inf:
        return decided
    best = min(range(len(totals)), key=lambda number: totals[number])
    return best if totals[best] < (1 - MARGIN) * totals[0] < math.inf else 0


def _of_first_variants(variants: Sequence[Sequence[Calls]]) -> set[int]:
    """Find the tasks that the models' first variants call."""
    return {number for calls, *_ in variants for number in calls}


def _total(calls: Calls, seconds: Sequence[float]) -> float:
    return sum(count * seconds[number] for number, count in calls.items())
