"""The answers of a process that runs candidates are compared with the questions, field by field."""

from __future__ import annotations

import json
import math
import pickle
from typing import Any

import pytest

from pegbox.measure import Failed, FailureKind, Ok, TimingPolicy
from pegbox.measure.jobs.reply import Asked, of_build, of_result, read_build, read_lowered, read_refusal
from pegbox.testing import llvm_kernels as kernels
from pegbox.workers.channel import BrokenReply

ASKED = Asked(TimingPolicy(repeats=3, max_repeats=5, rounds=4), best=1e-3, seconds=0.5)
GOOD = {
    "costs": [1e-3, 2e-3, 3e-3],
    "partial": False,
    "phases": {"load": 0.1, "timing": 0.2},
    "run_queue_wait": 0.5,
    "error": 1e-7,
}
FAILED = {"failed": int(FailureKind.WRONG_RESULT), "message": "it is 7", "phases": {"check": 0.1}}


def sent(value: Any) -> Any:
    """Return the reply that arrives when JSON is sent."""
    return json.loads(json.dumps(value))


@pytest.mark.parametrize(
    "result",
    [
        Ok((1e-3, 2e-3), phases={"load": 0.1, "first_run": 0.0}),
        Ok((1e-2,), partial=True, run_queue_wait=0.25, error=3e-6),
        Failed(FailureKind.RUN_ERROR, "out of memory", phases={"load": 0.25}),
        Failed(FailureKind.WRONG_RESULT, "7 instead of 8"),
    ],
)
def test_results_come_as_they_were(result: Ok | Failed) -> None:
    assert ASKED.result(sent(of_result(result))) == result


@pytest.mark.parametrize(
    "change",
    [
        {"costs": []},
        {"costs": [1e-3] * 6},
        {"costs": [0.0]},
        {"costs": [-1e-3]},
        {"costs": [0.7]},
        {"costs": [1]},
        {"costs": [True]},
        {"costs": ["1e-3"]},
        {"costs": "1"},
        {"costs": {"0": 1e-3}},
        {"costs": [math.nan]},
        {"costs": [10**400]},
        {"partial": True},
        {"run_queue_wait": 1.5},
        {"run_queue_wait": True},
        {"error": -1e-7},
        {"error": math.nan},
        {"error": "small"},
        {"partial": 1},
        {"phases": []},
        {"phases": {"nap": 0.1}},
        {"phases": {"lower": 0.1}},
        {"phases": {"build": 0.1}},
        {"phases": {"load": -0.1}},
        {"phases": {"load": 0.7}},
        {"phases": {"load": math.inf}},
        {"phases": {"load": [0.1]}},
        {"more": 1},
        {"failed": 3},
    ],
)
def test_a_result_that_the_trial_cannot_have_given_is_broken(change: dict[str, Any]) -> None:
    assert isinstance(ASKED.result(GOOD), Ok)
    with pytest.raises(BrokenReply):
        ASKED.result({**GOOD, **change})


@pytest.mark.parametrize(
    "change",
    [
        {"failed": int(FailureKind.INVALID)},
        {"failed": int(FailureKind.NOT_RECORDED)},
        {"failed": 99},
        {"failed": 5.0},
        {"failed": True},
        {"failed": [5]},
        {"message": None},
        {"message": "x" * 10_001},
        {"phases": {"build": 0.1}},
        {"phases": {"lower": 0.1}},
    ],
)
def test_a_failure_that_the_trial_cannot_have_given_is_broken(change: dict[str, Any]) -> None:
    assert isinstance(ASKED.result(FAILED), Failed)
    with pytest.raises(BrokenReply):
        ASKED.result({**FAILED, **change})


@pytest.mark.parametrize("data", [None, 7, "Ok", [], {}, [GOOD], {"costs": [1e-3]}, b"Ok"])
def test_what_is_no_result_is_broken(data: Any) -> None:
    with pytest.raises(BrokenReply):
        ASKED.result(data)


def test_nothing_is_dropped_for_being_behind_where_there_is_no_best() -> None:
    dropped = {**GOOD, "costs": [0.1], "partial": True}
    assert isinstance(ASKED.result(dropped), Ok)
    with pytest.raises(BrokenReply):
        Asked(ASKED.policy, best=math.inf, seconds=0.5).result(dropped)


def test_candidates_that_took_turns_have_a_result_each_and_as_many_costs() -> None:
    assert len(ASKED.results([GOOD, GOOD], 2)) == 2
    assert [result.ok for result in ASKED.results([FAILED, GOOD], 2)] == [False, True]
    crashed = {**FAILED, "failed": int(FailureKind.RUN_ERROR)}
    fewer = {**GOOD, "costs": [1e-3]}
    dropped = {**fewer, "partial": True}
    for data in ([GOOD], [GOOD, fewer], [GOOD, crashed], [dropped, dropped], GOOD, None, [GOOD] * 3):
        with pytest.raises(BrokenReply):
            ASKED.results(data, 2)


def test_a_message_that_cannot_be_printed_is_made_printable() -> None:
    found = ASKED.result({**FAILED, "message": "\ud800"})
    assert isinstance(found, Failed)
    assert found.message == "?"


def test_builds_come_as_they_were() -> None:
    source = kernels.good()
    compiled = kernels.compiled(source)
    assert read_build(of_build(compiled), source) == compiled
    failed = Failed(FailureKind.COMPILE_ERROR, "no such instruction")
    assert read_build(sent(of_build(failed)), source) == failed


@pytest.mark.parametrize("data", [b"", b"1234567", None, GOOD, FAILED, "text"])
def test_what_is_no_build_is_broken(data: Any) -> None:
    with pytest.raises(BrokenReply):
        read_build(data, kernels.good())


def test_a_phase_counts_where_the_job_has_it() -> None:
    lowered = sent(of_result(Failed(FailureKind.COMPILE_ERROR, "no such instruction", phases={"lower": 0.1})))
    assert read_lowered(lowered) == read_refusal(lowered)
    with pytest.raises(BrokenReply, match="phases"):
        read_build(lowered, kernels.good())
    with pytest.raises(BrokenReply, match="phases"):
        read_refusal({**lowered, "phases": {"timing": 0.1}})


@pytest.mark.parametrize("data", [b"garbage", pickle.dumps(5)])
def test_a_lowered_program_that_is_none_is_a_broken_reply(data: bytes) -> None:
    with pytest.raises(BrokenReply, match="it is not a program"):
        read_lowered(data)
