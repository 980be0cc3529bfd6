"""Sampling where it is hard: few valid configs, none, or too many to count."""

import numpy as np
import pytest

from pegbox.errors import SpaceError
from pegbox.space import ConfigSpace


def distinct(rows):
    return len({tuple(row) for row in rows.tolist()}) == len(rows)


def test_sample_takes_all_of_a_small_space():
    space = ConfigSpace()
    space.define_split("t", 64)
    rows = space.sample(100, np.random.default_rng(0))
    assert sorted(rows[:, 0]) == list(range(7))


def test_sample_of_nothing_is_empty():
    space = ConfigSpace()
    space.define_split("t", 64)
    assert space.sample(0, np.random.default_rng(0)).shape == (0, 1)


def test_same_seed_gives_the_same_rows_whatever_was_asked_before():
    def make():
        space = ConfigSpace()
        for name in "abcd":
            space.define_knob(name, range(40))
        space.add_constraint(
            lambda c: c["a"].val * c["b"].val == c["c"].val * 37, reads=("a", "b", "c"), message="product"
        )
        return space

    fresh, used = make(), make()
    used.num_valid()
    str(used)
    used.sample(700, np.random.default_rng(9))
    rng_a, rng_b = np.random.default_rng(3), np.random.default_rng(3)
    for _ in range(3):
        rows, again = fresh.sample(64, rng_a), used.sample(64, rng_b)
        assert (rows == again).all()
        assert (fresh.neighbors(rows, rng_a) == used.neighbors(rows, rng_b)).all()


def test_all_rare_valid_configs_are_found():
    """Three valid combinations among 125,000, times a free knob."""
    space = ConfigSpace()
    for name in "abc":
        space.define_knob(name, range(50))
    space.define_knob("free", range(4))
    wanted = {(1, 2, 3), (40, 41, 7), (49, 0, 25)}
    space.add_constraint(
        lambda c: (c["a"].val, c["b"].val, c["c"].val) in wanted, reads=("a", "b", "c"), message="one of three"
    )
    rows = space.sample(50, np.random.default_rng(0))
    assert {tuple(row) for row in rows[:, :3].tolist()} == wanted
    assert len(rows) == space.num_valid() == 12
    assert distinct(rows)


def test_rare_configs_of_a_space_too_large_to_list_are_constructed():
    """Every knob must exceed the one before it by 7 to 10: one in 25**9 points, and 4**9 times 100 of them."""
    space = ConfigSpace()
    for i in range(10):
        space.define_knob(f"k{i}", range(100))
        if i:
            space.add_constraint(
                lambda c, i=i: (c[f"k{i}"].val - c[f"k{i - 1}"].val) % 100 in (7, 8, 9, 10),
                reads=(f"k{i - 1}", f"k{i}"),
                message=f"step {i}",
            )
    rows = space.sample(300, np.random.default_rng(0))
    assert len(rows) == 300
    assert distinct(rows)
    assert space.is_valid(rows).all()
    assert len(set(rows[:, 0].tolist())) > 40


def test_constraint_over_one_knob_of_a_huge_space():
    space = ConfigSpace()
    for i in range(10):
        space.define_split(f"t{i}", 2**20, num_outputs=4)
        space.add_constraint(lambda c, i=i: c[f"t{i}"].size[-1] == 16, reads=(f"t{i}",), message=f"lanes {i}")
    rows = space.sample(500, np.random.default_rng(0))
    assert len(rows) == 500
    assert space.is_valid(rows).all()


def test_a_space_without_valid_config_says_which_constraints_clash():
    space = ConfigSpace()
    space.define_knob("a", range(2000))
    space.define_knob("b", range(2000))
    space.add_constraint(lambda c: c["a"].val < 10, reads=("a",), message="a is small")
    space.add_constraint(lambda c: c["a"].val > 100 + c["b"].val, reads=("a", "b"), message="a is large")
    assert space.num_valid() == 0
    assert list(space.iterate()) == []
    with pytest.raises(SpaceError, match=r"no valid config.*a is small \(reads a\); a is large"):
        space.sample(4, np.random.default_rng(0))


def test_a_small_space_without_valid_config_is_an_error_too():
    space = ConfigSpace()
    space.define_knob("a", [1, 2])
    space.add_constraint(lambda c: False, reads=("a",), message="never")
    with pytest.raises(SpaceError, match=r"no valid config.*never"):
        space.sample(1, np.random.default_rng(0))


def test_giving_up_says_how_much_was_tried(monkeypatch):
    """No quick proof shows that this space is empty."""
    monkeypatch.setattr("pegbox.space.sampling.LIST_BUDGET", 1_000)
    monkeypatch.setattr("pegbox.space.sampling.CONSTRUCT_BUDGET", 5_000)
    space = ConfigSpace()
    for i in range(8):
        space.define_knob(f"k{i}", range(300))
    names = tuple(space.knobs)
    for i in range(7):
        pair = names[i : i + 2]
        space.add_constraint(lambda c, p=pair: c[p[0]].val % 2 == c[p[1]].val % 2, reads=pair, message=f"parity {i}")
    space.add_constraint(lambda c: c["k0"].val % 2 != c["k7"].val % 2, reads=("k0", "k7"), message="odd one out")
    with pytest.raises(
        SpaceError, match=r"no valid config among [\d,]+ combinations of k0, k1.*one may exist"
    ) as caught:
        space.sample(1, np.random.default_rng(0))
    assert "cannot hold" not in str(caught.value)


