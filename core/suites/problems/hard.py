"""Functions that are hard to minimize, each for one reason; the lowest cost is 1, unless noted.

They need no kernel and no clock, so that every run can be made again anywhere. Each function makes an objective over
its own space; a reader sees from the code where the optimum is, a tuner does not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from pegbox.search.objective import CostFunction, Objective
from pegbox.space import Config, ConfigSpace

_POWERS = (1, 2, 4, 8, 16, 32, 64, 128)


def _objective(function: CostFunction, space: ConfigSpace) -> Objective:
    return Objective(function, space, pure=True)


def _knobs(count: int, values: Sequence[int]) -> ConfigSpace:
    space = ConfigSpace()
    for place in range(count):
        space.define_knob(f"x{place}", values)
    return space


def _values(config: Config, count: int) -> list[int]:
    return [int(config[f"x{place}"].val) for place in range(count)]


def rare_optimum() -> Objective:
    """Make a smooth bowl with a region far from its middle that is twice as good: one configuration in 4,096."""
    middle, hidden = (5, 4, 5, 4, 3), (1, 6, 0, 7)

    def cost(config: Config) -> float:
        values = _values(config, 5)
        bowl = sum((value - best) ** 2 for value, best in zip(values, middle, strict=True))
        inside = all(value == best for value, best in zip(values, hidden, strict=False))
        return 1.0 + 0.01 * abs(values[4] - middle[4]) if inside else 2.0 + 0.02 * bowl

    return _objective(cost, _knobs(5, range(8)))


def deceptive() -> Objective:
    """Make traps (Deb and Goldberg, 1993): of each four bits, all but the last lead away from the best."""

    def trap(ones: int) -> int:
        return 0 if ones == 4 else 1 + ones

    def cost(config: Config) -> float:
        bits = _values(config, 12)
        return 1.0 + sum(trap(sum(bits[start : start + 4])) for start in range(0, 12, 4)) / 4.0

    return _objective(cost, _knobs(12, (0, 1)))


def failures() -> Objective:
    """Make tiles and stages for a small memory: nine in ten do not fit, and the best fill it to the edge."""
    space = ConfigSpace()
    for name in ("rows", "columns", "depth"):
        space.define_knob(name, _POWERS)
    space.define_knob("stages", [1, 2, 3, 4, 5, 6])
    space.define_knob("threads", [32, 64, 128, 256, 512, 1024])

    def cost(config: Config) -> float:
        rows, columns, depth = (config[name].val for name in ("rows", "columns", "depth"))
        stages, threads = config["stages"].val, config["threads"].val
        held = stages * depth * (rows + columns) + rows * columns
        if held > 2048 or rows * columns < threads or rows * columns > 32 * threads:
            raise ValueError(f"{held} elements with {threads} threads do not fit")
        traffic = (1.0 / rows + 1.0 / columns) / (1.0 / 64 + 1.0 / 16)
        latency = 1.0 + 2.0 / (stages * math.sqrt(depth))
        return float(0.5 * traffic + latency + 16.0 / threads)

    return _objective(cost, space)


def noisy() -> Objective:
    """Make a bowl with costs up to 30% off, as measured once on a busy machine, and the same at every call."""
    middle = (2, 5, 1, 4, 6)

    def cost(config: Config) -> float:
        values = _values(config, 5)
        far = sum((value - best) ** 2 for value, best in zip(values, middle, strict=True))
        noise = np.random.default_rng([7, *values]).lognormal(0.0, 0.1)
        return float((1.0 + 0.03 * far) * noise)

    return _objective(cost, _knobs(5, range(7)))


def interactions() -> Objective:
    """Make an NK landscape (Kauffman, 1993): each of nine knobs counts together with four others, by a table."""
    count, others = 9, 4
    rng = np.random.default_rng(11)
    links = [[place, *rng.permutation([i for i in range(count) if i != place])[:others]] for place in range(count)]
    tables = rng.random((count, *[3] * (others + 1)))

    def cost(config: Config) -> float:
        values = _values(config, count)
        parts = [tables[place][tuple(values[link] for link in links[place])] for place in range(count)]
        return 0.5 + float(np.mean(parts))

    return _objective(cost, _knobs(count, (0, 1, 2)))


def valley() -> Objective:
    """Make a curved valley (Rosenbrock's, 1960, on a grid), which is found at once and followed step by step."""

    def cost(config: Config) -> float:
        x = [value / 16.0 for value in _values(config, 3)]
        steps = [100.0 * (after - before**2) ** 2 + (1.0 - before) ** 2 for before, after in itertools.pairwise(x)]
        return 1.0 + sum(steps)

    return _objective(cost, _knobs(3, range(-12, 21)))


def plateaus() -> Objective:
    """Make plateaus: two more of eight knobs have to be right for the next lower cost."""
    best = (3, 0, 2, 1, 3, 2, 0, 1)

    def cost(config: Config) -> float:
        right = sum(value == wanted for value, wanted in zip(_values(config, 8), best, strict=True))
        return 1.0 + 0.5 * ((8 - right + 1) // 2)

    return _objective(cost, _knobs(8, range(4)))


def algorithms() -> Objective:
    """Make four algorithms with knobs of their own: the one whose typical configuration is worst has the best."""
    space = ConfigSpace()
    space.define_knob("algorithm", ["direct", "tiled", "blocked", "transformed"])
    for name, floor in (("direct", 2), ("tiled", 4), ("blocked", 4), ("transformed", 5)):
        for place in range(floor):
            space.define_knob(f"{name}{place}", range(5), when={"algorithm": name})
    bases = {"direct": (1.6, 0.02), "tiled": (1.4, 0.05), "blocked": (1.3, 0.08), "transformed": (1.0, 0.16)}

    def cost(config: Config) -> float:
        name = config["algorithm"].val
        base, slope = bases[name]
        count = {"direct": 2, "tiled": 4, "blocked": 4, "transformed": 5}[name]
        values = [int(config[f"{name}{place}"].val) for place in range(count)]
        return base + slope * sum((value - (2 * place + 1) % 5) ** 2 for place, value in enumerate(values))

    return _objective(cost, space)


def large() -> Objective:
    """Make 10^18 configurations, of eighteen knobs whose scales differ by a factor of a thousand."""

    def cost(config: Config) -> float:
        far = [((value - (3 * place + 2) % 10) / 9.0) ** 2 for place, value in enumerate(_values(config, 18))]
        return 1.0 + sum(float(10.0 ** (-3.0 * place / 17.0)) * part for place, part in enumerate(far))

    return _objective(cost, _knobs(18, range(10)))
