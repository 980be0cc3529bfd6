"""`GroupTuner`: one tuner for an operator's implementations, which asks the tuner of the most promising one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pegbox.measure.result import Result
from pegbox.search.allocation import Progress
from pegbox.search.protocols import Tuner
from pegbox.task.group import TaskGroup

if TYPE_CHECKING:
    from pegbox.search.allocation import Allocation
    from pegbox.space import Config

ROUND = 8
"""The number of trials of one implementation before another may follow, and the unit of its progress."""


class GroupTuner:
    """A tuner over the spaces of a group: an allocation chooses the implementation of each batch.

    It has no model of its own, so that any tuner can be used for the implementations.

    Args:
        group: the implementations.
        tuners: the tuner of each, by name.
        allocation: the rule that chooses the implementation of the next batch by the seconds of each one's best so far.
    """

    def __init__(self, group: TaskGroup, tuners: Mapping[str, Tuner], allocation: Allocation) -> None:
        self._group, self._tuners, self._allocation = group, dict(tuners), allocation
        self._names = list(self._tuners)
        self._progress = [Progress(flop=group.flop) for _ in self._names]
        self._costs: list[list[float]] = [[] for _ in self._names]
        self._asked = [0] * len(self._names)
        sizes = [getattr(each, "batch_size", ROUND) for each in self._tuners.values()]
        self.batch_size = min([ROUND, *(size for size in sizes if isinstance(size, int) and size > 0)])
        self.asks_ahead = all(getattr(each, "asks_ahead", False) for each in self._tuners.values())
        self.experienced = any(getattr(each, "experienced", True) for each in self._tuners.values())

    def ask(self, n: int) -> Sequence[Config]:
        """Propose at most `n` configurations of the most promising implementation."""
        while (number := self._next()) is not None:
            proposed = list(self._tuners[self._names[number]].ask(min(n, ROUND)))
            self._asked[number] += len(proposed)
            if proposed:
                return proposed
            self._progress[number].exhausted = True
        return []

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        """Report results to the tuners of their implementations."""
        for number, name in enumerate(self._names):
            pairs = [
                (config, result)
                for config, result in zip(configs, results, strict=True)
                if self._group.implementation_of(config) == name
            ]
            if pairs:
                self._tuners[name].tell([config for config, _ in pairs], [result for _, result in pairs])
                self._count(number, [result.cost for _, result in pairs])

    def wait(self) -> None:
        """Wait until no tuner works in the background."""
        for tuner in self._tuners.values():
            if (wait := getattr(tuner, "wait", None)) is not None:
                wait()

    def _next(self) -> int | None:
        """Choose the implementation of the next batch; those without a trial come first."""
        left = [number for number, each in enumerate(self._progress) if not each.exhausted]
        if fresh := [number for number in left if not self._asked[number] and not self._costs[number]]:
            return fresh[0]
        if waiting := [number for number in left if not self._costs[number]]:
            return min(waiting, key=lambda number: self._asked[number])
        return self._allocation.next(self._progress)

    def _count(self, number: int, costs: Sequence[float]) -> None:
        """Add trials, and note the best after each round of them."""
        own = self._costs[number]
        own += costs
        ends = [*range(ROUND, len(own), ROUND), len(own)]
        self._progress[number].best[:] = [min(own[:end], default=math.inf) for end in ends]
