"""`TunerContract`: a test suite for tuners, and an artificial machine to measure on.

::

    from pegbox.search.testing import TunerContract

    class TestMyTuner(TunerContract):
        def make(self, space, *, seed=0):
            return MyTuner(space, seed=seed)

pytest then runs every check of the suite on the tuner. Nothing here compiles or times anything.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import numpy as np

from pegbox.measure.pipeline.measurer import Measurer
from pegbox.measure.result import Failed, FailureKind, Ok, Result
from pegbox.search import SearchOptions, Subject
from pegbox.search.loop.tuning import run
from pegbox.search.protocols import Tuner
from pegbox.search.testing.subprocess_test import in_another_process
from pegbox.space import Config, ConfigSpace, ListedSpace

CostFunction = Callable[[Config], float]
"""A function that computes the seconds of a configuration; infinity for one that fails."""

FLOP = 2.0 * 1024**3
"""The work of the artificial machine's only program, a 1024×1024×1024 matrix product."""


OVERLAP_LOSS = 0.3


def matmul_space() -> ConfigSpace:
    """Make seven knobs like those of a tiled matrix product: 2.9 million configurations, most of them slow."""
    space = ConfigSpace()
    space.define_split("tile_y", 1024, num_outputs=3)
    space.define_split("tile_x", 1024, num_outputs=3)
    space.define_split("tile_k", 1024, num_outputs=2)
    space.define_knob("unroll", [0, 16, 64, 256, 512])
    space.define_knob("pack_a", [False, True])
    space.define_knob("pack_b", [False, True])
    space.define_knob("order", ["ki y x", "y ki x", "y x ki"])
    return space


def matmul_cost(config: Config) -> float:
    """Compute the seconds on a machine with 16-lane vectors, 32 registers, two levels of cache and a compiler that
    gives up.

    A roofline (Williams et al., CACM 2009): the slower of computing and moving data, plus a part of the other, because
    no machine overlaps them fully; each has its cliffs.
    """
    _, middle_y, inner_y = config["tile_y"].size
    _, middle_x, inner_x = config["tile_x"].size
    inner_k = config["tile_k"].size[1]
    vectors = math.ceil(inner_x / 16)
    if max(config["unroll"].val, 1) * inner_y * vectors > 16384:
        return math.inf
    computing = _compute_seconds(config, inner_y, inner_x, vectors)
    moving = _memory_seconds(config, middle_y, middle_x, inner_k)
    return (max(computing, moving) + OVERLAP_LOSS * min(computing, moving)) * _noise(config)


def _compute_seconds(config: Config, inner_y: int, inner_x: int, vectors: int) -> float:
    tile = inner_y * vectors
    share = (inner_x / (16 * vectors)) * min(1.0, tile / 12) * min(1.0, 2 * tile / (inner_y + 2 * vectors))
    if tile + vectors + 1 > 32:
        share /= 1.0 + 0.15 * (tile + vectors - 31)
    share *= {"ki y x": 1.0, "y ki x": 0.6, "y x ki": 0.35}[config["order"].val]
    share *= 1.0 - 0.08 * abs(math.log2(max(config["unroll"].val, 4)) - 6) / 4
    return FLOP / 270e9 / max(share, 0.01)


def _memory_seconds(config: Config, middle_y: int, middle_x: int, inner_k: int) -> float:
    inner_y, inner_x = config["tile_y"].size[2], config["tile_x"].size[2]
    block = 4 * inner_k * (middle_y * inner_y + middle_x * inner_x)
    panel = 4 * inner_k * (inner_y + inner_x)
    rate = 20e9 if block > 1 << 20 else 60e9
    rate *= 0.5 if panel > 1 << 15 else 1.0
    rate *= (1.0 if config["pack_a"].val else 0.85) * (1.0 if config["pack_b"].val or inner_k <= 16 else 0.5)
    traffic = 4 * 1024**3 * (1 / (middle_y * inner_y) + 1 / (middle_x * inner_x) + 2 / inner_k / 1024 * 16)
    return float(traffic / rate + 1024 / inner_k * 2e-5)


def _noise(config: Config) -> float:
    """Compute a deviation of up to 2% that differs between configurations but not between runs."""
    return 1.0 + 0.02 * (zlib.crc32(repr(tuple(config.digits)).encode()) % 1000) / 1000


