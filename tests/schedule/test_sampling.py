"""Random decisions: what may be drawn, how likely it is, and that a trace remembers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from math import prod
from random import Random
from typing import Any

import numpy as np
import pytest

from pegbox.errors import ScheduleError
from pegbox.schedule import LoopRef, Schedule, Trace
from pegbox.schedule.primitives.sampling import _count, _factors


def _all_factorizations(extent: int, n: int) -> list[tuple[int, ...]]:
    if n == 1:
        return [(extent,)]
    divisors = [d for d in range(1, extent + 1) if extent % d == 0]
    return [(d, *rest) for d in divisors for rest in _all_factorizations(extent // d, n - 1)]


@pytest.mark.parametrize(("extent", "n", "limit"), [(12, 2, 12), (36, 3, 4), (8, 4, 8), (1, 3, 16), (7, 2, 3)])
def test_every_factorization_is_as_likely_as_any_other(extent: int, n: int, limit: int) -> None:
    legal = [f for f in _all_factorizations(extent, n) if f[-1] <= limit]
    rng, draws = Random(1), 400 * len(legal)
    seen = Counter(tuple(_factors(rng, extent, n, limit)) for _ in range(draws))
    assert set(seen) == set(legal)
    assert all(300 < count < 500 for count in seen.values())
    assert _count(extent, n) == len(_all_factorizations(extent, n))


def test_tiles_of_large_extents_are_drawn_at_once() -> None:
    factors = _factors(Random(0), 2**40 * 3**5, 6, 64)
    assert prod(factors) == 2**40 * 3**5
    assert factors[-1] <= 64


def test_categories_follow_their_probabilities(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0], seed=3)
    seen = Counter(sch.sample_categorical([0, 16, 64], [0.5, 0.25, 0.25]) for _ in range(2000))
    assert 900 < seen[0] < 1100
    assert 400 < seen[16] < 600


def test_a_place_is_drawn_among_those_that_are_legal(programs: Any, check_values: Any) -> None:
    args, reference = programs.matmul_relu()
    sch = Schedule(args, seed=0)
    places = Counter(type(sch.sample_compute_location("D")) for _ in range(40))
    assert set(sch.trace.decisions.values()) == {-2, -1, 0, 1}
    assert places.total() == 40
    sch.compute_at("D", sch.sample_compute_location("D", decision=1))
    assert len(sch.get_loops("D")) == 4
    stays = sch.func
    sch.compute_at("C", sch.sample_compute_location("C", decision=-1))
    assert sch.func is stays
    sch.compute_at("D", sch.sample_compute_location("D", decision=-2))
    assert [b.name for b in sch.get_blocks()] == ["C", "E"]
    check_values(sch, reference)


def _sampled(args: Any, seed: int | None) -> Schedule:
    sch = Schedule(args, seed=seed)
    i, j, _ = sch.get_loops("C")
    sch.split(i, sch.sample_perfect_tile(i, 2, max_innermost_factor=None))
    j_0, _ = sch.split(j, sch.sample_perfect_tile(j, 2))
    sch.annotate(j_0, "pragma_auto_unroll_max_step", sch.sample_categorical([0, 16, 64], [0.2, 0.3, 0.5]))
    place = sch.sample_compute_location("D")
    sch.compute_at("D", place)
    return sch


_SAMPLE = """
import sys
sys.path[:0] = {folders!r}
from conftest import matmul_relu
from test_sampling import _sampled
print(_sampled(matmul_relu()[0], 11).trace, end="")
"""


def test_the_same_seed_decides_the_same_in_other_processes(programs: Any, request: pytest.FixtureRequest) -> None:
    here = _sampled(programs.matmul_relu()[0], 11)
    folder = request.path.parent
    code = _SAMPLE.format(folders=[str(folder), str(folder.parent / "helpers")])
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert there == str(here.trace)
    assert str(_sampled(programs.matmul_relu()[0], 11)) == str(here)


def test_a_trace_repeats_its_decisions_without_a_seed(programs: Any) -> None:
    for seed in range(8):
        first = _sampled(programs.matmul_relu()[0], seed)
        trace = Trace.from_json(json.dumps(first.trace.to_json()))
        again = trace.apply_to_schedule(Schedule(programs.matmul_relu()[0]))
        assert str(again) == str(first)
        assert again.trace == first.trace
        pasted = Schedule(programs.matmul_relu()[0])
        exec(str(first.trace), {"sch": pasted})
        assert str(pasted) == str(first)


def test_a_decision_may_be_an_array(programs: Any) -> None:
    sch = Schedule(programs.matmul(12, 7, 6)[0], seed=0)
    outer, inner = sch.sample_perfect_tile(sch.get_loop("C", 0), 2, decision=np.array([3, 4]))
    assert (int(outer), int(inner)) == (3, 4)


def test_another_decision_reaches_the_steps_that_use_it(programs: Any) -> None:
    sch = Schedule(programs.matmul(12, 7, 6)[0], seed=0)
    i = sch.get_loop("C", 0)
    sch.split(i, sch.sample_perfect_tile(i, 2, decision=[3, 4]))
    sch.annotate(sch.get_loop("C", 1), "note", sch.sample_categorical([1, 2], [1, 1], decision=0))
    assert str(sch.trace) == (
        "v0, v1 = sch.sample_perfect_tile(sch.get_loop('C', 0), 2, decision=[3, 4])\n"
        "sch.split(sch.get_loop('C', 0), [v0, v1])\n"
        "v2 = sch.sample_categorical([1, 2], [1, 1], decision=0)\n"
        "sch.annotate(sch.get_loop('C', 1), 'note', v2)\n"
    )
    assert sch.trace.decisions == {0: (3, 4), 2: 0}
    args = programs.matmul(12, 7, 6)[0]
    other = sch.trace.apply_to_schedule(Schedule(args), decisions={0: [6, 2], 2: 1})
    assert [sch.extent(x) for x in sch.get_loops("C")] == [3, 4, 7, 6]
    assert [other.extent(x) for x in other.get_loops("C")] == [6, 2, 7, 6]
    assert "# note = 2" in str(other)
    assert str(sch.trace.with_decision(0, [6, 2]).with_decision(2, 1)) == str(other.trace)
    drawn = {
        sch.trace.apply_to_schedule(Schedule(args, seed=s), decisions={0: None}).trace.decisions[0] for s in range(30)
    }
    assert len(drawn) > 3


def test_numbers_that_were_drawn_elsewhere_are_plain_numbers(programs: Any) -> None:
    one, other = Schedule(programs.matmul()[0], seed=0), Schedule(programs.matmul()[0])
    drawn = one.sample_categorical([2], [1])
    other.split(other.get_loop("C", 0), factor=drawn)
    assert str(other.trace) == "sch.split(sch.get_loop('C', 0), factor=2)\n"
    follows = one.copy()
    follows.split(follows.get_loop("C", 0), factor=drawn)
    assert "factor=v0" in str(follows.trace)


def test_a_simplified_trace_leaves_out_what_was_drawn_for_nothing(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0], seed=0)
    sch.sample_categorical([1, 2], [1, 1])
    used = sch.sample_categorical([3], [1])
    sch.annotate("C", "note", used)
    sch.sample_perfect_tile(sch.get_loop("C", 0), 2)
    short = sch.trace.simplified()
    assert len(short) == 2
    assert str(short.apply(Schedule(programs.matmul()[0]))) == str(sch)


def test_copies_draw_the_same_and_seeds_start_anew(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0], seed=5)
    sch.sample_categorical(list(range(100)), [1] * 100)
    other = sch.copy()
    assert sch.sample_categorical(list(range(100)), [1] * 100) == other.sample_categorical(list(range(100)), [1] * 100)
    sch.seed(9)
    first = sch.sample_categorical(list(range(1000)), [1] * 1000)
    sch.seed(9)
    assert sch.sample_categorical(list(range(1000)), [1] * 1000) == first


MISUSES: list[tuple[Any, str]] = [
    (lambda s, i: s.sample_perfect_tile(i, 0), "n = 0 is not a number of factors"),
    (lambda s, i: s.sample_perfect_tile(i, 1, 4), "the only factor is the extent 5, more than 4"),
    (lambda s, i: s.sample_perfect_tile(i, 2, decision=[2, 2]), r"the decision \[2, 2\] is not one of the lists"),
    (lambda s, i: s.sample_perfect_tile(i, 2, decision=[1, 5], max_innermost_factor=4), "is not one of the lists"),
    (lambda s, i: s.sample_categorical([], []), "0 candidates but 0 probabilities"),
    (lambda s, i: s.sample_categorical([1, 2], [1.0]), "2 candidates but 1 probabilities"),
    (lambda s, i: s.sample_categorical([1, 2], [1.0, -1.0]), "give numbers from 0 up"),
    (lambda s, i: s.sample_categorical([1, 2], [1.0, float("nan")]), "give numbers from 0 up"),
    (lambda s, i: s.sample_categorical([1, 2], [0.0, 0.0]), "not all of them 0"),
    (lambda s, i: s.sample_categorical([1, 2], [1, 1], decision=2), "there is no candidate 2"),
    (lambda s, i: s.sample_compute_location("C", decision=0), "0 is not a legal place for it"),
]


@pytest.mark.parametrize(("call", "why"), MISUSES)
def test_decisions_that_cannot_be_are_refused(call: Any, why: str, programs: Any) -> None:
    sch = Schedule(programs.matmul()[0], seed=1)
    state = sch.rng.getstate()
    with pytest.raises(ScheduleError, match=why):
        call(sch, sch.get_loop("C", 0))
    assert sch.rng.getstate() == state
    assert len(sch.trace) == 0


def test_decisions_for_steps_that_draw_nothing_are_refused(programs: Any) -> None:
    sch = _sampled(programs.matmul_relu()[0], 1)
    with pytest.raises(
        ScheduleError, match=r"step 1 of the trace is not a sampling step; the sampling steps are 0, 2, 4"
    ):
        sch.trace.apply_to_schedule(Schedule(programs.matmul_relu()[0]), decisions={1: 3})
    with pytest.raises(ScheduleError, match="drew no result 0"):
        Trace.from_json([["split", [{"loop": ["C", 0]}], {"factor": {"drawn": [4, 0]}}]]).apply(sch)


def test_a_sampled_loop_equals_any_other_handle_of_it(programs: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    loop = sch.sample_compute_location("D", decision=0)
    assert isinstance(loop, LoopRef)
    assert loop == sch.get_loop("E", 0)
    assert hash(loop) == hash(sch.get_loop("E", 0))


def test_inner_factors_of_a_partitioned_tile_are_a_multiple(programs: Any) -> None:
    args = programs.matmul(16, 7, 6)[0]
    sch = Schedule(args, seed=3)
    i = sch.get_loop("C", 0)
    drawn = Counter(tuple(sch.sample_partitioned_tile(i, 3, 2, 4)) for _ in range(400))
    assert set(drawn) == {f for f in _all_factorizations(16, 3) if f[2] % 4 == 0}
    assert min(drawn.values()) > 30
    assert all(len(sch.sample_partitioned_tile(i, 2)) == 2 for _ in range(8))


def test_a_partitioned_tile_is_replayed_with_another_decision(programs: Any) -> None:
    args = programs.matmul(16, 7, 6)[0]
    sch = Schedule(args, seed=3)
    i = sch.get_loop("C", 0)
    sch.split(i, sch.sample_partitioned_tile(i, 2, 1, 4, decision=[2, 8]))
    trace = Trace.from_json(sch.trace.to_json())
    assert str(trace).splitlines()[1] == "sch.split(sch.get_loop('C', 0), [v0, v1])"
    other = trace.apply_to_schedule(Schedule(args), decisions={0: [4, 4]})
    assert [other.extent(x) for x in other.get_loops("C")[:2]] == [4, 4]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [((2, 1, 3), "does not divide"), ((2, 2, 4), "partition_pos = 2"), ((2, 1, 4, [8, 2]), "is not one of the lists")],
)
def test_partitioned_tiles_that_cannot_be_are_refused(arguments: Any, why: str, programs: Any) -> None:
    sch = Schedule(programs.matmul(16, 7, 6)[0])
    with pytest.raises(ScheduleError, match=why):
        sch.sample_partitioned_tile(sch.get_loop("C", 0), *arguments)
    assert len(sch.trace) == 0
