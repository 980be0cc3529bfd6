"""Processes that candidates leave behind are found also while they change their program."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pegbox.workers import descendants


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, descendants.MARK: "test-of-descendants"}
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env=environment) as process:
        yield process
        process.kill()


def test_a_marked_process_is_killed(sleeper: subprocess.Popen[bytes]) -> None:
    descendants.kill_marked("test-of-descendants")
    assert sleeper.wait(30) < 0


def test_one_whose_environment_is_empty_for_a_moment_is_looked_at_again(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    read, asked = descendants._read, []

    def empty_at_first(path: str) -> bytes:
        if path == f"/proc/{sleeper.pid}/environ" and not asked:
            asked.append(path)
            return b""
        return read(path)

    monkeypatch.setattr(descendants, "_read", empty_at_first)
    descendants.kill_marked("test-of-descendants")
    assert asked
    assert sleeper.wait(30) < 0


def test_what_has_ended_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert descendants._has_ended(f"/proc/{ended.pid}")
    assert not descendants._has_ended(f"/proc/{os.getpid()}")
    ended.wait()
