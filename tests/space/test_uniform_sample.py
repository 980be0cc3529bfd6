"""Uniform samples: uniform over configurations, the same for the same seed."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

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
    """Of 1,010 configurations ten are plain; by digits every second draw is one of them."""
    monkeypatch.setattr(uniform_sample, "LISTED", listed)
    space = conditional_space()
    firsts = [next(uniform_order(space, seed))[:10] for seed in range(60)]
    plain = sum(int((rows[:, 0] == 0).sum()) for rows in firsts)
    assert plain <= 25  # 6 are expected


def test_a_space_without_valid_configurations() -> None:
    space = small_space()
    space.add_constraint(lambda config: False, reads=["layout"], message="never")
    assert list(uniform_order(space, seed=0)) == []
