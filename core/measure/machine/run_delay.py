"""Run delay: the time in which threads of this process could have run, but waited for a core that others used.

Linux counts it for each thread, in nanoseconds, as the second number of /proc/PID/task/TID/schedstat. Elsewhere it is
unknown, and nothing is reported or subtracted.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pegbox.measure.machine.busiest import LEAST_LOAD
from pegbox.workers.affinity import affinity_mask

OWN = "/proc/thread-self/schedstat"
ALL = "/proc/self/task"
STAT = "/proc/stat"

_QUIET = 0.02
"""The share of a timing up to which computing by the process's other threads counts as unrelated."""

_MOMENT, _PATIENCE = 0.25, 5.0
"""The seconds that must be quiet, and the longest wait for them."""


class Reading(NamedTuple):
    """The nanoseconds of this thread's run-queue wait and of other threads' computing, and the clock before and after
    reading them.

    The thread may lose its core between the counters and the clock: the time from one reading's `clock` to a later
    one's `ended` includes all waits that the counters count in between.
    """

    clock: int
    run_queue_wait: int
    others: int
    ended: int


def on_core(run: Callable[[], int], read: Callable[[], Reading | None] | None = None) -> int:
    """Return the nanoseconds of `run`, by its own clock, minus those in which this thread waited for its core.

    Waits before `run` started its clock and after it stopped it do not count: the time that passed there by our clock
    is not subtracted. Nothing is subtracted if other threads computed too, because the cost of the wait is then
    unknown.
    """
    read = read or reading
    before = read()
    spent = run()
    after = read() if before is not None else None
    return spent if before is None or after is None else spent - _run_queue_wait(spent, before, after)


def _run_queue_wait(spent: int, before: Reading, after: Reading) -> int:
    passed = after.ended - before.clock
    if after.others - before.others > _QUIET * passed or spent > passed:  # `spent` comes from another clock
        return 0
    run_queue_wait = after.run_queue_wait - before.run_queue_wait - (passed - spent)
    return min(max(run_queue_wait, 0), spent)


def reading() -> Reading | None:
    """Read the counters of the calling thread; None if the system does not count."""
    clock = time.perf_counter_ns()
    run_queue_wait = _delay(OWN)
    if run_queue_wait is None:
        return None
    others = time.process_time_ns() - time.thread_time_ns()
    return Reading(clock, run_queue_wait, others, time.perf_counter_ns())


class WaitMeter:
    """A meter of the time that threads of this process wait for cores that other programs use."""

    def __init__(self) -> None:
        self._cores = affinity_mask()
        self._began, self._delays = time.perf_counter_ns(), _all_delays()
        self._load = self._read_load()

    def share(self) -> float:
        """Return the share of the time since the start in which threads waited, at most 1; 0 if unknown.

        Threads of a kernel also wait for each other if the scheduler puts two of them on one core and leaves another
        idle. So the share is at most that of other programs' computing on these cores.
        """
        passed = max(1, time.perf_counter_ns() - self._began)
        run_queue_wait = sum(delay - self._delays.get(thread, 0) for thread, delay in _all_delays().items())
        if len(self._cores) > 1:
            run_queue_wait = min(run_queue_wait, self._others(passed))
        return min(1.0, max(0.0, run_queue_wait / passed))

    def others(self) -> float:
        """Return the average number of cores that other programs used since; 0 for a single core, or if unknown."""
        passed = max(1, time.perf_counter_ns() - self._began)
        return max(0.0, self._others(passed) / passed)

    def _others(self, passed: int) -> int:
        """Count the nanoseconds that other programs computed on the cores; 0 if unknown."""
        before, after = self._load, self._read_load()
        if before is None or after is None:
            return 0
        (idle, own), (idle_now, own_now) = before, after
        return passed * len(self._cores) - (idle_now - idle) - (own_now - own)

    def _read_load(self) -> tuple[int, int] | None:
        """Read the nanoseconds of idle cores, and of this process; None for a single core, or if unknown."""
        idle = _idle(self._cores) if len(self._cores) > 1 else None
        return None if idle is None else (idle, time.process_time_ns())


def wait_until_quiet(sleep: Callable[[float], None] = time.sleep) -> None:
    """Wait at most five seconds for a quarter of a second in which other programs leave the cores alone."""
    for _ in range(round(_PATIENCE / _MOMENT)):
        meter = WaitMeter()
        sleep(_MOMENT)
        if meter.others() < LEAST_LOAD:
            return


def _idle(cores: Sequence[int]) -> int | None:
    """Sum the nanoseconds that these cores were idle, in steps of a hundredth of a second."""
    try:
        with open(STAT, "rb") as file:
            lines = {fields[0]: fields for line in file if line.startswith(b"cpu") and (fields := line.split())}
        ticks = sum(int(lines[b"cpu%d" % core][4]) + int(lines[b"cpu%d" % core][5]) for core in cores)
    except (OSError, ValueError, LookupError):
        return None
    return ticks * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))


def _all_delays() -> dict[str, int]:
    """Read the delays of all threads by their number."""
    found: dict[str, int] = {}
    with contextlib.suppress(OSError):
        for thread in os.listdir(ALL):
            if (delay := _delay(f"{ALL}/{thread}/schedstat")) is not None:
                found[thread] = delay
    return found


def _delay(path: str) -> int | None:
    # Open it each time: a candidate may close any descriptor, and a forked process would read its parent's.
    try:
        file = os.open(path, os.O_RDONLY)
        try:
            return int(os.read(file, 128).split()[1])
        finally:
            os.close(file)
    except (OSError, ValueError, IndexError):
        return None
