"""Annotate knobs: the policies and their counts."""

import pytest

from pegbox.errors import SpaceError
from pegbox.space import ConfigSpace


def anns(axes, policy, **kwargs):
    space = ConfigSpace()
    space.define_annotate("a", axes, policy, **kwargs)
    return [space.get(i)["a"].anns for i in range(len(space))]


@pytest.mark.parametrize(
    ("policy", "count"),
    [
        ("none", 1),
        ("unroll", 1),
        ("try_unroll", 4),
        ("try_vec", 3),
        ("unroll_vec", 3),
        ("try_unroll_vec", 8),
        ("try_vec_unroll", 8),
        ("none_unroll", 4),
    ],
)
def test_counts_for_two_axes_are_autotvms(policy, count):
    assert len(anns(["y", "x"], policy)) == count


def test_orders_are_autotvms():
    assert anns(["y", "x"], "try_vec") == [["none", "none"], ["none", "vec"], ["vec", "none"]]
    assert anns(["x"], "try_unroll_vec") == [["none"], ["unroll"], ["vec"]]
    assert anns(["y", "x"], "unroll") == [["unroll", "unroll"]]


def test_at_most_one_axis_is_vectorized():
    found = anns(list("abcd"), "try_unroll_vec")
    assert max(row.count("vec") for row in found) == 1
    assert len(found) == 2**4 + 4 * 2**3


def test_vec_vectorizes_one_axis_innermost_first():
    assert anns(["x"], "vec") == [["vec"]]
    assert anns(["z", "y", "x"], "vec") == [
        ["none", "none", "vec"],
        ["none", "vec", "none"],
        ["vec", "none", "none"],
    ]


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (2, ["blockIdx.x", "threadIdx.x"]),
        (3, ["fuse", "blockIdx.x", "threadIdx.x"]),
        (5, ["fuse", "blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x"]),
        (6, ["blockIdx.z", "blockIdx.y", "blockIdx.x", "threadIdx.z", "threadIdx.y", "threadIdx.x"]),
    ],
)
def test_bind_gpu_is_one_choice(count, expected):
    assert anns([f"i{i}" for i in range(count)], "bind_gpu") == [expected]


def test_bind_gpu_virtual_adds_virtual_threads():
    assert anns(list("abcd"), "bind_gpu_virtual") == [["fuse", "blockIdx.x", "vthread", "threadIdx.x"]]
    assert anns([f"i{i}" for i in range(9)], "bind_gpu_virtual")[0][3:6] == ["vthread"] * 3


def test_locate_cache_chooses_axes():
    assert anns(["a", "b", "c"], "locate_cache", num_anchor=2) == [[0, 1], [0, 2], [1, 2]]


def test_candidates_are_kept():
    candidate = [["parallel", "none", "vec"], ["none", "unroll", "vec"]]
    assert anns(list("abc"), "candidate", candidate=[*candidate, candidate[0]]) == candidate


@pytest.mark.parametrize(
    ("policy", "kwargs", "message"),
    [
        ("try_unrol", {}, "unknown policy 'try_unrol'; did you mean 'try_unroll'"),
        ("locate_cache", {}, "go together"),
        ("none", {"num_anchor": 1}, "go together"),
        ("locate_cache", {"num_anchor": 3}, "of 2 axes: num_anchor=3 is out of range"),
        ("candidate", {}, "go together"),
        ("candidate", {"candidate": []}, "no candidates"),
        ("candidate", {"candidate": [["vec"]]}, "one annotation for each"),
        ("candidate", {"candidate": [["none", "vectorize"]]}, "unknown annotation 'vectorize'"),
        ("bind_gpu_virtual", {}, "at least 3 axes, got 2"),
    ],
)
def test_bad_arguments_are_refused(policy, kwargs, message):
    with pytest.raises(SpaceError, match=message):
        anns(["y", "x"], policy, **kwargs)


def test_too_many_axes_are_refused():
    with pytest.raises(SpaceError, match="more than"):
        anns([f"i{i}" for i in range(40)], "try_unroll")
