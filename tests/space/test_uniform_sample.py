"""Uniform samples: uniform over configurations, the same for the same seed."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from pegbox.errors import SpaceError
from pegbox.search.testing import constrained_space, small_space
from pegbox.space import ConfigSpace, uniform_sample
from pegbox.space.uniform_sample import uniform_order


def conditional_space() -> ConfigSpace:
    """Digits mean the one config of "plain" a hundred times, each of "packed" once."""
    space = ConfigSpace()
    space.define_knob("layout", ["plain", "packed"])
    space.define_knob("panel", list(range(100)), when={"layout": "packed"})
    space.define_knob("unroll", list(range(10)))
    return space


def test_a_space_that_can_be_listed_comes_whole_and_in_random_order() -> None:
    space = small_space()
    rows = np.concatenate(list(uniform_order(space, seed=1)))
    assert {tuple(row) for row in rows.tolist()} == {config.digits for config in space.iterate()}
    assert len(rows) == 44
    assert rows.tolist() != sorted(rows.tolist())


@pytest.mark.parametrize("listed", [uniform_sample.LISTED, 0])
def test_the_seed_decides(listed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uniform_sample, "LISTED", listed)
    once, again, other = (next(uniform_order(conditional_space(), seed)).tolist()[:50] for seed in (1, 1, 2))
    assert once == again
    assert once != other


def test_what_is_drawn_is_valid_and_distinct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uniform_sample, "LISTED", 0)
    space = constrained_space()
    rows = np.concatenate(list(islice(uniform_order(space, seed=0), 3)))
    assert space.is_valid(rows).all()
    assert len({tuple(row) for row in rows.tolist()}) == len(rows)


@pytest.mark.parametrize("listed", [uniform_sample.LISTED, 0])
def test_knobs_that_do_not_exist_make_nothing_likelier(listed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws from 1,010 configurations, ten of which are plain; by digits every second draw would be one of them."""
    monkeypatch.setattr(uniform_sample, "LISTED", listed)
    space = conditional_space()
    firsts = [next(uniform_order(space, seed))[:10] for seed in range(60)]
    plain = sum(int((rows[:, 0] == 0).sum()) for rows in firsts)
    assert plain <= 25  # 6 are expected


def space_of_sketches() -> ConfigSpace:
    """Five choices with knobs of their own, all under one constraint: 128,000, 6,400 and three times 16 configurations.

    By digits each choice comes as often as any other.
    """
    space = ConfigSpace()
    space.define_knob("sketch", ["large", "middle", "small", "smaller", "smallest"])
    for number in range(3):
        space.define_knob(f"tile{number}", list(range(20)), when={"sketch": "large"})
    for number in range(2):
        space.define_knob(f"copy{number}", list(range(20)), when={"sketch": "middle"})
    space.define_knob("unroll", list(range(32)))
    space.add_constraint(lambda config: config["unroll"].val % 2 == 0, reads=["sketch", "unroll"], message="even")
    return space


@pytest.mark.parametrize("budget", [uniform_sample.LIST_BUDGET, 0])
def test_choices_with_few_knobs_do_not_crowd_out_the_others(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uniform_sample, "LISTED", 0)
    monkeypatch.setattr(uniform_sample, "LIST_BUDGET", budget)
    space = space_of_sketches()
    rows = np.concatenate(list(islice(uniform_order(space, seed=3), 2)))[:2000]
    share = np.bincount(rows[:, 0], minlength=5) / len(rows)
    count = np.array([20**3, 20**2, 1, 1, 1])
    assert space.is_valid(rows).all()
    np.testing.assert_allclose(share, count / count.sum(), atol=0.02)


@pytest.mark.parametrize("budget", [uniform_sample.LIST_BUDGET, 0])
def test_every_choice_may_have_knobs_of_its_own(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration is meant by one row of digits alone: with five times 20 knobs, by 10**26 at least."""
    monkeypatch.setattr(uniform_sample, "LISTED", 0)
    monkeypatch.setattr(uniform_sample, "LIST_BUDGET", budget)
    space = ConfigSpace()
    space.define_knob("sketch", list(range(5)))
    for sketch in range(5):
        for number in range(5):
            space.define_knob(f"tile{sketch}{number}", list(range(20)), when={"sketch": sketch})
    rows = next(uniform_order(space, seed=0))
    assert len(rows) > 100
    assert set(rows[:, 0].tolist()) == set(range(5))


def test_a_space_that_has_none_beyond_listing_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConfigSpace, "num_valid", lambda self: None)
    space = conditional_space()
    space.add_constraint(lambda config: False, reads=["layout"], message="never")
    with pytest.raises(SpaceError, match="never"):
        next(uniform_order(space, seed=0))


def test_a_space_without_valid_configurations() -> None:
    space = small_space()
    space.add_constraint(lambda config: False, reads=["layout"], message="never")
    assert list(uniform_order(space, seed=0)) == []


def test_a_space_without_knobs_has_one_configuration() -> None:
    rows = list(uniform_order(ConfigSpace(), seed=0))
    assert [block.shape for block in rows] == [(1, 0)]