def tied_space(knobs=18, values=10, holds=lambda total: total <= 30):
    """One constraint over all knobs: nothing can be left out before the last one has its value."""
    space = ConfigSpace()
    names = tuple(f"k{i}" for i in range(knobs))
    for name in names:
        space.define_knob(name, range(values))
    space.add_constraint(lambda c: holds(sum(c[n].val for n in names)), reads=names, message="the sum")
    return space


@pytest.mark.parametrize("holds", [lambda total: total <= 30, lambda total: total >= 132])
def test_rare_configs_under_one_constraint_over_all_knobs_are_found(holds):
    """One random draw in 200,000 is valid; those that are lie around the first config, or around the last one."""
    space = tied_space(holds=holds)
    rows = space.sample(150, np.random.default_rng(0))
    assert len(rows) == 150
    assert distinct(rows)
    assert space.is_valid(rows).all()
    # Of all valid configs, nearly all lie close to the limit, and no knob differs from another.
    distance = np.minimum(rows.sum(axis=1), 9 * 18 - rows.sum(axis=1))
    assert 27 < distance.mean() < 29.5
    assert np.abs(rows.mean(axis=0) - rows.mean()).max() < 0.6


def test_the_first_config_of_such_a_space_is_listed_at_once_and_its_count_is_unknown():
    space = tied_space()
    assert next(space.iterate()).index == 0
    assert space.num_valid() is None


def test_the_same_seed_walks_the_same_way():
    fresh, used = tied_space(12), tied_space(12)
    used.sample(20, np.random.default_rng(5))
    assert (fresh.sample(9, np.random.default_rng(1)) == used.sample(9, np.random.default_rng(1))).all()


def test_the_only_valid_config_of_such_a_space_is_all_there_is():
    space = tied_space(holds=lambda total: total == 0)
    rng = np.random.default_rng(0)
    assert space.sample(4, rng).tolist() == [[0] * 18]
    assert space.neighbors(np.zeros((1, 18), dtype=np.int64), rng).tolist() == [[0] * 18]


def test_a_walk_passes_where_no_single_knob_can_move():
    space = tied_space(8, 50, holds=lambda total: total == 20)
    rows = space.sample(30, np.random.default_rng(0))
    assert len(rows) == 30
    assert set(rows.sum(axis=1).tolist()) == {20}


def test_what_lies_nowhere_near_is_not_said_to_be_impossible(monkeypatch):
    monkeypatch.setattr("pegbox.space.sampling.CONSTRUCT_BUDGET", 5_000)
    space = tied_space(holds=lambda total: total == 1000)
    with pytest.raises(SpaceError, match=r"no valid config among [\d,]+ combinations .* out of 1,0{3}.*one may exist"):
        space.sample(1, np.random.default_rng(0))


def test_relatives_of_valid_rows_are_found_where_sampling_finds_nothing(monkeypatch):
    """Valid rows that are known are begun at, so that walking a space never says that it is empty."""
    monkeypatch.setattr("pegbox.space.sampling.CONSTRUCT_BUDGET", 5_000)
    middle = tuple([4, 5] * 9)
    space = ConfigSpace()
    names = tuple(f"k{i}" for i in range(18))
    for name in names:
        space.define_knob(name, range(10))
    space.add_constraint(
        lambda c: tuple(c[n].val for n in names) in (middle, middle[::-1]), reads=names, message="one of two"
    )
    with pytest.raises(SpaceError, match="one may exist"):
        space.sample(1, np.random.default_rng(0))
    pair = np.array([middle, middle[::-1]])
    assert space.is_valid(space.neighbors(pair, np.random.default_rng(0))).all()
    assert space.is_valid(space.crossover(pair, pair[::-1], np.random.default_rng(0))).all()


def test_samples_spread_over_the_space():
    space = ConfigSpace()
    space.define_knob("a", range(10))
    space.define_knob("b", range(1000))
    space.add_constraint(lambda c: c["a"].val <= c["b"].val, reads=("a", "b"), message="order")
    rows = space.sample(2000, np.random.default_rng(0))
    counts = np.bincount(rows[:, 0], minlength=10)
    assert counts.min() > 140
    assert abs(rows[:, 1].mean() - 500) < 30


def test_conditions_are_sampled_by_their_values():
    space = ConfigSpace()
    space.define_knob("layout", ["plain", "packed"])
    space.define_knob("panel", range(3000), when={"layout": "packed"})
    rows = space.sample(1000, np.random.default_rng(0))
    assert len(rows) == 1000
    assert distinct(rows)
    assert (rows[rows[:, 0] == 0, 1] == 0).all()
