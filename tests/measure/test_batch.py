"""The pipeline of a batch under a search: results in the order of asking, however many machines measure."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from pegbox.measure import Measurer
from pegbox.measure.pipeline.batch import Batch, window_of
from pegbox.measure.result import Ok, Result
from pegbox.search import SearchOptions, make_tuner, run
from pegbox.search.testing import matmul_cost, matmul_space
from pegbox.space import Config, ConfigSpace

TRIALS = 32


@dataclass
class FakeTrial:
    """A trial that takes a random time to build and to run."""

    config: Config
    luck: random.Random
    ended: list[Config]

    def build(self) -> Any:
        time.sleep(self.luck.uniform(0, 5e-4))
        return self

    def run(self, compiled: Any) -> Result:
        time.sleep(self.luck.uniform(0, 2e-2))  # on a busy machine, too, some overtake others
        self.ended.append(self.config)
        return Ok((matmul_cost(self.config),))

    def finish(self, failed: Any) -> Result:
        raise AssertionError("no build fails")


@dataclass
class Machines(Measurer):
    """A measurer on the real pipeline, with threads for machines."""

    machines: int
    ended: list[Config] = field(default_factory=list)

    def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
        luck = random.Random(self.machines)
        with ThreadPoolExecutor(2) as builders, ThreadPoolExecutor(self.machines) as runners:
            batch = Batch(builders=builders, runners=runners, silent=lambda program: False)
            yield from batch.in_order(
                configs,
                lambda config: batch.submit(FakeTrial(config, luck, self.ended)),
                window=lambda: window_of(2, self.machines),
            )

    def remeasure(self, configs: Sequence[Config]) -> list[Result]:
        raise AssertionError("there are no finalists")


@pytest.fixture(scope="module")
def space() -> ConfigSpace:
    return matmul_space()


def proposals(tuner: str, measurer: Machines, space: ConfigSpace, **options: Any) -> list[Config]:
    result = run(
        make_tuner(tuner, space, seed=1), measurer, SearchOptions(trials=TRIALS, finalists=0, **options), space=space
    )
    return [trial.config for trial in result.trials]


@pytest.mark.parametrize("tuner", ["ga", "xgb:sa_chains=16", "bayes:candidates=32,relatives=24"])
def test_eight_machines_get_the_proposals_of_one(tuner: str, space: ConfigSpace) -> None:
    eight = Machines(8)
    asked = proposals(tuner, eight, space)
    assert asked == proposals(tuner, Machines(1), space)
    assert eight.ended != asked, "they must end in another order, or nothing is shown"


def test_a_batch_that_is_given_makes_proposals_independent_of_the_machines(space: ConfigSpace) -> None:
    many, few = (proposals("ga", Machines(count), space, batch_size=12) for count in (16, 2))
    assert many == few


def test_a_larger_cluster_gets_larger_batches_and_so_other_proposals(space: ConfigSpace) -> None:
    assert proposals("ga", Machines(16), space) != proposals("ga", Machines(2), space)
    assert proposals("ga", Machines(16), space) == proposals("ga", Machines(2), space, batch_size=16)
