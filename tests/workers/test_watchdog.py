"""The files and processes that a process leaves are cleared away, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pegbox.workers import watchdog
from pegbox.workers.descendants import state_of

SECONDS = 30.0

needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")


def until(condition: Callable[[], bool]) -> bool:
    """Tell whether it becomes true before long."""
    deadline = time.monotonic() + SECONDS
    while not (held := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return held


def gone(pid: int) -> bool:
    """Tell whether a process ends (a zombie has) before long."""

    def ended() -> bool:
        try:
            return state_of(f"/proc/{pid}") == b"Z"
        except OSError:
            return True

    return until(ended)


HEAD = """
    import os, signal, subprocess, sys, time
    from pegbox.workers import watchdog
    from pegbox.workers.descendants import MARK

    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup leaves it ignored

    def kept():
        folder = os.path.join(sys.argv[1], "kept")
        os.mkdir(folder)
        watchdog.guard(folder)

    def left():
        command = [sys.executable, "-c", "import os; os.kill(os.getpid(), 19)"]
        process = subprocess.Popen(command, env={**os.environ, MARK: watchdog.new_mark()}, start_new_session=True)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        return process.pid

    def shown(*pids):
        print(*pids, watchdog._running[0].pid, flush=True)
        time.sleep(1000)
"""


def client(script: str, folder: Path) -> tuple[subprocess.Popen[str], list[int]]:
    """A process that has run a script, and the numbers that it printed."""
    code = textwrap.dedent(HEAD) + textwrap.dedent(script)
    process = subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, [int(pid) for pid in process.stdout.readline().split()]


def ready(watchdog: int) -> None:
    """Wait until it has started: it ignores SIGTERM then."""

    def ignored() -> int:
        status = Path(f"/proc/{watchdog}/status").read_text()
        return int(status.split("SigIgn:")[1].split()[0], 16)

    assert until(lambda: bool(ignored() >> (signal.SIGTERM - 1) & 1))


def end(process: subprocess.Popen[str], number: int) -> None:
    process.send_signal(number)
    process.wait(SECONDS)
    assert process.stdout is not None
    process.stdout.close()


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_stopped_processes_and_folders_go_with_their_client(number: int, tmp_path: Path) -> None:
    process, pids = client("kept(); shown(left())", tmp_path)
    assert (tmp_path / "kept").is_dir()
    end(process, number)
    assert all(gone(pid) for pid in pids)
    assert os.listdir(tmp_path) == []


@needs_proc
def test_a_watchdog_that_is_stopped_does_its_work_all_the_same(tmp_path: Path) -> None:
    process, pids = client("kept(); shown(left())", tmp_path)
    ready(pids[-1])
    os.kill(pids[-1], signal.SIGSTOP)
    end(process, signal.SIGKILL)
    assert all(gone(pid) for pid in pids)
    assert os.listdir(tmp_path) == []


@needs_proc
@pytest.mark.parametrize("use", ["left()", "watchdog.guard('/nowhere')", "watchdog.release('/nowhere')"])
def test_one_that_is_killed_is_replaced_at_the_next_use(use: str, tmp_path: Path) -> None:
    script = f"""
        kept()
        watchdog._running[0].kill()
        os.waitid(os.P_PID, watchdog._running[0].pid, os.WEXITED | os.WNOWAIT)
        {use}
        shown()
    """
    process, (pid,) = client(script, tmp_path)
    assert state_of(f"/proc/{pid}") in b"SR"
    end(process, signal.SIGKILL)
    assert until(lambda: os.listdir(tmp_path) == [])


@needs_proc
def test_signals_that_end_other_processes_do_not_end_it(tmp_path: Path) -> None:
    process, (pid,) = client("kept(); shown()", tmp_path)
    ready(pid)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        os.kill(pid, number)
    end(process, signal.SIGTERM)
    assert until(lambda: os.listdir(tmp_path) == [])


def test_a_folder_that_is_released_stays(tmp_path: Path) -> None:
    process, (pid,) = client("kept(); watchdog.release(os.path.join(sys.argv[1], 'kept')); shown()", tmp_path)
    end(process, signal.SIGTERM)
    assert gone(pid)
    assert os.listdir(tmp_path) == ["kept"]


@needs_proc
def test_nothing_is_left_when_a_client_has_ended_by_itself(tmp_path: Path) -> None:
    process, (pid, own) = client("kept(); print(left(), watchdog._running[0].pid, flush=True)", tmp_path)
    end(process, 0)
    assert all(not Path(f"/proc/{each}").exists() or state_of(f"/proc/{each}") == b"Z" for each in (pid, own))
    assert os.listdir(tmp_path) == []


@needs_proc
def test_the_end_of_a_fork_leaves_what_is_its_parents(tmp_path: Path) -> None:
    script = """
        kept()
        pid = left()
        if fork := os.fork():
            os.waitpid(fork, 0)
            shown(pid)
        watchdog.new_mark()  # it has a watchdog of its own
        watchdog._end()
        os._exit(0)
    """
    process, pids = client(script, tmp_path)
    assert state_of(f"/proc/{pids[0]}") == b"T"
    assert os.listdir(tmp_path) == ["kept"]
    end(process, signal.SIGKILL)
    assert all(gone(pid) for pid in pids)


def test_marks_of_one_process_begin_alike_and_differ() -> None:
    first, second = watchdog.new_mark(), watchdog.new_mark()
    half = watchdog.MARK_LENGTH // 2
    assert len(first) == len(second) == watchdog.MARK_LENGTH
    assert first[:half] == second[:half]
    assert first != second
