"""Choices: values without order that were tried least, and what learns where the fastest lie behind a slow one."""

import numpy as np
import pytest

from pegbox.errors import ArgumentError
from pegbox.search import SearchOptions, make_tuner, run
from pegbox.search.testing import ArtificialMeasurer
from pegbox.space import Config, ConfigSpace
from pegbox.tuners.choices import Choices, choice_columns


def hidden_space() -> ConfigSpace:
    """Every fast configuration is `direct`, but five in six of these are the slowest there are."""
    space = ConfigSpace()
    space.define_knob("layout", ["packed", "direct"])
    space.define_knob("order", ["yx", "xy"])
    space.define_knob("inner", ["c", "k", "none"])
    for name in ("rows", "lanes"):
        space.define_knob(name, list(range(1, 9)))
    return space


def hidden_cost(config: Config) -> float:
    off = abs(config["rows"].val - 5) + abs(config["lanes"].val - 3)
    if config["layout"].val == "packed":
        return 1e-3 / (0.8 - 0.01 * off)
    return 1e-3 / (1.0 - 0.02 * off if (config["order"].val, config["inner"].val) == ("xy", "k") else 0.08)


def found(tuner: str, seed: int) -> bool:
    """Tell whether a hundred trials find a configuration faster than all that are packed."""
    space = hidden_space()
    result = run(
        make_tuner(tuner, space, seed=seed),
        ArtificialMeasurer(hidden_cost),
        SearchOptions(trials=100, finalists=0),
        space=space,
    )
    return min(trial.result.cost for trial in result.trials) < 1e-3 / 0.85


@pytest.mark.parametrize("tuner", ["xgb", "bayes"])
def test_the_fastest_are_found_behind_a_choice_that_is_slow_as_a_rule(tuner: str) -> None:
    # With neglected=0, one and three of these seeds do.
    assert sum(found(tuner, seed) for seed in range(2, 8)) >= 5


# --- which value, and what with it ------------------------------------------------------------------------------------


def rows_of_layouts(*layouts: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Rows that all differ, with these digits of the layout and both values of the other choices."""
    return np.array([[layout, n % 2, n % 3, n % 8, n // 8] for n, layout in enumerate(layouts)], dtype=np.int64)


def test_the_best_with_the_value_that_was_tried_least_for_its_share() -> None:
    space = hidden_space()
    choices = Choices(space, space.sample(200, np.random.default_rng(0)))
    tried = rows_of_layouts(*[0] * 12)
    rows = np.array([[0, 0, 0, 7, 7], [1, 0, 0, 7, 6], [1, 1, 1, 7, 5], [0, 1, 2, 7, 4]], dtype=np.int64)
    scores = np.array([9.0, 1.0, 2.0, 8.0])
    assert choices.neglected(tried, rows, scores, 1).tolist() == [[1, 1, 1, 7, 5]]


def test_no_row_comes_twice_or_was_tried() -> None:
    space = hidden_space()
    choices = Choices(space, space.sample(200, np.random.default_rng(0)))
    tried = rows_of_layouts(0, 0, 0, 1)
    rows = np.concatenate([tried, tried, [[1, 0, 0, 7, 7]], [[1, 0, 0, 7, 7]]])
    assert choices.neglected(tried, rows, np.arange(10.0), 3).tolist() == [[1, 0, 0, 7, 7]]
    assert choices.neglected(tried, tried, np.arange(4.0), 3).shape == (0, 5)


def test_values_of_knobs_that_do_not_exist_are_none() -> None:
    space = ConfigSpace()
    space.define_knob("kind", ["plain", "tiled"])
    space.define_knob("inner", ["c", "k"], when={"kind": "tiled"})
    every = np.array([config.digits for config in space.iterate()], dtype=np.int64)
    choices = Choices(space, every)
    # Digit 0 of `inner` stands in every plain row, and yet no inner=c was tried.
    tried = np.array([row for row in every.tolist() if row[0] == 0 or row == [1, 1]], dtype=np.int64)
    assert choices.neglected(tried, every, np.zeros(len(every)), 1).tolist() == [[1, 0]]


def test_numbers_splits_and_single_values_are_no_choices() -> None:
    space = hidden_space()
    space.define_knob("single", ["only"])
    space.define_split("tile", 64, num_outputs=2)
    assert choice_columns(space) == [0, 1, 2]


@pytest.mark.parametrize("tuner", ["xgb", "evolution", "bayes"])
def test_a_share_is_from_0_to_1(tuner: str) -> None:
    with pytest.raises(ArgumentError, match=r"neglected=1\.5 .*from 0 to 1"):
        make_tuner(f"{tuner}:neglected=1.5", hidden_space())
