"""Allocation of trials to the tasks of one program: which task is searched in the next round.

`GradientAllocation` is section 6 of Zheng et al., "Ansor: Generating High-Performance Tensor Programs for Deep
Learning" (OSDI 2020): the task whose next round promises most for the time of the whole program is next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from pegbox.checks import check_float, check_int

Total: TypeAlias = Callable[[Sequence[float]], float]
"""What is to be made small, of the seconds of each task: their sum, say, each as often as it is called."""

UNKNOWN = 1e10
"""The seconds of a task of which nothing ran so far: any that runs is an improvement."""

_STEP = 1e-4  # of a task's seconds, for the derivative of the total


@dataclass
class Progress:
    """What is known of one task.

    Attributes:
        flop: arithmetic operations of one call.
        best: seconds of its fastest configuration after each round.
        similar: tasks of one word here are expected to reach about the same speed; empty: like no other.
        exhausted: nothing is left to try.
    """

    flop: float = 0.0
    best: list[float] = field(default_factory=list)
    similar: str = ""
    exhausted: bool = False

    @property
    def cost(self) -> float:
        """Seconds of the best so far."""
        return min(self.best[-1], UNKNOWN) if self.best else UNKNOWN

    @property
    def speed(self) -> float:
        """Operations a second of the best so far."""
        return self.flop / self.cost


class Allocation(Protocol):
    """Says which task is next."""

    def next(self, tasks: Sequence[Progress], /) -> int | None:
        """The number of a task, or None where all are exhausted."""


class RoundRobin:
    """One task after the other."""

    def __init__(self) -> None:
        self._last = -1

    def next(self, tasks: Sequence[Progress]) -> int | None:
        """The task after the one that was last."""
        for step in range(1, len(tasks) + 1):
            number = (self._last + step) % len(tasks)
            if not tasks[number].exhausted:
                self._last = number
                return number
        return None


@dataclass(frozen=True)
class GradientAllocation:
    """The task of the steepest descent. Each task has one round first, in their order.

    A task's descent is an estimate of what one more round takes off its seconds, times what the total makes of it:
    `alpha` of what the last `window` rounds gained on average, and the rest of what an optimist expects. He expects
    the gain of the mean round so far, but no more than what takes the task to `1 / beta` of the speed of the fastest
    similar one.

    Args:
        total: of the seconds of all tasks.
    """

    total: Total = sum
    alpha: float = 0.2
    beta: float = 2.0
    window: int = 3

    def __post_init__(self) -> None:
        check_float("alpha", self.alpha, maximum=1.0)
        check_float("beta", self.beta)
        check_int("window", self.window)

    def next(self, tasks: Sequence[Progress]) -> int | None:
        """The task of the steepest descent; among equals, that with the fewest rounds."""
        open_ones = [n for n, task in enumerate(tasks) if not task.exhausted]
        fresh = [n for n in open_ones if not tasks[n].best]
        if fresh or not open_ones:
            return fresh[0] if fresh else None
        return min(open_ones, key=lambda n: (self.gradient(tasks, n), len(tasks[n].best)))

    def gradient(self, tasks: Sequence[Progress], number: int) -> float:
        """Seconds that one more round of a task is expected to add to the total: 0 or less where it gains."""
        task, costs = tasks[number], [each.cost for each in tasks]
        step = _STEP * task.cost
        nearer = [*costs[:number], task.cost - step, *costs[number + 1 :]]
        slope = (self.total(costs) - self.total(nearer)) / step
        return slope * (self.alpha * self._backward(task) + (1 - self.alpha) * self._forward(tasks, task))

    def _backward(self, task: Progress) -> float:
        """Estimate the seconds that a recent round gained."""
        if len(task.best) <= self.window:
            return 0.0
        return (task.cost - min(task.best[-1 - self.window], UNKNOWN)) / self.window

    def _forward(self, tasks: Sequence[Progress], task: Progress) -> float:
        """Estimate, optimistically, the seconds that the next round gains."""
        hoped = task.cost - task.cost / len(task.best)
        alike = [each.speed for each in tasks if each.similar == task.similar and each is not task]
        similar = self.beta * task.flop / max([task.speed, *alike]) if task.similar and alike else math.inf
        return min(min(hoped, similar) - task.cost, 0.0)
