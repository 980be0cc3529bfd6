"""Spaces given as a list: nothing leads out of the list, and a config of one is a config of the other."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pegbox.errors import SpaceError
from pegbox.space import ConfigSpace, ListedSpace
from pegbox.space.listed_space import NEAREST


def layered_space():
    """116 configs, of which a constraint forbids some and a condition makes some knobs come and go."""
    space = ConfigSpace()
    space.define_split("tile", 64)
    space.define_knob("layout", ["plain", "packed"])
    space.define_knob("panel", [8, 16, 32], when={"layout": "packed"})
    space.define_reorder("order", ["y", "x"], "all")
    space.define_knob("flag", [False, True])
    space.add_constraint(
        lambda c: c["tile"].size[-1] * c["panel"].val <= 1024, reads=("tile", "panel"), message="the panel fits"
    )
    return space


@st.composite
def lists(draw, max_knobs=4):
    """A space with conditions and constraints, and a list of some of its configs."""
    space = ConfigSpace()
    for i in range(draw(st.integers(1, max_knobs))):
        when = None
        if i and draw(st.booleans()):
            parent = draw(st.sampled_from(list(space.knobs)))
            when = {parent: [space.knobs[parent].entities[0].value()]}
        if draw(st.booleans()):
            space.define_split(
                f"k{i}", draw(st.integers(1, 30)), draw(st.sampled_from(["factors", "power2"])), when=when
            )
        else:
            values = st.one_of(st.integers(-3, 9), st.text(max_size=2), st.booleans())
            space.define_knob(f"k{i}", draw(st.lists(values, min_size=1, max_size=5)), when=when)
    configs = list(space.iterate())
    chosen = draw(st.lists(st.integers(0, len(configs) - 1), min_size=1, max_size=60))
    return space, np.array([configs[i].digits for i in chosen], dtype=np.int64)


def as_set(rows):
    return set(map(tuple, rows.tolist()))


@settings(max_examples=75, deadline=None)
@given(drawn=lists(), seed=st.integers(0, 2**32 - 1), n=st.integers(0, 70))
def test_nothing_leads_out_of_the_list(drawn, seed, n):
    space, rows = drawn
    listed, inside = ListedSpace(space, rows), as_set(rows)
    rng = np.random.default_rng(seed)
    assert listed.num_valid() == len(inside)
    assert {config.digits for config in listed.iterate()} == inside
    sampled = listed.sample(n, rng)
    assert len(sampled) == len(as_set(sampled)) == min(n, len(inside))
    assert as_set(sampled) <= inside
    everything = np.array([config.digits for config in space.iterate()], dtype=np.int64)
    assert as_set(everything[listed.is_valid(everything)]) == inside
    starts = everything[rng.integers(0, len(everything), 20)]
    near = listed.neighbors(starts, rng)
    assert as_set(near) <= inside
    if len(inside) > 1:
        assert (near != starts).any(axis=1).all()
    assert as_set(listed.crossover(starts, near, rng)) <= inside


@settings(max_examples=100, deadline=None)
@given(drawn=lists(), seed=st.integers(0, 2**32 - 1))
def test_it_means_the_same_as_the_space_it_is_from(drawn, seed):
    space, rows = drawn
    listed = ListedSpace(space, rows)
    assert listed.fingerprint == space.fingerprint
    assert (listed.size, listed.feature_names) == (space.size, space.feature_names)
    assert (listed.encode(rows) == space.encode(rows)).all()
    indices = [config.index for config in listed.iterate()]
    assert indices == sorted(set(indices))
    assert [config.digits for config in listed.iterate()] == list(map(tuple, listed.rows.tolist()))
    for place, row in enumerate(listed.rows):
        config = space.config(row)
        assert listed.config(row) == config == listed.from_json(config.to_json())
        assert listed.place(config) == place
    again = pickle.loads(pickle.dumps(listed))
    rng = [np.random.default_rng(seed) for _ in range(2)]
    assert (again.rows == listed.rows).all()
    assert (again.neighbors(rows, rng[0]) == listed.neighbors(rows, rng[1])).all()


@settings(max_examples=50, deadline=None)
@given(drawn=lists(), seed=st.integers(0, 2**32 - 1))
def test_what_was_asked_before_changes_nothing(drawn, seed):
    space, rows = drawn
    fresh, used = ListedSpace(space, rows), ListedSpace(space, rows)
    used.neighbors(used.rows[::-1], np.random.default_rng(1))
    used.sample(3, np.random.default_rng(1))
    rng = [np.random.default_rng(seed) for _ in range(2)]
    assert (fresh.neighbors(rows, rng[0]) == used.neighbors(rows, rng[1])).all()
    assert (fresh.sample(5, rng[0]) == used.sample(5, rng[1])).all()


def test_constraints_are_not_asked_again():
    space = layered_space()
    rows = np.array([config.digits for config in space.iterate()])
    forbidden = next(
        row for row in np.ndindex(*(len(knob) for knob in space.knobs.values())) if space.violated(space.config(row))
    )
    listed = ListedSpace(space, np.concatenate([rows[:3], [forbidden]]))
    assert listed.num_valid() == 4
    assert listed.violated(space.config(forbidden)) == ()
    assert listed.violated(space.config(rows[9])) == ("it is one of the 4 listed configs",)
    pickle.dumps(listed)  # the predicates of the space, which cannot be pickled, stay behind


def test_rows_are_made_canonical_and_repetitions_count_once():
    space = layered_space()
    listed = ListedSpace(space, np.array([[1, 0, 2, 0, 0], [1, 0, 0, 0, 0], [1, 0, 1, 0, 0]]))
    assert listed.rows.tolist() == [[1, 0, 0, 0, 0]]
    assert listed.is_valid([[1, 0, 2, 0, 0], [9, 0, 0, 0, 0], [2, 0, 0, 0, 0], [-1, 0, 0, 0, 0]]).tolist() == [
        True,
        False,
        False,
        False,
    ]


def test_neighbours_are_the_closest_ones():
    space = ConfigSpace()
    space.define_knob("a", list(range(40)))
    space.define_knob("b", list(range(40)))
    everything = np.array([config.digits for config in space.iterate()])
    listed = ListedSpace(space, everything)
    start = np.repeat([[20, 20]], 400, axis=0)
    near = listed.neighbors(start, np.random.default_rng(0))
    assert len(as_set(near)) == NEAREST
    assert ((near != 20).sum(axis=1) == 1).all()  # one knob moved, although 1,600 configs are listed
    assert np.abs(near - 20).max() <= 4


def test_a_list_of_one_is_its_own_neighbour():
    space = layered_space()
    row = space.sample(1, np.random.default_rng(0))
    listed = ListedSpace(space, row)
    rng = np.random.default_rng(0)
    assert (listed.neighbors(row, rng) == row).all()
    assert (listed.crossover(row, row, rng) == row).all()
    assert (listed.sample(5, rng) == row).all()


def test_huge_spaces():
    space = ConfigSpace()
    for name in "abcdefgh":
        space.define_knob(name, list(range(1500)))
    assert space.size > 2**64
    rng = np.random.default_rng(0)
    rows = space.sample(300, rng)
    listed = ListedSpace(space, rows)
    indices = [config.index for config in listed.iterate()]
    assert all(one < other for one, other in pairwise(indices))
    assert indices[-1] > 2**64
    assert listed.is_valid(rows).all()
    near = listed.neighbors(rows, rng)
    assert as_set(near) <= as_set(rows)
    assert (near != rows).any(axis=1).all()
    assert as_set(listed.crossover(rows, near, rng)) <= as_set(rows)
    assert (pickle.loads(pickle.dumps(listed)).rows == listed.rows).all()


def test_a_space_without_knobs_has_one_config():
    listed = ListedSpace(ConfigSpace(), np.zeros((2, 0), dtype=np.int64))
    assert listed.num_valid() == 1
    assert [config.digits for config in listed.iterate()] == [()]


def test_a_list_of_a_list():
    space = layered_space()
    rows = space.sample(20, np.random.default_rng(0))
    inner = ListedSpace(ListedSpace(space, rows), rows[:5])
    assert inner.num_valid() == 5
    assert inner.fingerprint == space.fingerprint


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.zeros((0, 5), dtype=np.int64), "at least one config"),
        ([[99, 0, 0, 0, 0]], r"row 0 of the digits is outside the space: \[99, 0, 0, 0, 0\]"),
        ([[0, 0]], r"shape \(configs, 5\)"),
        ([[0.5, 0, 0, 0, 0]], "integer array"),
    ],
)
def test_rows_that_list_nothing_of_the_space_are_refused(rows, message):
    with pytest.raises(SpaceError, match=message):
        ListedSpace(layered_space(), rows)


def test_the_list_is_all_there_is():
    space = layered_space()
    listed = ListedSpace(space, space.sample(3, np.random.default_rng(0)))
    with pytest.raises(
        SpaceError, match=r"knob 'more' cannot be added to a list of 3 configs: declare it in the space"
    ):
        listed.define_knob("more", [1, 2])
    with pytest.raises(SpaceError, match=r"constraint 'never' cannot be added.*list only the configs"):
        listed.add_constraint(lambda c: False, reads="flag", message="never")
    with pytest.raises(ValueError, match="read-only"):
        listed.rows[0, 0] = 1


def test_it_says_how_much_of_the_space_it_lists():
    space = layered_space()
    listed = ListedSpace(space, space.sample(3, np.random.default_rng(0)))
    assert repr(listed) == f"<ListedSpace of 3 configs out of {space.size} points>"
    assert str(listed).endswith("listed: 3 configs of these")
