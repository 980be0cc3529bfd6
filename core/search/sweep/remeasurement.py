"""Repeated measurements of configurations, until their speeds are certain.

The best of thousands of single measurements is mainly the luckiest. Here configurations are timed again in several
passes, in small groups whose members take turns, with new groups in each pass, so that neither a slow minute nor a
neighbour decides. The timings of all passes are combined.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from pegbox.measure.pipeline.measurer import Measurer
from pegbox.measure.result import Ok, Result
from pegbox.search.loop.interrupt import defer_interrupt

if TYPE_CHECKING:
    from pegbox.space import Config

MARGIN = 0.15
"""The largest distance from the best, by single measurements, of configurations to measure again."""

MOST = 300
LEAST_PASSES, MOST_PASSES = 2, 5
_MOST_ROUNDS = 50
_TOLD = 400
GROUP = 8
CLOSE, STEADY = 0.03, 0.01
"""The distance from the best within which configurations are timed until two passes differ by less than `STEADY`."""

Listener: TypeAlias = Callable[["Config", Result], object]


class Remeasurement:
    """Passes over configurations of `results`, which they update.

    Args:
        results: the latest result of each configuration.
        passes: the number of earlier remeasurements of each.
        listener: a function of each new result, whose costs are those of all passes together.
    """

    def __init__(
        self,
        measurer: Measurer,
        results: dict[Config, Result],
        *,
        passes: Mapping[Config, int],
        listener: Listener,
        seed: int = 0,
    ) -> None:
        self.results, self.passes = results, Counter(passes)
        self.latest: dict[Config, float] = {}
        """The cost in the last pass alone."""
        self._measurer, self._listener = measurer, listener
        # A continued sweep must not repeat the earlier groups.
        self._rng = np.random.default_rng([seed, self.passes.total()])

    def measure(self, chosen: Sequence[Config]) -> Iterator[int]:
        """Make one pass over `chosen`; after each group, yield the number of measured ones."""
        order = [chosen[place] for place in self._rng.permutation(len(chosen))]
        for start in range(0, len(order), GROUP):
            group = order[start : start + GROUP]
            again = self._measurer.remeasure(group)
            with defer_interrupt():
                for config, result in zip(group, again, strict=True):
                    before = self.results[config]
                    if isinstance(result, Ok):
                        self.latest[config] = result.cost
                        if self.passes[config] and isinstance(before, Ok):
                            result = dataclasses.replace(result, costs=(*before.costs, *result.costs))
                        self.passes[config] += 1
                    self.results[config] = result
                    self._listener(config, result)
            yield start + len(group)


def repeat(
    remeasurement: Remeasurement,
    passes: int,
    *,
    say: Callable[[str], object],
    time_left: Callable[[], bool] = lambda: True,
) -> bool:
    """Measure all that ran until each has had `passes` passes; return whether `time_left` sufficed."""
    for number in range(1, passes + 1):
        chosen = [c for c, result in remeasurement.results.items() if result.ok and remeasurement.passes[c] < number]
        for done in remeasurement.measure(chosen):
            if not time_left():
                return False
            if done % _TOLD < GROUP or done == len(chosen):
                say(f"sweep: pass {number} of {passes} over all: {done:,}/{len(chosen):,} measured again")
    return True


class Convergence:
    """Passes over the fastest of `remeasurement.results`, until their medians have converged.

    Args:
        common: the number of passes of the remeasurement over everything; they don't count here.
        say: a function that shows a line to a person.
        time_left: a function that is called after each group.
    """

    def __init__(
        self,
        remeasurement: Remeasurement,
        *,
        say: Callable[[str], object],
        common: int = 0,
        time_left: Callable[[], bool] = lambda: True,
    ) -> None:
        self._remeasurement, self._say, self._time_left = remeasurement, say, time_left
        self._medians = {
            config: [remeasurement.results[config].cost] * (count - common)
            for config, count in remeasurement.passes.items()
            if count > common
        }

    def run(self) -> bool:
        """Measure until all have converged; return whether there was time for that."""
        for number in range(1, _MOST_ROUNDS + 1):
            chosen = self.unconverged()
            if not chosen:
                break
            for done in self._remeasurement.measure(chosen):
                if not self._time_left():
                    return False
                self._say(f"sweep: pass {number} over the fastest: {done}/{len(chosen)} measured again")
            for config in chosen:
                self._medians.setdefault(config, []).append(self._remeasurement.latest.get(config, math.inf))
        return True

    def confirm_best(self) -> None:
        """Make passes over the few fastest until the fastest has been measured again, even without time left."""
        while (chosen := self.unconverged()[:GROUP]) and not self._remeasurement.passes[chosen[0]]:
            for _ in self._remeasurement.measure(chosen):
                self._say(f"sweep: the {len(chosen)} fastest measured again")

    def unconverged(self) -> list[Config]:
        """List the configurations that must be measured again, the fastest first."""
        good = {c: r for c, r in self._remeasurement.results.items() if isinstance(r, Ok) and not r.partial}
        ranked = sorted(good, key=lambda config: good[config].cost)[:MOST]
        best = good[ranked[0]].cost if ranked else 0.0
        near = [config for config in ranked if good[config].cost <= best * (1.0 + MARGIN)]
        wanted = [config for config in near if self._wanted(config, close=good[config].cost <= best * (1.0 + CLOSE))]
        if not wanted:
            return []
        # Never time one alone; and if the luckiest fall back one by one, the next ones are already known.
        company = [c for c in ranked if good[c].cost <= best * (1.0 + 2 * MARGIN) and self._wanted(c, close=False)]
        return list(dict.fromkeys([*wanted, *company]))[: max(GROUP, len(wanted))]

    def _wanted(self, config: Config, *, close: bool) -> bool:
        medians = self._medians.get(config, [])
        if len(medians) < LEAST_PASSES:
            return True
        apart = abs(medians[-1] - medians[-2]) / medians[-1]
        return close and len(medians) < MOST_PASSES and apart > STEADY
