"""The limit of a candidate's calls, in the process that runs it."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

_BODY = "import time\nfrom pegbox.measure.jobs.run_job import alarm\nwith alarm({limit}):\n    {body}\n"


@pytest.mark.parametrize(
    ("limit", "body", "status"),
    [
        ("0.05", "time.sleep(0.2)", 0),
        ("0.05", "\n    while True: pass", -signal.SIGPROF),
        ("0.01", "time.sleep(600)", -signal.SIGALRM),
        ("0.2, threads=100", "\n    while time.process_time() < 0.3: pass", 0),
        ("float('inf')", "pass", 0),
    ],
)
def test_calls_are_limited_by_the_time_that_they_compute(limit: str, body: str, status: int) -> None:
    program = _BODY.format(limit=limit, body=body)
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == status


def test_an_alarm_ends_with_its_body() -> None:
    program = _BODY.format(limit="0.05", body="pass") + "while time.process_time() < 1: pass"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0