class ArtificialMeasurer(Measurer):
    """A measurer that calls a function, so that searches can be tested without a compiler and without noise."""

    def __init__(self, cost: CostFunction = matmul_cost) -> None:
        self.cost = cost

    def __enter__(self) -> ArtificialMeasurer:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
        for config in configs:
            yield config, result_of(self.cost(config))

    def remeasure(self, configs: Sequence[Config]) -> list[Result]:
        return [result_of(self.cost(config)) for config in configs]


def result_of(cost: float) -> Result:
    """Make `Ok` with one cost in seconds, or `Failed` for infinity."""
    return Failed(FailureKind.COMPILE_ERROR, "too much code") if cost == math.inf else Ok((cost,))


class TunerContract:
    """A test suite for tuners. Subclass it, override `make`, and pytest runs it.

    A tuner that is slow to propose may set a smaller `batch`, the number of configurations of most rounds.
    """

    batch: ClassVar[int] = 16

    def make(self, space: ConfigSpace, *, seed: int = 0) -> Tuner:
        """Make the tuner to be tested, over `space`."""
        raise NotImplementedError("override make() to return your tuner")

    def test_proposes_valid_configurations_of_its_space(self) -> None:
        space = constrained_space()
        tuner = self.make(space)
        for configs, _ in self.rounds(tuner, batches=5):
            rows = np.array([config.digits for config in configs])
            assert space.is_valid(rows).all()
            assert (space.canonical(rows) == rows).all()

    def test_gives_no_more_than_it_is_asked_for(self) -> None:
        tuner = self.make(matmul_space())
        for n in (1, 3, self.batch, 1, 2 * self.batch + 8):
            configs = list(tuner.ask(n))
            assert 1 <= len(configs) <= n
            tuner.tell(configs, [result_of(matmul_cost(config)) for config in configs])

    def test_never_proposes_a_configuration_twice(self) -> None:
        tuner = self.make(matmul_space())
        proposed = [config for configs, _ in self.rounds(tuner, batches=10) for config in configs]
        assert len(set(proposed)) == len(proposed)

    def test_asks_in_a_row_do_not_repeat(self) -> None:
        tuner = self.make(matmul_space())
        proposed = [config for _ in range(6) for config in tuner.ask(5)]
        assert len(set(proposed)) == len(proposed)

    def test_never_proposes_what_history_told(self) -> None:
        space = small_space()
        known = list(space.iterate())[::2]
        tuner = self.make(space)
        tuner.tell(known, [result_of(1e-3 * (1 + place)) for place in range(len(known))])
        assert not set(known) & set(self.drain(tuner))

    def test_same_seed_and_same_measurements_give_the_same_proposals(self) -> None:
        first = [configs for configs, _ in self.rounds(self.make(matmul_space(), seed=7), batches=6)]
        again = [configs for configs, _ in self.rounds(self.make(matmul_space(), seed=7), batches=6)]
        assert first == again

    def test_gives_the_same_proposals_in_another_process(self) -> None:
        assert self.proposals() == in_another_process(self, "proposals")  # which may skip the test

    def test_stays_inside_a_listed_space(self) -> None:
        whole = constrained_space()
        space = ListedSpace(whole, whole.sample(60, np.random.default_rng(5)))
        assert set(self.drain(self.make(space))) == set(space.iterate())

    def test_takes_being_asked_for_more_than_is_left(self) -> None:
        space = small_space()
        assert set(self.drain(self.make(space), n=1000)) == set(space.iterate())

    def test_visits_a_whole_small_space_and_then_proposes_nothing(self) -> None:
        space = small_space()
        tuner = self.make(space)
        assert set(self.drain(tuner)) == set(space.iterate())
        assert list(tuner.ask(4)) == []
        assert list(tuner.ask(4)) == []

    def test_proposes_numbers_of_ranges(self) -> None:
        space = range_space()
        tuner = self.make(space)
        proposed = []
        for configs, _ in self.rounds(tuner, batches=8, n=5, cost=lambda config: 1e-3 + config["rate"].val):
            assert configs
            assert space.is_valid(np.array([config.digits for config in configs])).all()
            proposed += configs
        assert len(set(proposed)) == len(proposed)
        assert all(space.from_json(config.to_json()) == config for config in proposed)
        assert len({config["count"].val for config in proposed}) > 1

    def test_survives_nothing_but_failures(self) -> None:
        tuner = self.make(matmul_space())
        for configs, _ in self.rounds(tuner, batches=6, cost=lambda config: math.inf):
            assert configs

    def test_survives_failures_among_what_works(self) -> None:
        space = constrained_space()
        tuner = self.make(space)
        for configs, _ in self.rounds(tuner, batches=6, cost=lambda config: math.inf if config.index % 3 else 1e-3):
            assert configs
            assert space.is_valid(np.array([config.digits for config in configs])).all()

    def test_survives_equal_costs(self) -> None:
        tuner = self.make(matmul_space())
        for configs, _ in self.rounds(tuner, batches=6, cost=lambda config: 1e-3):
            assert configs

    def test_takes_results_before_the_first_ask_and_none_at_all(self) -> None:
        tuner = self.make(matmul_space())
        tuner.tell([], [])
        config = matmul_space().get(0)
        tuner.tell([config], [result_of(1.0)])
        assert config not in tuner.ask(8)

    def test_runs_in_the_tuning_loop(self) -> None:
        space, trials = matmul_space(), 2 * self.batch + 8
        result = run(
            self.make(space), ArtificialMeasurer(), SearchOptions(trials), subject=Subject(flop=FLOP), space=space
        )
        assert len(result.trials) == trials
        assert result.best is not None

    def rounds(
        self, tuner: Tuner, *, batches: int, n: int | None = None, cost: CostFunction = matmul_cost
    ) -> Iterator[tuple[list[Config], list[Result]]]:
        """Repeatedly ask for `n` configurations, by default a `batch`, and tell their costs."""
        for _ in range(batches):
            configs = list(tuner.ask(n or self.batch))
            results = [result_of(cost(config)) for config in configs]
            tuner.tell(configs, results)
            yield configs, results

    def proposals(self) -> str:
        """Write the proposals of a tuner with a given seed in a few rounds as text."""
        asked = self.rounds(self.make(constrained_space(), seed=11), batches=4, n=8)
        return " ".join(str(config.index) for configs, _ in asked for config in configs)

    def drain(self, tuner: Tuner, *, n: int = 7, limit: int = 1000) -> list[Config]:
        """Ask and tell until the tuner has nothing left; fail if that takes more than `limit` asks."""
        found: list[Config] = []
        for _ in range(limit):
            configs = list(tuner.ask(n))
            if not configs:
                return found
            found += configs
            tuner.tell(configs, [result_of(1e-3 + 1e-6 * sum(config.digits)) for config in configs])
        raise AssertionError(f"the tuner still proposed configurations after {limit} asks")


