"""Option knobs: which values they take, and how they tell them apart."""

import numpy as np
import pytest

from pegbox.errors import SpaceError
from pegbox.space import ConfigSpace


def values(candidates):
    space = ConfigSpace()
    space.define_knob("k", candidates)
    return [space.get(i)["k"].val for i in range(len(space))]


def test_values_come_back_as_declared():
    declared = [0, 1.5, "packed", True, None, (8, 32), [1, [2]], {"a": 1}]
    assert values(declared) == declared
    assert type(values([(8, 32)])[0]) is tuple


def test_values_of_different_types_are_different():
    assert [type(v) for v in values([1, 1.0, True])] == [int, float, bool]


def test_values_listed_twice_count_once():
    assert values([4, 8, 4, np.int64(8)]) == [4, 8]


def test_numpy_scalars_become_plain_values():
    found = values([np.int32(3), np.float64(0.5), np.bool_(True)])
    assert found == [3, 0.5, True]
    assert [type(v) for v in found] == [int, float, bool]


def test_any_iterable_gives_candidates():
    assert values(range(3)) == [0, 1, 2]


def test_a_template_cannot_change_a_value():
    space = ConfigSpace()
    space.define_knob("k", [[1, 2]])
    space.get(0)["k"].val.append(3)
    assert space.get(0)["k"].val == [1, 2]


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ([], "knob 'k' has no candidates"),
        ([float("nan")], "nan"),
        ([object()], "of type object cannot be written as JSON"),
        ([{1: 2}], "of type dict"),
        ("abc", "candidates='abc' is not a list; give a list of values"),
        (np.array(5), r"candidates=array\(5\) is not a list; give a list of values"),
    ],
)
def test_bad_candidates_are_refused(candidates, message):
    with pytest.raises(SpaceError, match=message):
        values(candidates)
