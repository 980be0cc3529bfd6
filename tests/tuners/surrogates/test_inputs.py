"""The inputs of a Gaussian process from a configuration and from a cost."""

import math

import numpy as np
import pytest

from pegbox.search.models.training import SLOW, standardised_logs
from pegbox.search.protocols import Features, Floats
from pegbox.search.testing import small_space
from pegbox.space import ConfigSpace
from pegbox.tuners.features import FeatureTable
from pegbox.tuners.rows import Digits
from pegbox.tuners.surrogates.inputs import Inputs, KnobInputs


def far(inputs: KnobInputs, a: list[int], b: list[int]) -> float:
    """The distance of two rows of digits with all length scales one."""
    x = inputs(np.array([a, b], dtype=np.int64))
    return float(np.sqrt(((x[0] - x[1]) ** 2).sum()))


def test_numbers_are_far_apart_by_rank_and_words_all_alike() -> None:
    space = ConfigSpace()
    space.define_knob("factor", [1, 2, 4, 8, 64])
    space.define_knob("order", ["a", "b", "c"])
    inputs = KnobInputs(space)
    assert far(inputs, [0, 0], [4, 0]) == 1.0
    assert far(inputs, [1, 0], [2, 0]) == far(inputs, [3, 0], [4, 0]) == 0.25
    assert far(inputs, [0, 0], [0, 1]) == far(inputs, [0, 1], [0, 2])
    assert inputs.groups.tolist() == [0, 1, 1, 1]


def test_each_loop_of_a_split_has_its_length_scale() -> None:
    space = ConfigSpace()
    space.define_split("tile", 64, num_outputs=3)
    inputs = KnobInputs(space)
    assert inputs.groups.tolist() == [0, 1, 2]
    x = inputs(space.sample(28, np.random.default_rng(0)))
    assert x.min() == 0.0
    assert x.max() == 1.0
    assert np.allclose(x.sum(axis=1), 1.0)


def test_zero_among_numbers_is_also_a_kind_of_its_own() -> None:
    space = ConfigSpace()
    space.define_knob("unroll", [0, 16, 64])
    inputs = KnobInputs(space)
    assert inputs.groups.tolist() == [0, 1]
    assert inputs(np.array([[0], [1]]))[:, 1].tolist() == [1.0, 0.0]


def test_a_knob_that_does_not_exist_stands_in_the_middle() -> None:
    space = small_space()
    inputs = KnobInputs(space)
    plain, packed = space.config([0, 0, 0]).digits, [space.config([0, 1, digit]).digits for digit in range(3)]
    x = inputs(np.array([plain, *packed]))
    assert np.allclose(x[0, -1], x[1:, -1].mean())


def test_knobs_with_one_value_say_nothing() -> None:
    space = ConfigSpace()
    space.define_knob("only", [7])
    assert KnobInputs(space)(np.zeros((3, 1), dtype=np.int64)).shape == (3, 0)


class Source:
    """Features of one's own."""

    names = ("cache.a", "cache.b", "tile.a", "same.everywhere")

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, digits: Digits) -> Features:
        self.asked += len(digits)
        first = digits[:, 0].astype(np.float32)
        return np.stack([first, 2 * first, digits[:, 1], np.ones(len(digits))], axis=1).astype(np.float32)


def test_programs_are_standardised_and_share_length_scales_by_kind() -> None:
    space = ConfigSpace()
    space.define_knob("a", list(range(1, 50)))
    space.define_knob("b", ["x", "y"])
    source, sample = Source(), space.sample(98, np.random.default_rng(0))
    inputs = Inputs(space, FeatureTable(space, source, "program"), sample)
    x = inputs(sample)
    assert inputs.groups.tolist() == [0, 1, 1, 2, 2, 3]
    assert np.allclose(x[:, 3:].mean(axis=0), 0.0, atol=1e-6)
    assert np.allclose(x[:, 3:].std(axis=0), [1 / math.sqrt(2), 1 / math.sqrt(2), 1.0])
    assert source.asked == 98


def test_opinions_of_programs_become_trends_that_grow_with_the_cost() -> None:
    space = ConfigSpace()
    space.define_knob("a", list(range(1, 50)))
    space.define_knob("b", ["x", "y"])
    sample = space.sample(98, np.random.default_rng(0))
    asked: list[int] = []

    def likes_small(features: Features) -> Floats:
        asked.append(len(features))
        return -features[:, 0].astype(np.float64)

    priors = [likes_small, lambda features: np.ones(len(features))]
    inputs = Inputs(space, FeatureTable(space, Source(), "program", priors), sample)
    x = inputs(sample)
    assert inputs.trends == 2
    assert x.shape[1] == len(inputs.groups) + 2
    assert np.corrcoef(x[:, -2], sample[:, 0])[0, 1] == pytest.approx(1.0)
    assert (x[:, -2].mean(), x[:, -2].std()) == pytest.approx((0.0, 1.0), abs=1e-6)
    assert (x[:, -1] == 0.0).all()
    assert (inputs(sample[:9]) == x[:9]).all()
    assert sum(asked) == 98


def test_opinions_without_programs_are_none() -> None:
    space = small_space()
    rows = space.sample(10, np.random.default_rng(0))
    table = FeatureTable(space, None, "knobs", [lambda features: np.ones(len(features))])
    assert table.prior_columns == slice(len(space.feature_names), len(space.feature_names))
    assert table(rows).shape == (10, len(space.feature_names))
    assert Inputs(space, None, rows).trends == 0


def test_without_programs_there_are_the_knobs() -> None:
    space = small_space()
    rows = space.sample(10, np.random.default_rng(0))
    assert (Inputs(space, None, rows)(rows) == KnobInputs(space)(rows)).all()


def test_costs_become_standardised_logarithms() -> None:
    y = standardised_logs(np.array([1.0, 2.0, 4.0]))
    assert np.allclose(y, [-math.sqrt(1.5), 0.0, math.sqrt(1.5)])


def test_failures_are_as_bad_as_the_slowest() -> None:
    y = standardised_logs(np.array([1.0, 3.0, math.inf]))
    assert y[1] == y[2] > y[0]


def test_what_is_hopeless_does_not_set_the_scale() -> None:
    costs: Floats = np.array([1.0, 1.5, SLOW, 1e6])
    y = standardised_logs(costs)
    assert y[2] == y[3]


def test_nothing_to_learn_is_all_zero() -> None:
    assert standardised_logs(np.array([math.inf, math.inf])).tolist() == [0.0, 0.0]
    assert standardised_logs(np.array([2.0, 2.0])).tolist() == [0.0, 0.0]
    assert np.isfinite(standardised_logs(np.array([0.0, 1e-3]))).all()
