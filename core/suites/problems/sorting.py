"""A hybrid sort: its cost is the number of comparisons and moves on fixed inputs, weighted as on a real machine."""

from __future__ import annotations

import random
from functools import lru_cache

from pegbox.search.objective import Objective
from pegbox.space import Config, ConfigSpace

_MOVE = 0.6
"""The cost of a move, in comparisons."""


@lru_cache
def _inputs() -> tuple[tuple[int, ...], ...]:
    rng = random.Random(5)
    random_values = tuple(rng.randrange(1000) for _ in range(120))
    nearly = list(range(120))
    for _ in range(10):
        one, other = rng.randrange(120), rng.randrange(120)
        nearly[one], nearly[other] = nearly[other], nearly[one]
    few = tuple(rng.randrange(6) for _ in range(120))
    return random_values, tuple(nearly), few


def hybrid() -> Objective:
    """Make a sort of two methods that inserts short parts; the knobs are the pivot, the cutoff and the insertion."""
    space = ConfigSpace()
    space.define_knob("method", ["quick", "merge"])
    space.define_knob("pivot", ["first", "middle", "median of 3", "median of 9"], when={"method": "quick"})
    space.define_knob("equal", ["with the lower", "apart"], when={"method": "quick"})
    space.define_knob("run", [1, 2, 4, 8, 16, 32], when={"method": "merge"})
    space.define_knob("skip ordered", [False, True], when={"method": "merge"})
    space.define_knob("cutoff", [1, 2, 4, 6, 8, 12, 16, 24, 32, 48])
    space.define_knob("insertion", ["linear", "binary", "shell"])

    def cost(config: Config) -> float:
        counter = _Counter(config)
        for values in _inputs():
            counter.sort(list(values))
        return counter.comparisons + _MOVE * counter.moves

    return Objective(cost, space, unit="comparisons", pure=True)


class _Counter:
    """A sort that counts its steps."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.cutoff = config["cutoff"].val
        self.comparisons = 0
        self.moves = 0

    def sort(self, values: list[int]) -> list[int]:
        if self.config["method"].val == "merge":
            return self.merge(values, max(self.cutoff, self.config["run"].val))
        return self.quick(values)

    def quick(self, values: list[int]) -> list[int]:
        if len(values) <= max(self.cutoff, 1):
            return self.insert(values)
        pivot = self._pivot(values)
        self.comparisons += len(values)
        self.moves += len(values)
        if self.config["equal"].val == "apart":
            self.comparisons += len(values) // 2
            lower = [value for value in values if value < pivot]
            higher = [value for value in values if value > pivot]
            same = [pivot] * (len(values) - len(lower) - len(higher))
            return [*self.quick(lower), *same, *self.quick(higher)]
        rest = list(values)
        rest.remove(pivot)
        lower = [value for value in rest if value <= pivot]
        higher = [value for value in rest if value > pivot]
        return [*self.quick(lower), pivot, *self.quick(higher)]

    def _pivot(self, values: list[int]) -> int:
        match self.config["pivot"].val:
            case "first":
                return values[0]
            case "middle":
                return values[len(values) // 2]
            case "median of 3":
                self.comparisons += 3
                return sorted((values[0], values[len(values) // 2], values[-1]))[1]
        self.comparisons += 12
        places = [place * (len(values) - 1) // 8 for place in range(9)]
        return sorted(values[place] for place in places)[4]

    def merge(self, values: list[int], run: int) -> list[int]:
        if len(values) <= max(run, 1):
            return self.insert(values)
        middle = len(values) // 2
        left, right = self.merge(values[:middle], run), self.merge(values[middle:], run)
        self.moves += 2 * len(values)
        if self.config["skip ordered"].val:
            self.comparisons += 1
            if left[-1] <= right[0]:
                self.moves -= 2 * len(values)
                return left + right
        merged, one, other = [], 0, 0
        while one < len(left) and other < len(right):
            self.comparisons += 1
            if left[one] <= right[other]:
                merged.append(left[one])
                one += 1
            else:
                merged.append(right[other])
                other += 1
        return [*merged, *left[one:], *right[other:]]

    def insert(self, values: list[int]) -> list[int]:
        gaps = (4, 1) if self.config["insertion"].val == "shell" else (1,)
        binary = self.config["insertion"].val == "binary"
        for gap in gaps:
            for place in range(gap, len(values)):
                value, at = values[place], place
                while at >= gap and values[at - gap] > value:
                    values[at] = values[at - gap]
                    at -= gap
                moved = (place - at) // gap
                self.moves += moved + 1
                self.comparisons += (place).bit_length() if binary else moved + (at >= gap)
        return values
