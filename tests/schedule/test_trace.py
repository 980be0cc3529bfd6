"""The trace: plain values that do the same again."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from pegbox.errors import ScheduleError
from pegbox.schedule import Schedule, Trace


def _scheduled(args: Any) -> Schedule:
    sch = Schedule(args)
    i, j, k = sch.get_loops("C")
    i_0, i_1 = sch.split(i, factor=2)
    j_0, j_1 = sch.split(j, factors=[None, 4], names=["jo", "ji"])
    k_0, k_1 = sch.split(k, nparts=3)
    sch.reorder(i_0, j_0, k_0, i_1, k_1, j_1)
    back = sch.cache_write("C", 0, "local")
    sch.reverse_compute_at(back, j_0)
    sch.compute_at(sch.cache_read("C", "A", consumer_blocks=["C"]), k_0)
    sch.vectorize(j_1)
    sch.unroll(i_1)
    sch.pragma(i_0, "unroll_explicit", True)
    sch.decompose_reduction("C", k_0)
    sch.parallel(sch.fuse(i_0, j_0))
    sch.annotate(back, "note", "x")
    return sch


def test_the_trace_prints_as_python(programs: Any, golden: Any) -> None:
    sch = _scheduled(programs.matmul()[0])
    golden(sch.trace)
    again = Schedule(programs.matmul()[0])
    exec(str(sch.trace), {"sch": again})
    assert str(again) == str(sch)


def test_the_trace_does_the_same_again(programs: Any) -> None:
    sch = _scheduled(programs.matmul()[0])
    again = sch.trace.apply(Schedule(programs.matmul()[0]))
    assert str(again) == str(sch)
    assert again.trace == sch.trace


def test_the_trace_survives_json_and_pickle(programs: Any) -> None:
    trace = _scheduled(programs.matmul()[0]).trace
    assert Trace.from_json(json.dumps(trace.to_json())) == trace
    assert pickle.loads(pickle.dumps(trace)) == trace


def test_the_trace_fits_other_shapes_of_the_same_computation(programs: Any, check_values: Any) -> None:
    args, reference = programs.matmul(9, 4, 5)
    sch = _scheduled(programs.matmul()[0]).trace.apply(Schedule(args))
    check_values(sch, reference)


def test_a_refused_step_is_not_recorded(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    with pytest.raises(ScheduleError):
        sch.parallel(sch.get_loop("C", 2))
    assert len(sch.trace) == 0


def test_a_step_that_does_not_fit_is_named(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    sch.split(sch.get_loop("C", 0), factor=2)
    sch.unroll(sch.get_loop("C", 3))
    with pytest.raises(ScheduleError, match=r"step 1 of 2 of the trace, sch.split\(.*no block is called 'C'"):
        sch.trace.apply(Schedule(programs.rows()[0]))


@pytest.mark.parametrize("data", ["[1]", [["copy"]], 5, [[3, [], {}]], [["split", [{"x": 1}], {}]]])
def test_what_is_no_trace_is_refused(data: Any) -> None:
    with pytest.raises(ScheduleError, match="not a schedule trace"):
        Trace.from_json(data)


def test_a_trace_calls_nothing_but_primitives(programs: Any) -> None:
    trace = Trace.from_json([["show", [], {}]])
    with pytest.raises(ScheduleError, match="no primitive is called 'show'"):
        trace.apply(Schedule(programs.matmul()[0]))


def test_copies_go_separate_ways(programs: Any) -> None:
    sch = Schedule(programs.matmul()[0])
    sch.unroll(sch.get_loop("C", 2))
    other = sch.copy()
    other.parallel(other.get_loop("C", 0))
    assert [len(sch.trace), len(other.trace)] == [1, 2]
    assert "parallel" not in str(sch)


def test_steps_of_postprocessing_may_be_left_out(programs: Any) -> None:
    args = programs.matmul()[0]
    sch = Schedule(args, seed=1)
    i, j, _ = sch.get_loops("C")
    sch.split(i, sch.sample_perfect_tile(i, 2))
    before = sch.mod
    sch.enter_postproc()
    assert sch.mod == before
    sch.vectorize(j)
    trace = Trace.from_json(json.loads(json.dumps(sch.trace.to_json())))
    assert [s.primitive for s in trace.simplified(remove_postproc=True)] == ["sample_perfect_tile", "split"]
    assert len(trace.simplified()) == 4
    assert trace.apply_to_schedule(Schedule(args), remove_postproc=True).mod == before
    assert trace.apply_to_schedule(Schedule(args)).mod == sch.mod


def test_a_forked_seed_follows_from_the_seed_and_is_another_one(programs: Any) -> None:
    args = programs.matmul()[0]
    forks = [sch.fork_seed() for sch in (Schedule(args, seed=5), Schedule(args, seed=5), Schedule(args, seed=6))]
    assert forks[0] == forks[1] != forks[2]
    sch = Schedule(args, seed=5)
    assert len({sch.fork_seed() for _ in range(8)}) == 8
    assert len(sch.trace) == 0
