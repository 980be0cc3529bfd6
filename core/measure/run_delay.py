"""Run delay: the time that threads of this process could have run and waited for a core, which others had.

Linux counts it for each thread, in nanoseconds, as the second number of /proc/PID/task/TID/schedstat. Elsewhere it is
not known, and nothing is said of it or subtracted.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import NamedTuple

OWN = "/proc/thread-self/schedstat"
ALL = "/proc/self/task"

_QUIET = 0.02
"""Of a timing: other threads of the process that compute for no more than that have not taken part."""


class Reading(NamedTuple):
    """Nanoseconds: of the clock, that this thread has waited for a core, and that other threads have computed."""

    clock: int
    waited: int
    others: int


def on_core(run: Callable[[], int], read: Callable[[], Reading | None] | None = None) -> int:
    """Nanoseconds of `run`, which gives them by a clock of its own, less those that this thread waited for its core.

    Waits before `run` started its clock and after it stopped it do not count: as much as passed there by ours is not
    subtracted. Nor is anything where other threads computed too, for which nobody knows what the wait has cost.
    """
    read = read or reading
    before = read()
    spent = run()
    after = read() if before is not None else None
    return spent if before is None or after is None else spent - _waited(spent, before, after)


def _waited(spent: int, before: Reading, after: Reading) -> int:
    passed = after.clock - before.clock
    if after.others - before.others > _QUIET * passed or spent > passed:  # `spent` is by a clock that is not of here
        return 0
    waited = after.waited - before.waited - (passed - spent)
    return min(max(waited, 0), spent)


def reading() -> Reading | None:
    """What is known of the calling thread; None where the system does not count it."""
    waited = _delay(OWN)
    if waited is None:
        return None
    return Reading(time.perf_counter_ns(), waited, time.process_time_ns() - time.thread_time_ns())


class WaitMeter:
    """The seconds that threads of this process wait for cores, from its making on."""

    def __init__(self) -> None:
        self._clock, self._before = time.perf_counter_ns(), _all_delays()

    def share(self) -> float:
        """Of the time since: in which a thread waited, at most, which is 1 where several did in turns or at once. 0
        where it is not known."""
        waited = sum(delay - self._before.get(thread, 0) for thread, delay in _all_delays().items())
        return min(1.0, max(0.0, waited / max(1, time.perf_counter_ns() - self._clock)))


def _all_delays() -> dict[str, int]:
    """By the number of the thread."""
    found: dict[str, int] = {}
    with contextlib.suppress(OSError):
        for thread in os.listdir(ALL):
            if (delay := _delay(f"{ALL}/{thread}/schedstat")) is not None:
                found[thread] = delay
    return found


def _delay(path: str) -> int | None:
    # Opened each time: a candidate may close any descriptor, and a forked process would read its parent's.
    try:
        file = os.open(path, os.O_RDONLY)
        try:
            return int(os.read(file, 128).split()[1])
        finally:
            os.close(file)
    except (OSError, ValueError, IndexError):
        return None
