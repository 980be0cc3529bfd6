"""Range knobs: numbers between two bounds, computed from their digits."""

import json
import math
import operator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pegbox.errors import SpaceError
from pegbox.space import ConfigSpace, ListedSpace, enumeration
from pegbox.space.given_config import given_config

positive = st.floats(1e-290, 1e300)
numbers = st.just(0.0) | positive | positive.map(operator.neg)


@st.composite
def ranges(draw):
    """A space with one range."""
    space, log = ConfigSpace(), draw(st.booleans())
    if draw(st.booleans()):
        low = draw(st.integers(1, 10**12) if log else st.integers(-(10**12), 10**12))
        space.define_int("n", low, low + draw(st.integers(0, 10**9)), step=draw(st.integers(1, 1000)), log=log)
    else:
        low, high = sorted(draw(st.tuples(*2 * [positive if log else numbers])))
        space.define_float("n", low, high, log=log)
    return space


def some_digits(space, seed, n=12):
    length = len(space.knobs["n"])
    digits = np.random.default_rng(seed).integers(0, length, n)
    beside = [digit for digit in (1, length - 2) if 0 <= digit < length]
    return np.unique([0, length - 1, *beside, *digits])[:, None]


@settings(max_examples=40, deadline=None)
@given(space=ranges(), seed=st.integers(0, 99))
def test_a_number_is_found_again_by_its_index_its_value_and_its_json(space, seed):
    for (digit,) in some_digits(space, seed).tolist():
        config = space.get(digit)
        assert config.index == digit
        written = json.loads(json.dumps(config.to_json()))
        assert space.from_json({"entity": written["entity"]}) == space.from_json(written) == config
        assert space.rows_from_json([written]).tolist() == [[digit]]


@settings(max_examples=40, deadline=None)
@given(space=ranges(), seed=st.integers(0, 99))
def test_numbers_ascend_from_bound_to_bound(space, seed):
    digits = some_digits(space, seed)
    values = [space.get(digit)["n"].val for (digit,) in digits.tolist()]
    assert all(a < b for a, b in pairwise(values))
    line = space.knobs["n"].line
    places = line.shares(digits[:, 0])
    assert (np.diff(places) >= 0).all()
    assert places.min() >= 0
    assert places.max() <= 1 + 1e-9


