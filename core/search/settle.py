"""Measuring the fastest of many again, until it is clear how fast they are.

The best of thousands of single measurements is above all the luckiest. Here all that may be the best are timed again in
several passes, in small groups whose members take turns, and in other groups with each pass, so that neither a slow
minute nor a neighbour decides. All timings of the passes count together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from pegbox.measure.result import Ok, Result
from pegbox.search.interrupt import shielded
from pegbox.search.protocols import Measurer

if TYPE_CHECKING:
    from pegbox.space import Config

MARGIN = 0.15
"""How far behind the best, by single measurements, one may be that is measured again."""

MOST = 300
LEAST_PASSES, MOST_PASSES = 2, 5
_MOST_ROUNDS = 50
GROUP = 8
CLOSE, STEADY = 0.03, 0.01
"""Those within `CLOSE` of the best are timed until two passes differ by less than `STEADY`."""

Hearer: TypeAlias = Callable[["Config", Result], object]


class Settling:
    """One round of passes over the fastest of `results`, which it changes.

    Args:
        results: the latest result of each configuration.
        passes: how often each was measured again before.
        heard: is told of each new result; its costs are those of all passes together.
        say: shows a line to a person.
    """

    def __init__(
        self,
        measurer: Measurer,
        results: dict[Config, Result],
        *,
        passes: Mapping[Config, int],
        heard: Hearer,
        say: Callable[[str], object],
        seed: int = 0,
        most: int = MOST,
    ) -> None:
        self.results = results
        self._measurer, self._heard, self._say, self._most = measurer, heard, say, most
        self._rng = np.random.default_rng(seed)
        self._medians = {config: [results[config].cost] * count for config, count in passes.items() if count}

    def run(self) -> None:
        """Go on until nothing is left to be settled."""
        for number in range(1, _MOST_ROUNDS + 1):
            chosen = self.unsettled()
            if not chosen:
                return
            done = 0
            for group in self._groups(chosen):
                again = self._measurer.remeasure(group)
                with shielded():
                    for config, result in zip(group, again, strict=True):
                        self._take(config, result)
                done += len(group)
                self._say(f"sweep: pass {number} over the fastest: {done}/{len(chosen)} measured again")

    def unsettled(self) -> list[Config]:
        """What has to be measured again, the fastest first."""
        good = {c: r for c, r in self.results.items() if isinstance(r, Ok) and not r.partial}
        ranked = sorted(good, key=lambda config: good[config].cost)[: self._most]
        best = good[ranked[0]].cost if ranked else 0.0
        near = [config for config in ranked if good[config].cost <= best * (1.0 + MARGIN)]
        wanted = [config for config in near if self._wanted(config, close=good[config].cost <= best * (1.0 + CLOSE))]
        if not wanted:
            return []
        # Nobody is timed alone; and where the luckiest fall back one by one, the next ones are known already.
        company = [c for c in ranked if good[c].cost <= best * (1.0 + 2 * MARGIN) and self._wanted(c, close=False)]
        return list(dict.fromkeys([*wanted, *company]))[: max(GROUP, len(wanted))]

    def _wanted(self, config: Config, *, close: bool) -> bool:
        medians = self._medians.get(config, [])
        if len(medians) < LEAST_PASSES:
            return True
        apart = abs(medians[-1] - medians[-2]) / medians[-1]
        return close and len(medians) < MOST_PASSES and apart > STEADY

    def _groups(self, chosen: Sequence[Config]) -> Iterator[list[Config]]:
        order = [chosen[place] for place in self._rng.permutation(len(chosen))]
        for start in range(0, len(order), GROUP):
            yield order[start : start + GROUP]

    def _take(self, config: Config, result: Result) -> None:
        before = self.results[config]
        medians = self._medians.setdefault(config, [])
        if isinstance(result, Ok):
            if medians and isinstance(before, Ok):
                result, own = dataclasses.replace(result, costs=(*before.costs, *result.costs)), result.cost
            else:
                own = result.cost
            medians.append(own)
        self.results[config] = result
        self._heard(config, result)
