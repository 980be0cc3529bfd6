"""Split knobs: AutoTVM's counts, order and arguments, and what pegbox does where AutoTVM fails."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pegbox.errors import SpaceError
from pegbox.space import ConfigSpace, SplitEntity, SplitKnob


def sizes(axis, *args, **kwargs):
    space = ConfigSpace()
    space.define_split("t", axis, *args, **kwargs)
    return [space.get(i)["t"].size for i in range(len(space))]


def by_definition(extent, policy, num_outputs):
    """Splits in AutoTVM's order, straight from the policy's definition."""
    divisors = [d for d in range(1, extent + 1) if extent % d == 0]
    powers = [p for p in range(1, extent + 1) if p & (p - 1) == 0]
    factors = {"factors": divisors, "power2": powers, "verbose": sorted({*divisors, *powers})}[policy]
    found = []
    for stack in itertools.product(factors, repeat=num_outputs - 1):
        product = math.prod(stack)
        if extent % product == 0 or (policy != "factors" and product < extent):
            found.append([-1, *reversed(stack)])
    return found


@pytest.mark.parametrize(
    ("extent", "policy", "num_outputs", "count"),
    [
        (1024, "factors", 3, 66),
        (1024, "factors", 2, 11),
        (1024, "factors", 4, 286),
        (224, "factors", 3, 63),
        (224, "power2", 3, 36),
        (224, "verbose", 3, 84),
        (49, "factors", 3, 6),
        (1, "factors", 4, 1),
        (1, "power2", 2, 1),
    ],
)
def test_counts_are_autotvms(extent, policy, num_outputs, count):
    assert len(sizes(extent, policy, num_outputs=num_outputs)) == count


@settings(deadline=None)
@given(
    extent=st.integers(1, 120),
    policy=st.sampled_from(["factors", "power2", "verbose"]),
    num_outputs=st.integers(1, 4),
)
def test_splits_and_their_order_are_as_defined(extent, policy, num_outputs):
    assert sizes(extent, policy, num_outputs=num_outputs) == by_definition(extent, policy, num_outputs)


def test_factor_next_to_the_inferred_one_varies_fastest():
    assert sizes(4, num_outputs=3) == [[-1, 1, 1], [-1, 2, 1], [-1, 4, 1], [-1, 1, 2], [-1, 2, 2], [-1, 1, 4]]


@pytest.mark.parametrize("policy", ["factors", "power2", "verbose"])
def test_one_output_leaves_the_axis_whole(policy):
    assert sizes(1024, policy, num_outputs=1) == [[-1]]


@pytest.mark.parametrize("policy", ["power2", "verbose"])
@pytest.mark.parametrize("extent", [999, 1009])
def test_extents_with_few_divisors_still_have_many_splits(extent, policy):
    found = sizes(extent, policy, num_outputs=3)
    assert [-1, 16, 8] in found
    assert len(found) >= 55


def test_prime_extent_has_only_trivial_splits_under_factors():
    assert sizes(1009) == [[-1, 1], [-1, 1009]]


def test_max_factor_bounds_every_factor_but_the_outermost():
    assert sizes(64, num_outputs=2, max_factor=8) == [[-1, 1], [-1, 2], [-1, 4], [-1, 8]]


def test_filter_sees_the_entity():
    assert sizes(64, num_outputs=3, filter=lambda e: e.size[-1] == 16 and e.size[1] > 1) == [[-1, 2, 16], [-1, 4, 16]]


def test_no_tail_keeps_divisors_only_under_any_policy():
    assert sizes(12, "verbose", no_tail=True) == sizes(12, "factors")
    assert sizes(12, "power2", no_tail=True) == [[-1, 1], [-1, 2], [-1, 4]]
    assert sizes(12, "candidate", candidate=[[-1, 5], [-1, 6]], no_tail=True) == [[-1, 6]]


def test_tails_can_be_asked_for_under_factors():
    assert [-1, 4, 2] not in sizes(12, "factors", num_outputs=3)
    assert [-1, 4, 2] in sizes(12, "factors", num_outputs=3, no_tail=False)


def test_candidates_are_kept_as_written_and_in_order():
    candidate = [[4, 4, 4], [-1, 8, 2], [1, 1, 64]]
    assert sizes(64, "candidate", num_outputs=3, candidate=candidate) == candidate


def test_number_of_outputs_is_taken_from_the_candidates():
    assert sizes(64, "candidate", candidate=[[-1, 8, 2]]) == [[-1, 8, 2]]


def test_candidates_need_not_divide_nor_fit():
    assert sizes(1, "candidate", candidate=[[-1, 16], [1, 5]]) == [[-1, 16], [1, 5]]


def test_candidates_of_one_meaning_count_once():
    assert sizes(64, "candidate", candidate=[[-1, 8], [8, 8], [-1, 4]]) == [[-1, 8], [-1, 4]]


def test_candidates_honour_filter_and_max_factor():
    candidate = [[-1, 2], [-1, 8], [-1, 32]]
    kept = sizes(64, "candidate", candidate=candidate, max_factor=8, filter=lambda e: e.size[-1] > 2)
    assert kept == [[-1, 8]]


@pytest.mark.parametrize(
    ("axis", "kwargs", "message"),
    [
        (0, {}, "extent 0"),
        (-1, {}, "extent -1"),
        (2**41, {}, "2\\*\\*40"),
        ("i", {}, "extent as an int, got 'i'"),
        (True, {}, "got True"),
        (8, {"policy": "factor"}, "unknown policy 'factor'; did you mean 'factors'"),
        (8, {"num_outputs": 0}, "num_outputs=0 is out of range"),
        (8, {"max_factor": 0}, "max_factor=0 is out of range"),
        (8, {"candidate": [[-1, 2]]}, "go together"),
        (8, {"policy": "candidate"}, "go together"),
        (8, {"policy": "candidate", "candidate": []}, "no candidates"),
        (8, {"policy": "candidate", "candidate": [[-1, 0]]}, "extents are positive"),
        (8, {"policy": "candidate", "candidate": [[-1, 2], [-1, 2, 2]]}, "3 extents, expected 2"),
        (8, {"policy": "candidate", "candidate": [[-1, 2]], "num_outputs": 3}, "2 extents, expected 3"),
        (8, {"policy": "candidate", "candidate": [[3, 2]]}, "does not cover an axis of 8.*would be 4"),
        (8, {"policy": "candidate", "candidate": [7]}, "not a list of extents"),
        (8, {"filter": lambda e: False}, "no candidates"),
        (2**39, {"num_outputs": 9}, "more than"),
    ],
)
def test_bad_arguments_are_refused(axis, kwargs, message):
    with pytest.raises(SpaceError, match=message):
        sizes(axis, **kwargs)


def test_entities_are_values():
    first, second = SplitEntity((-1, 4)), SplitEntity((-1, 4))
    first.size.append(7)
    assert first == second
    assert len({first, second}) == 1
    assert str(first) == "[-1, 4]"


def test_define_split_names_its_loops():
    space = ConfigSpace()
    outer, inner = space.define_split("t", 16)
    space.define_reorder("o", [inner, outer], "all")
    assert len(space) == 10


@pytest.mark.parametrize(
    ("extent", "limits", "sizes"),
    [(128, [-1, 8, 4], [4, 8, 4]), (49, [-1, 8, 4], [7, 7, 1]), (30, [1, -1], [1, 30]), (7, [-1, 6], [7, 1])],
)
def test_the_split_within_limits_has_the_largest_divisors(extent: int, limits: list[int], sizes: list[int]) -> None:
    space = ConfigSpace()
    space.define_split("tile", extent, num_outputs=len(limits))
    knob = space.knobs["tile"]
    assert isinstance(knob, SplitKnob)
    assert knob.within(limits).size == sizes


@pytest.mark.parametrize(
    ("limits", "message"), [([-1, 1, 0], "no divisor of 49 is within 0"), ([-1, 8], "largest extent of each of the 3")]
)
def test_limits_that_no_split_is_within_are_refused(limits: list[int], message: str) -> None:
    space = ConfigSpace()
    space.define_split("tile", 49, num_outputs=3)
    knob = space.knobs["tile"]
    assert isinstance(knob, SplitKnob)
    with pytest.raises(SpaceError, match=message):
        knob.within(limits)