@settings(max_examples=40, deadline=None)
@given(space=ranges(), seed=st.integers(0, 99))
def test_samples_neighbors_and_children_are_inside_and_their_features_finite(space, seed):
    rng, rows = np.random.default_rng(seed), some_digits(space, seed)
    near = space.neighbors(rows, rng)
    assert space.is_valid(near).all()
    assert len(space.knobs["n"]) == 1 or (near != rows).all()
    assert space.is_valid(space.crossover(rows, near, rng)).all()
    sampled = space.sample(20, rng)
    assert space.is_valid(sampled).all()
    assert len(sampled) == min(20, space.size)
    assert np.isfinite(space.encode(sampled)).all()


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-5.0, 10.0), (100.0, 250.0)])
def test_floats_have_between_ten_and_a_hundred_million_decimal_steps(low, high):
    space = ConfigSpace()
    space.define_float("x", low, high)
    assert 10**7 <= space.size - 1 <= 10**8
    assert len(str(space.get(space.size // 3)["x"].val).strip("-")) <= 10
    assert space.get(0)["x"].val == low
    assert space.get(space.size - 1)["x"].val == high


def test_a_number_between_the_points_stands_for_the_closest():
    space = ConfigSpace()
    space.define_float("x", 0.0, 1.0)
    assert space.from_json({"entity": [["x", "ot", 1 / 3]]})["x"].val == 0.3333333
    assert space.from_json({"entity": [["x", "ot", 1]]})["x"].val == 1.0
    with pytest.raises(SpaceError, match=r"1\.5 there, which is not a value"):
        space.from_json({"entity": [["x", "ot", 1.5]]})


def test_a_point_next_to_a_bound_differs_from_it():
    space = ConfigSpace()
    space.define_float("rate", 10 ** (-4 + 1e-9), 1.0, log=True)  # a hair above a point
    first, second = (space.get(digit)["rate"].val for digit in (0, 1))
    assert first < second
    space.define_float("few", 1.0, math.nextafter(1.0, 2.0))
    assert [entity.raw for entity in space.knobs["few"].entities] == [1.0, math.nextafter(1.0, 2.0)]


def test_the_values_of_a_range_can_be_iterated():
    space = ConfigSpace()
    space.define_int("n", 1, 10, step=4)
    assert [entity.raw for entity in space.knobs["n"].line] == [1, 5, 9]
    with pytest.raises(IndexError):
        space.knobs["n"].line[-1]


def test_numbers_of_numpy_are_values():
    space = ConfigSpace()
    space.define_float("x", 0.0, 1.0)
    space.define_int("n", 0, 9)
    space.define_knob("c", [1, 2.5, True])
    space.define_knob("d", [1, 2], when={"n": np.int64(3)})
    config = given_config(space, {"x": np.float64(0.25), "n": np.int64(3), "c": np.bool_(True), "d": np.int32(2)})
    assert config == given_config(space, {"x": 0.25, "n": 3, "c": True, "d": 2})
    assert given_config(space, {"x": np.float32(0.1), "n": 3, "c": np.float32(2.5), "d": 2})["x"].val == 0.1
    with pytest.raises(SpaceError, match="not a value"):
        given_config(space, {"x": np.bool_(True), "n": 3, "c": 1, "d": 1})


def test_logarithmic_samples_have_as_many_small_numbers_as_large_ones():
    space = ConfigSpace()
    space.define_float("rate", 1e-4, 1.0, log=True)
    space.define_int("n", 1, 10**6, log=True)
    space.define_int("even", 1, 10**6)
    configs = [space.config(row) for row in space.sample(4000, np.random.default_rng(0)).tolist()]
    assert np.mean([config["rate"].val < 1e-2 for config in configs]) == pytest.approx(0.5, abs=0.03)
    assert np.mean([config["n"].val < 1000 for config in configs]) == pytest.approx(0.5, abs=0.03)
    assert np.mean([config["even"].val < 1000 for config in configs]) < 0.01


def test_every_number_of_a_short_logarithmic_range_is_drawn():
    space = ConfigSpace()
    space.define_int("n", 1, 8, log=True)
    space.define_float("x", 0.0, 1.0)
    drawn = space.sample(2000, np.random.default_rng(0))[:, 0]
    shares = np.bincount(drawn, minlength=8) / len(drawn)
    assert shares[0] == pytest.approx(math.log(3) / math.log(17), abs=0.05)
    assert (np.diff(shares) < 0.02).all()
    assert shares.min() > 0.02


def test_a_step_that_does_not_divide_the_range_ends_below_its_bound():
    space = ConfigSpace()
    space.define_int("n", 1, 10, step=4)
    assert [config["n"].val for config in space.iterate()] == [1, 5, 9]
    same = ConfigSpace()
    same.define_int("n", 1, 9, step=4)
    assert same.fingerprint == space.fingerprint


def test_a_long_python_range_is_a_range_and_a_short_one_a_list():
    long, short, ints = ConfigSpace(), ConfigSpace(), ConfigSpace()
    long.define_knob("n", range(10**9))
    ints.define_int("n", 0, 10**9 - 1)
    assert long.fingerprint == ints.fingerprint
    assert long.get(123_456_789)["n"].val == 123_456_789
    short.define_knob("n", range(9, 0, -1))
    assert short.knobs["n"].kind == "option"
    down = ConfigSpace()
    down.define_knob("n", range(10**7, 0, -2))
    assert down.get(1)["n"].val == 10**7 - 2
    with pytest.raises(SpaceError, match="more than 2\\*\\*53 values; give a larger step"):
        ConfigSpace().define_knob("n", range(10**5000))
    with pytest.raises(SpaceError, match="define_int or define_float"):
        ConfigSpace().define_knob("n", np.zeros(2_000_000))


def test_constrained_ranges_are_sampled_walked_and_not_counted():
    space = ConfigSpace()
    space.define_int("a", 1, 10**6)
    space.define_int("b", 1, 10**6)
    space.add_constraint(lambda c: c["a"].val + c["b"].val <= 10**5, reads=("a", "b"), message="small")
    rows = space.sample(5, np.random.default_rng(0))
    assert len(rows) == 5
    assert space.is_valid(rows).all()
    assert space.is_valid(space.neighbors(rows, np.random.default_rng(0))).all()
    assert space.num_valid() is None
    assert "not all of them valid" in str(space)


@pytest.mark.parametrize("seed", [None, 3])
def test_a_search_takes_a_long_range_in_parts_and_misses_nothing(seed):
    space = ConfigSpace()
    space.define_int("n", 0, 9999)
    rng = None if seed is None else np.random.default_rng(seed)
    blocks = list(enumeration.Search(space.structure, [0], [], rng=rng).blocks())
    assert len(blocks) == 3
    assert sorted(np.concatenate(blocks)[:, 0].tolist()) == list(range(10_000))


def test_conditions_of_ranges_and_on_ranges():
    space = ConfigSpace()
    space.define_int("layers", 1, 10**6)
    space.define_float("dropout", 0.0, 0.5, when={"layers": (2, 3)})
    assert space.from_json({"entity": [["layers", "ot", 3], ["dropout", "ot", 0.25]]})["dropout"].val == 0.25
    assert not space.get(0).exists("dropout")
    rows = np.array([[0, 0], [1, 5]])
    assert space.encode(rows).tolist() == [[1, 0, 0], [2, pytest.approx(5e-8), 1]]
    assert space.feature_names == ("layers", "dropout", "dropout.exists")


def test_a_coarse_walk_takes_numbers_evenly_spaced_on_the_line():
    space = ConfigSpace()
    space.define_float("rate", 1e-4, 1.0, log=True)
    space.define_knob("c", ["a", "b"])
    walked = [(config["rate"].val, config["c"].val) for config in space.iterate(points=3)]
    assert walked == [(1e-4, "a"), (1e-2, "a"), (1.0, "a"), (1e-4, "b"), (1e-2, "b"), (1.0, "b")]


def test_a_listed_space_of_ranges_knows_the_closest_numbers():
    space = ConfigSpace()
    space.define_int("n", 0, 10**9)
    listed = ListedSpace(space, np.arange(0, 10**9, 10**7)[:, None])
    near = listed.neighbors(np.array([[500_000_000]]), np.random.default_rng(0))
    assert abs(int(near[0, 0]) - 500_000_000) <= 8 * 10**7


def test_a_printed_space_names_the_bounds():
    space = ConfigSpace()
    space.define_int("n", 0, 100, step=7)
    space.define_float("rate", 1e-4, 1.0, log=True)
    text = str(space)
    assert "15  integers from 0 to 98 in steps of 7" in text
    assert "numbers from 0.0001 to 1.0, logarithmic" in text


@pytest.mark.parametrize(
    ("method", "arguments", "options", "message"),
    [
        ("int", (1.5, 3), {}, r"low=1.5 is not an integer; give an integer from -1e\+300 to 1e\+300$"),
        ("int", (1, "3"), {}, "high='3' is not an integer"),
        ("int", (True, 3), {}, "low=True is not an integer"),
        ("int", (3, 1), {}, "low=3 is above high=1; give the smaller bound first"),
        ("int", (1, 9), {"step": 0}, "step=0 is out of range; give an integer >= 1"),
        ("int", (0, 9), {"log": True}, "low=0 has no logarithm; give a bound above 0, or leave out log=True"),
        ("int", (0, 1 << 60), {}, "would have more than 2\\*\\*53 values; give a larger step"),
        ("float", (0.0, 5e-324), {}, "high=5e-324 is closer to 0 than 1e-290; give 0 or a larger number"),
        ("float", (1e-300, 1.0), {"log": True}, "low=1e-300 is closer to 0 than 1e-290"),
        ("float", ("a", 1.0), {}, "low='a' is not a number"),
        ("float", (0.0, math.nan), {}, "high=nan is out of range"),
        ("float", (0.0, math.inf), {}, "high=inf is out of range"),
        ("float", (2.0, 1.0), {}, "low=2.0 is above high=1.0"),
        ("float", (-1.0, 1.0), {"log": True}, "low=-1.0 has no logarithm"),
    ],
)
def test_what_is_no_range_is_refused_with_the_remedy(method, arguments, options, message):
    with pytest.raises(SpaceError, match=f"knob 'n'.*{message}"):
        getattr(ConfigSpace(), f"define_{method}")("n", *arguments, **options)
