"""Searches that are interrupted or killed, and searches whose processes are: nothing hangs, and nothing is left behind.

`PEGBOX_KILLS=10 python3 -m pytest tests/measure/test_kills.py` adds the slow ones, with so many kills in a search.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pegbox.measure import LocalMeasurer
from tests.measure.adding_task import AddingConfig, AddingTask

HERE = Path(__file__).parent
KILLS = int(os.environ.get("PEGBOX_KILLS", "0"))
LONG = 60.0
"""Seconds that nothing takes here unless it hangs."""

GONE_SECONDS = 15.0
"""The promised limit for the end of all processes."""

TOKEN = "PEGBOX_TEST_RUN"
slow = pytest.mark.skipif(not KILLS, reason="set PEGBOX_KILLS=10 to run them")

SCRIPT = textwrap.dedent(f"""
    import sys
    sys.path[:0] = [{str(HERE)!r}]
    from adding_task import AddingConfig, AddingTask
    from pegbox.measure import LocalMeasurer
    from pegbox.testing import llvm_kernels as kernels
    # One builder: with two, the endless one may be built, and so run, before the other.
    with LocalMeasurer(AddingTask(), timeout=500.0, best=100.0, builders=1) as measurer:
        try:
            for config, result in measurer.measure([AddingConfig("a"), AddingConfig("b", kernels.endless)]):
                print(config.name, result.ok, flush=True)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    print("closed", flush=True)
""")
"""A script without a `__main__` guard, as users write them."""


class Run:
    """A script in an endless candidate, with a folder of its own for temporary files."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._token = folder, secrets.token_hex(8)
        self.process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, TOKEN: self._token, "TMPDIR": str(folder)},
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "a True\n"

    def others(self) -> set[int]:
        """Its processes but the first, by their environment; those that have ended have none."""
        entry = f"{TOKEN}={self._token}".encode()
        return {pid for pid in processes() if entry in read(pid, "environ").split(b"\0")} - {self.process.pid}

    def left(self) -> tuple[set[int], list[str]]:
        """Return the processes that remain when there should be none, after waiting for them to end."""
        end = time.monotonic() + GONE_SECONDS
        while any(found := (self.others(), os.listdir(self.folder))) and time.monotonic() < end:
            time.sleep(0.01)
        return found

    def close(self) -> None:
        self.process.kill()
        for pid in self.others():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.communicate()


def processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def parents_of(pid: int) -> Iterator[int]:
    """The parent of a process, that one's, and so on."""
    while (stat := read(pid, "stat")) and (pid := int(stat.rpartition(b")")[2].split()[1])):
        yield pid


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    begun = Run(tmp_path)
    yield begun
    begun.close()


def nothing(run: Run) -> None:
    """The candidate is endless as it is."""


def stop_all(run: Run) -> None:
    """The candidate's process, builders, supervisors, the server, the watchdog."""
    for pid in run.others():
        os.kill(pid, signal.SIGSTOP)


def stop_the_server(run: Run) -> None:
    for pid in run.others():
        if b"fork_server" in read(pid, "cmdline") and run.process.pid in list(parents_of(pid))[:1]:
            os.kill(pid, signal.SIGSTOP)


def kill_the_watchdog(run: Run) -> None:
    for pid in run.others():
        if b"descendants.py" in read(pid, "cmdline"):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    "trouble",
    [
        nothing,
        stop_all,
        pytest.param(stop_the_server, marks=slow),
        pytest.param(kill_the_watchdog, marks=slow),
    ],
)
def test_ctrl_c_ends_everything(run: Run, trouble: Callable[[Run], None]) -> None:
    assert len(run.others()) >= 6  # a builder, two runners and their supervisors: some may be about to start
    trouble(run)
    os.killpg(run.process.pid, signal.SIGINT)  # as a terminal does: to the whole foreground group
    out, err = run.process.communicate(timeout=GONE_SECONDS)
    assert (out, err) == ("interrupted\nclosed\n", "")
    assert run.others() == set()
    assert os.listdir(run.folder) == []


@pytest.mark.parametrize(
    ("number", "trouble"),
    [
        (signal.SIGKILL, stop_all),
        pytest.param(signal.SIGKILL, nothing, marks=slow),
        pytest.param(signal.SIGKILL, stop_the_server, marks=slow),
        pytest.param(signal.SIGTERM, nothing, marks=slow),
        pytest.param(signal.SIGTERM, stop_all, marks=slow),
        pytest.param(signal.SIGHUP, nothing, marks=slow),
        pytest.param(signal.SIGHUP, stop_all, marks=slow),
    ],
)
def test_a_killed_search_leaves_nothing(run: Run, number: int, trouble: Callable[[Run], None]) -> None:
    trouble(run)
    run.process.send_signal(number)
    run.process.wait(GONE_SECONDS)
    assert run.left() == (set(), [])


@slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_search_outlives_its_processes(number: int) -> None:
    chance = random.Random(0)
    measured, done, hit = threading.Event(), threading.Event(), 0

    def strike() -> None:
        nonlocal hit
        while not done.is_set():
            measured.wait(LONG)  # on a busy machine, the next hits would meet each server before it has started
            measured.clear()
            ours = [pid for pid in processes() if os.getpid() in parents_of(pid)]
            # the server, and what it has forked: supervisors, builders, runners
            if targets := [pid for pid in ours if b"fork_server" in read(pid, "cmdline")]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(chance.choice(targets), number)
                    hit += 1
            done.wait(chance.uniform(0.5, 2.0))

    striker = threading.Thread(target=strike)
    striker.start()
    try:
        with LocalMeasurer(AddingTask(), min_repeat_ms=0.1, timeout=1.0) as measurer:
            results = 0
            while hit < KILLS:
                for _ in measurer.measure([AddingConfig(f"{results + each}") for each in range(8)]):
                    measured.set()
                    results += 1
    finally:
        done.set()
        measured.set()
        striker.join()
    assert results >= 8
