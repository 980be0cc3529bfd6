"""Cases in child processes: what ends or stops a process is reported with its seed, and the other cases go on."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Generic, TypeVar

from fuzz.cases import CaseFailed, Tally

Key = TypeVar("Key")
"""The origin of a case, its seed in most places."""

SECONDS = 120.0
"""The limit in seconds for a case, and for all that its report tries where it fails. A tenth of a second is usual."""


@dataclass(frozen=True)
class Outcome(Generic[Key]):
    """The end of a case: `failure` is a report, or how its process ended; empty for a case that passed."""

    key: Key
    tally: Tally
    failure: str = ""


@dataclass
class _Child(Generic[Key]):
    """A process that runs some cases one after the other, in a session of its own with all that it starts."""

    pid: int
    pipe: Connection
    keys: deque[Key]
    seconds: float
    deadline: float = 0.0

    def __post_init__(self) -> None:
        self.wind()

    def wind(self) -> None:
        """Give it time for its next case."""
        self.deadline = time.monotonic() + self.seconds

    def kill(self) -> int:
        """End it, if it runs; gives its exit status."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.pipe.close()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def run_batches(
    keys: Sequence[Key],
    work: Callable[[Key, Tally], None],
    *,
    jobs: int = 1,
    batch: int = 200,
    seconds: float = SECONDS,
) -> Iterator[Outcome[Key]]:
    """Run the cases of the keys, in `jobs` processes at a time, each of which runs a batch of them.

    Args:
        work: runs one. It raises CaseFailed where it fails.
        seconds: for one; a process that takes longer is ended.
    """
    waiting = deque(deque(keys[start : start + batch]) for start in range(0, len(keys), batch))
    running: list[_Child[Key]] = []
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(_start(waiting.popleft(), work, seconds))
            soonest = min(child.deadline for child in running)
            ready = wait([child.pipe for child in running], max(0.0, soonest - time.monotonic()))
            for child in [*running]:
                late = child.pipe not in ready and time.monotonic() > child.deadline
                if not late and child.pipe not in ready:
                    continue
                outcome = _heard(child, late=late)
                if child.pipe.closed:
                    running.remove(child)
                    if child.keys:
                        waiting.appendleft(child.keys)
                yield outcome
    finally:
        for child in running:
            child.kill()


def _start(keys: deque[Key], work: Callable[[Key, Tally], None], seconds: float) -> _Child[Key]:
    here, there = Pipe(duplex=False)
    pid = os.fork()
    if pid == 0:
        here.close()
        _serve(keys, work, there)
    there.close()
    return _Child(pid, here, deque(keys), seconds)


def _serve(keys: deque[Key], work: Callable[[Key, Tally], None], pipe: Connection) -> None:
    """The child: it never returns."""
    status = 1
    try:
        os.setsid()
        for key in keys:
            tally, failure = Tally(), ""
            try:
                work(key, tally)
            except CaseFailed as error:
                failure = str(error)
            except Exception:
                failure = f"case {key} cannot be reported:\n{traceback.format_exc()}"
            pipe.send(Outcome(key, tally, failure))
        status = 0
    finally:
        os._exit(status)


def _heard(child: _Child[Key], *, late: bool) -> Outcome[Key]:
    """The outcome of its next case; a child that has ended, or that is late, is closed."""
    try:
        if late:
            raise EOFError
        outcome: Outcome[Key] = child.pipe.recv()
    except (EOFError, OSError):
        status = child.kill()
        key = child.keys.popleft()
        ended = f"took more than {child.seconds:g} s" if late else f"ended its process with status {status}"
        return Outcome(key, Tally(), f"case {key} {ended}")
    child.keys.popleft()
    child.wind()
    if not child.keys:
        child.kill()
    return outcome
