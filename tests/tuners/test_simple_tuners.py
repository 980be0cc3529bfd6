"""Random, grid and the genetic algorithm."""

from itertools import islice
from typing import Any

import numpy as np
import pytest

from pegbox.errors import ArgumentError
from pegbox.search import SearchOptions, make_tuner, run
from pegbox.search.testing import ArtificialMeasurer, matmul_cost, matmul_space, result_of, small_space
from pegbox.space import ConfigSpace
from pegbox.tuners.ga import GATuner
from pegbox.tuners.grid import GridTuner
from pegbox.tuners.random import RandomTuner


def best_cost(spec: str, *, seed: int, trials: int) -> float:
    result = run(
        make_tuner(spec, matmul_space(), seed=seed), ArtificialMeasurer(), SearchOptions(trials=trials, batch_size=16)
    )
    assert result.best is not None
    return result.best.cost


def test_the_genetic_algorithm_beats_random_search_at_equal_trials() -> None:
    bred = [best_cost("ga", seed=seed, trials=192) for seed in range(7)]
    random = [best_cost("random", seed=seed, trials=192) for seed in range(7)]
    assert np.median(bred) < 0.95 * np.median(random)


def test_children_come_from_the_fastest() -> None:
    space = matmul_space()
    tuner = GATuner(space, seed=0, population=16, elite=4, mutation=0.0, crossover=1.0)
    rows = space.sample(16, np.random.default_rng(0))
    family = rows.copy()
    family[:4] = family[0]
    family[1:4, 2] = (family[0, 2] + np.arange(1, 4)) % 11
    parents = [space.config(row) for row in family.tolist()]
    tuner.tell(parents, [result_of(1e-6 if place < 4 else 1.0) for place in range(16)])
    children = np.array([config.digits for config in tuner.ask(8)])
    assert (children[:, 0] == family[0, 0]).sum() >= 3


@pytest.mark.parametrize(
    "options",
    [{"population": 1}, {"elite": -1}, {"elite": 40}, {"tournament": 0}, {"crossover": 1.1}, {"mutation": -0.1}],
)
def test_bad_options_of_the_genetic_algorithm_are_shown(options: dict[str, Any]) -> None:
    (name, value), *_ = options.items()
    with pytest.raises(ArgumentError, match=f"{name}={value}"):
        GATuner(matmul_space(), **options)


def test_an_elite_as_large_as_the_population_is_allowed() -> None:
    tuner = GATuner(matmul_space(), population=4, elite=4)
    for _ in range(4):
        configs = tuner.ask(4)
        tuner.tell(configs, [result_of(matmul_cost(config)) for config in configs])
    assert len(tuner.ask(4)) == 4


def test_the_grid_goes_in_index_order_and_passes_over_history() -> None:
    space = small_space()
    every = list(space.iterate())
    tuner = GridTuner(space)
    tuner.tell(every[1:3], [result_of(1.0)] * 2)
    assert tuner.ask(3) == [every[0], *every[3:5]]
    assert tuner.ask(1) == [every[5]]


def test_the_grid_starts_at_once_in_a_space_beyond_all_counting() -> None:
    space = ConfigSpace()
    for place in range(80):
        space.define_knob(f"k{place}", [0, 1])
    assert [config.index for config in GridTuner(space).ask(4)] == [0, 1, 2, 3]


def test_random_search_depends_on_the_seed_only() -> None:
    first, again, other = (RandomTuner(matmul_space(), seed=seed).ask(20) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize("name", ["random", "grid", "ga", "xgb", "evolution"])
def test_a_space_without_knobs_has_one_configuration(name: str) -> None:
    tuner = make_tuner(name, ConfigSpace())
    configs = list(tuner.ask(4))
    assert [config.digits for config in configs] == [()]
    tuner.tell(configs, [result_of(1.0)])
    assert list(tuner.ask(4)) == []


@pytest.mark.parametrize("name", ["random", "ga", "xgb", "evolution"])
def test_seeds_differ(name: str) -> None:
    assert make_tuner(name, matmul_space(), seed=1).ask(8) != make_tuner(name, matmul_space(), seed=2).ask(8)


def test_the_grid_is_lazy() -> None:
    space = matmul_space()
    assert GridTuner(space).ask(3) == list(islice(space.iterate(), 3))


@pytest.mark.parametrize("name", ["grid", "random"])
def test_an_interval_of_indices_is_searched_and_nothing_else(name: str) -> None:
    space = matmul_space()
    tuner = make_tuner(f"{name}:range_idx=100-139", space, seed=1)
    known = space.get(105)
    tuner.tell([known], [result_of(1.0)])
    asked = [config.index for batch in iter(lambda: tuner.ask(16), []) for config in batch]
    assert sorted(asked) == [
        index
        for index in range(100, 140)
        if index != 105 and space.get(index).index == index and not space.violated(space.get(index))
    ]
    assert (asked == sorted(asked)) == (name == "grid")


def test_a_random_interval_of_a_huge_space_is_not_listed() -> None:
    space = ConfigSpace()
    for axis in range(6):
        space.define_split(f"tile_{axis}", 2**20, num_outputs=4)
    tuner = RandomTuner(space, range_idx=(10**12, 10**18))
    assert len({config.index for config in tuner.ask(20)}) == 20


@pytest.mark.parametrize("kind", [GridTuner, RandomTuner])
@pytest.mark.parametrize("given", [(5, 4), (-1, 3), (0, 10**9), (1,), 7, "a-b", (0.5, 2)])
def test_an_interval_that_is_none_is_refused(kind: Any, given: Any) -> None:
    with pytest.raises(ArgumentError, match=r"range_idx=.*both included"):
        kind(matmul_space(), range_idx=given)
