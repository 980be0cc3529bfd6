"""Random cases run in child processes: one that crashes or hangs is reported, and the others go on."""

from __future__ import annotations

import os
import signal
import time

import pytest
from fuzz.batches import run_batches
from fuzz.cases import CaseFailed, Tally


def work(key: str, tally: Tally) -> None:
    match key:
        case "fails":
            raise CaseFailed("another value")
        case "has a defect":
            raise ValueError("what a report has not expected")
        case "crashes":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exits":
            os._exit(3)
        case "hangs":
            time.sleep(600)
    tally.cases += 1


ENDS = {
    "fails": "another value",
    "has a defect": "cannot be reported:.*ValueError: what a report has not expected",
    "crashes": f"case crashes ended its process with status -{int(signal.SIGKILL)}",
    "exits": "case exits ended its process with status 3",
    "hangs": "case hangs took more than 0.5 s",
}


@pytest.mark.parametrize("jobs", [1, 3])
def test_what_ends_a_process_is_reported_and_the_others_go_on(jobs: int) -> None:
    keys = [f"passes {n}" for n in range(9)]
    for place, end in enumerate(ENDS):
        keys.insert(2 * place + 1, end)
    outcomes = list(run_batches(keys, work, jobs=jobs, batch=4, seconds=0.5))
    assert sorted(outcome.key for outcome in outcomes) == sorted(keys)
    assert {outcome.key for outcome in outcomes if outcome.failure} == set(ENDS)
    assert sum(outcome.tally.cases for outcome in outcomes) == 9


@pytest.mark.parametrize("end", ENDS)
def test_a_report_says_how_the_case_ended(end: str) -> None:
    (outcome,) = run_batches([end], work, seconds=0.5)
    assert outcome.key == end
    parts = ENDS[end].split(".*")
    assert all(part in outcome.failure for part in parts)


def test_cases_that_are_left_are_ended_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    fork, started = os.fork, []

    def recorded() -> int:
        if pid := fork():
            started.append(pid)
        return pid

    monkeypatch.setattr(os, "fork", recorded)
    running = run_batches(["passes", "hangs"], work)
    assert not next(running).failure
    running.close()  # type: ignore[attr-defined]
    assert started
    for pid in started:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
