"""Allocation of trials to the tasks of one program: the choice of the task for the next round.

`GradientAllocation` is section 6 of Zheng et al., "Ansor: Generating High-Performance Tensor Programs for Deep
Learning" (OSDI 2020): the task whose next round promises most for the time of the whole program is next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

from pegbox.checks import check_callable, check_float, check_int
from pegbox.errors import PluginError
from pegbox.hooks import registry
from pegbox.hooks.options import bind_options, construct, signature_of
from pegbox.hooks.refs import parse_spec
from pegbox.shown import value_text

Total: TypeAlias = Callable[[Sequence[float]], float]
"""The objective, a function of each task's seconds: for a program, their sum weighted by the number of calls."""

UNKNOWN = 1e10
"""The seconds of a task without a successful trial: any success is an improvement."""

_STEP = 1e-4  # relative change of a task's seconds, for the derivative of the total


@dataclass
class Progress:
    """The progress of one task.

    Attributes:
        flop: arithmetic operations of one call.
        best: seconds of its fastest configuration after each round.
        similar: a word shared by tasks of about the same attainable speed; empty for a task unlike all others.
        exhausted: True if no configuration is left.
        can_wait: True if the program runs without the task, so that its first round can wait.
    """

    flop: float = 0.0
    best: list[float] = field(default_factory=list)
    similar: str = ""
    exhausted: bool = False
    can_wait: bool = False

    @property
    def cost(self) -> float:
        """The seconds of the best so far."""
        return min(self.best[-1], UNKNOWN) if self.best else UNKNOWN

    @property
    def speed(self) -> float:
        """The operations per second of the best so far."""
        return self.flop / self.cost


@runtime_checkable
class Allocation(Protocol):
    """A rule that distributes rounds among tasks."""

    def next(self, tasks: Sequence[Progress]) -> int | None:
        """Choose the task of the next round; None if all are exhausted."""


AllocationLike: TypeAlias = str | Callable[..., Allocation]
"""The name of an allocation, with options if any ("gradient:alpha=0.5"), or a factory."""


def make_allocation(given: AllocationLike, total: Total) -> Allocation:
    """Make the allocation from a name or a factory; factories that declare `total` get the objective.

    Raises:
        UnknownName, ArgumentError: there is no such allocation, or it has no such option.
        PluginError: the factory raises, or returns something else.
    """
    owner, written = f"allocation {value_text(given)}", {}
    if isinstance(given, str):
        spec = parse_spec(given)
        factory, written = registry.resolve("allocation", spec.name), dict(spec.options)
    else:
        wanted = "the name of an allocation, such as 'gradient', or a class of allocations"
        factory = check_callable("allocation", given, wanted)
    options: dict[str, Any] = bind_options(owner, factory, written, but=["total"], leading=0)
    if "total" in signature_of(factory).parameters:
        options["total"] = total
    made = construct(owner, factory, **options)
    if not isinstance(made, Allocation):
        raise PluginError(f"{owner} made a {type(made).__name__} without next(tasks)")
    return made


class RoundRobin:
    """An allocation to one task after the other."""

    def __init__(self) -> None:
        self._last = -1

    def next(self, tasks: Sequence[Progress]) -> int | None:
        """Choose the task after the last one."""
        for step in range(1, len(tasks) + 1):
            number = (self._last + step) % len(tasks)
            if not tasks[number].exhausted:
                self._last = number
                return number
        return None


@dataclass(frozen=True)
class GradientAllocation:
    """An allocation to the task with the steepest descent. Each task has one round first, in their order.

    First rounds that can wait take turns with the later rounds of all tasks. The variants of a model's graph
    have several times as many tasks as the first variant, and most of their kernels are slower than its own.

    A task's descent is the estimated gain of one more round, times its weight in the total: `alpha` times the average
    gain of the last `window` rounds, and the rest an optimistic estimate. This is the gain of the mean round so far,
    but at most the gain that takes the task to `1 / beta` of the speed of the fastest similar one.

    Args:
        total: the objective, a function of the seconds of all tasks.
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
        """Choose the task with the steepest descent; among equals, the one with the fewest rounds."""
        open_ones = [n for n, task in enumerate(tasks) if not task.exhausted]
        fresh = [n for n in open_ones if not tasks[n].best]
        needed = [n for n in fresh if not tasks[n].can_wait]
        if needed or not open_ones:
            return needed[0] if needed else None
        begun = sum(bool(task.best) for task in tasks if task.can_wait)
        later = sum(len(task.best) - 1 for task in tasks if task.best)
        started = [n for n in open_ones if tasks[n].best]
        if fresh and (begun <= later or not started):
            return fresh[0]
        return min(started, key=lambda n: (self.gradient(tasks, n), len(tasks[n].best)))

    def gradient(self, tasks: Sequence[Progress], number: int) -> float:
        """Estimate the seconds that one more round of a task adds to the total: 0, or negative for a gain."""
        task, costs = tasks[number], [each.cost for each in tasks]
        step = _STEP * task.cost
        nearer = [*costs[:number], task.cost - step, *costs[number + 1 :]]
        slope = (self.total(costs) - self.total(nearer)) / step
        backward = 0.0
        if len(task.best) > self.window:
            backward = (task.cost - min(task.best[-1 - self.window], UNKNOWN)) / self.window
        hoped = task.cost - task.cost / len(task.best)
        alike = [each.speed for each in tasks if each.similar == task.similar and each is not task]
        similar = self.beta * task.flop / max([task.speed, *alike]) if task.similar and alike else math.inf
        forward = min(min(hoped, similar) - task.cost, 0.0)
        return slope * (self.alpha * backward + (1 - self.alpha) * forward)


@dataclass(frozen=True)
class BestOfAllocation:
    """An allocation to implementations of one operator, of which only the fastest counts.

    The next one is the implementation that an optimist expects to be the fastest: after n rounds, the optimist hopes
    that one more reduces its best seconds c to c (1 - 1/n), the mean gain of the rounds so far, as in
    `GradientAllocation`. So an implementation that takes twice as long as the fastest gets two rounds, one that takes a
    tenth longer gets ten, and the fastest gets all others. The principle is optimism in the face of uncertainty (Lai
    and Robbins, "Asymptotically efficient adaptive allocation rules", 1985), applied to the best of all draws instead
    of their mean.
    """

    def next(self, tasks: Sequence[Progress]) -> int | None:
        """Choose the implementation with the fewest hoped-for seconds; among equals, the one with the fewest rounds."""
        open_ones = [number for number, task in enumerate(tasks) if not task.exhausted]
        if not open_ones:
            return None
        return min(open_ones, key=lambda number: (self.hoped(tasks[number]), len(tasks[number].best)))

    @staticmethod
    def hoped(task: Progress) -> float:
        """Return the seconds that an optimist expects after one more round."""
        return task.cost * (1.0 - 1.0 / len(task.best)) if task.best else 0.0