def small_space() -> ConfigSpace:
    """Make a space that a test can use up: 44 configurations, some knobs only under a condition."""
    space = ConfigSpace()
    space.define_split("tile", 1024, num_outputs=2)
    space.define_knob("layout", ["plain", "packed"])
    space.define_knob("panel", [8, 16, 32], when={"layout": "packed"})
    return space


def constrained_space() -> ConfigSpace:
    """Make `matmul_space` with a bounded register tile, which leaves a small part of it."""
    space = matmul_space()
    space.add_constraint(
        lambda config: bool(8 <= config["tile_y"].size[2] * config["tile_x"].size[2] // 16 <= 28),
        reads=("tile_y", "tile_x"),
        message="the register tile holds 8 to 28 vectors",
    )
    return space


def range_space() -> ConfigSpace:
    """Make a space of numbers: two logarithmic ranges with a constraint, a conditional range, and a choice."""
    space = ConfigSpace()
    space.define_int("count", 1, 10**9, log=True)
    space.define_float("rate", 1e-4, 1.0, log=True)
    space.define_knob("schedule", ["constant", "cosine", "step"])
    space.define_float("decay", 0.0, 1.0, when={"schedule": ("cosine", "step")})
    space.add_constraint(
        lambda config: config["count"].val * config["rate"].val <= 1e6,
        reads=("count", "rate"),
        message="the product is at most a million",
    )
    return space
