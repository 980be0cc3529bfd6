"""Reorder knobs: the policies, their counts and their orders."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pegbox.errors import SpaceError
from pegbox.space import ConfigSpace


def perms(axes, policy, **kwargs):
    space = ConfigSpace()
    space.define_reorder("o", axes, policy, **kwargs)
    return [space.get(i)["o"].perm for i in range(len(space))]


def test_identity_is_one_order():
    assert perms(["y", "x", "k"], "identity") == [[0, 1, 2]]


def test_all_lists_permutations_in_lexicographic_order():
    assert perms(["y", "x"], "all") == [[0, 1], [1, 0]]
    assert perms(list("abcd"), "all") == [list(p) for p in itertools.permutations(range(4))]


@pytest.mark.parametrize("policy", ["interval_all", "interval"])
def test_interval_moves_only_the_axes_inside_it(policy):
    assert perms(list("abcd"), policy, interval=(1, 3)) == [[0, 1, 2, 3], [0, 2, 1, 3]]


def test_candidates_by_name_and_by_position():
    found = perms(["y", "x", "k"], "candidate", candidate=[["k", "y", "x"], [0, 1, 2], ["k", "y", "x"]])
    assert found == [[2, 0, 1], [0, 1, 2]]


def test_interleave_offers_every_merge_and_autotvms_first():
    axes = ["yo", "yi", "xo", "xi", "ko", "ki"]
    found = perms(axes, "interleave", spatial=[["yo", "yi"], ["xo", "xi"]], reduce=[["ko", "ki"]])
    assert len(found) == 2 * 12
    # AutoTVM's only order: the chain with most axes left goes first, earlier chains first on a tie.
    assert [axes[i] for i in found[0]] == ["yo", "xo", "ko", "yi", "xi", "ki"]
    assert len({tuple(p) for p in found}) == len(found)


def test_interleave_cuda_keeps_the_last_spatial_axes_innermost():
    axes = ["yo", "yi", "xo", "xi", "k", "r"]
    found = perms(axes, "interleave_cuda", spatial=[["yo", "yi"], ["xo", "xi"]], reduce=[["k"], ["r"]])
    named = [[axes[i] for i in perm] for perm in found]
    assert all(order[-2:] == ["yi", "xi"] for order in named)
    assert sorted(order[:4] for order in named) == sorted(
        [*a, *b] for a in (["yo", "xo"], ["xo", "yo"]) for b in (["k", "r"], ["r", "k"])
    )


@settings(deadline=None)
@given(lengths=st.lists(st.integers(1, 2), min_size=1, max_size=3))
def test_interleave_merges_are_exactly_those_that_keep_each_chain_in_order(lengths):
    axes = [f"{chain}{i}" for chain, length in enumerate(lengths) for i in range(length)]
    chains = [[f"{chain}{i}" for i in range(length)] for chain, length in enumerate(lengths)]
    found = perms(["s", *axes], "interleave", spatial=[["s"]], reduce=chains)
    numbers = [[1 + axes.index(axis) for axis in chain] for chain in chains]
    expected = [
        list(p)
        for p in itertools.permutations(range(len(axes) + 1))
        if all([a for a in p if a in chain] == chain for chain in numbers)
    ]
    assert sorted(found) == expected
    assert len(found) == math.factorial(len(axes) + 1) // math.prod(map(math.factorial, lengths))


@pytest.mark.parametrize(
    ("axes", "policy", "kwargs", "message"),
    [
        (["y", "x"], "al", {}, "unknown policy 'al'; did you mean 'all'"),
        (["y", "y"], "all", {}, "listed twice"),
        ([], "all", {}, "one or more names"),
        ("yx", "all", {}, "axes='yx' is not a list"),
        (["y", 3], "all", {}, "one or more names"),
        ([str(i) for i in range(11)], "all", {}, "39,916,800 values"),
        (["y", "x"], "all", {"interval": (0, 1)}, "takes no argument interval="),
        (["y", "x"], "interval_all", {}, "needs the argument interval="),
        (["y", "x"], "interval_all", {"interval": (1, 3)}, "not inside its 2 axes"),
        (["y", "x"], "candidate", {}, "needs the argument candidate="),
        (["y", "x"], "candidate", {"candidate": []}, "no candidates"),
        (["y", "x"], "candidate", {"candidate": [["y"]]}, "each of \\['y', 'x'\\] once"),
        (["y", "x"], "candidate", {"candidate": [["y", "z"]]}, "'z' is not among its axes"),
        (["y", "x"], "interleave", {"spatial": [["y"]]}, "together hold each of the 2 axes once"),
        (["y", "x"], "interleave", {"reduce": [["y"], ["x"]]}, "needs the argument spatial="),
    ],
)
def test_bad_arguments_are_refused(axes, policy, kwargs, message):
    with pytest.raises(SpaceError, match=message):
        perms(axes, policy, **kwargs)
