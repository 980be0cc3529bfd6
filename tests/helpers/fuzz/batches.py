"""Cases in child processes: what ends or stops a process is reported with its seed, and the other cases go on."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait

from fuzz.cases import CaseFailed, Tally

Work = Callable[[int, Tally], None]
"""Runs the case of a seed. Raises CaseFailed where it fails."""

SECONDS = 120.0
"""For a case; one that fails may take as long for each of its reports."""


@dataclass(frozen=True)
class Outcome:
    """What became of a case: `failure` is a report, or how its process ended; empty for a case that passed."""

    seed: int
    tally: Tally
    failure: str = ""


@dataclass
class _Child:
    """A process that runs some cases one after the other, in a session of its own with all that it starts."""

    pid: int
    pipe: Connection
    seeds: deque[int]
    deadline: float = field(default_factory=lambda: time.monotonic() + SECONDS)

    def kill(self) -> int:
        """End it, if it runs; gives its exit status."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.pipe.close()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def run_batches(seeds: Sequence[int], work: Work, *, jobs: int = 1, batch: int = 200) -> Iterator[Outcome]:
    """Run the cases of the seeds, in `jobs` processes at a time, each of which runs a batch of them."""
    waiting = deque(deque(seeds[start : start + batch]) for start in range(0, len(seeds), batch))
    running: list[_Child] = []
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(_start(waiting.popleft(), work))
            soonest = min(child.deadline for child in running)
            ready = wait([child.pipe for child in running], max(0.0, soonest - time.monotonic()))
            for child in [*running]:
                late = child.pipe not in ready and time.monotonic() > child.deadline
                outcome = _heard(child, late=late) if late or child.pipe in ready else None
                if outcome is None:
                    continue
                if child.pipe.closed:
                    running.remove(child)
                    if child.seeds:
                        waiting.appendleft(child.seeds)
                yield outcome
    finally:
        for child in running:
            child.kill()


def _start(seeds: deque[int], work: Work) -> _Child:
    here, there = Pipe(duplex=False)
    pid = os.fork()
    if pid == 0:
        here.close()
        _serve(seeds, work, there)
    there.close()
    return _Child(pid, here, deque(seeds))


def _serve(seeds: deque[int], work: Work, pipe: Connection) -> None:
    """The child: it never returns."""
    status = 1
    try:
        os.setsid()
        for seed in seeds:
            tally, failure = Tally(), ""
            try:
                work(seed, tally)
            except CaseFailed as error:
                failure = str(error)
            except Exception:
                failure = f"seed {seed} cannot be reported:\n{traceback.format_exc()}"
            pipe.send(Outcome(seed, tally, failure))
        status = 0
    finally:
        os._exit(status)


def _heard(child: _Child, *, late: bool) -> Outcome | None:
    """The outcome of its next case; a child that has ended, or that is late, is closed."""
    try:
        if late:
            raise EOFError
        outcome: Outcome = child.pipe.recv()
    except (EOFError, OSError):
        status = child.kill()
        seed = child.seeds.popleft()
        ended = f"took more than {SECONDS:.0f} s" if late else f"ended its process with status {status}"
        return Outcome(seed, Tally(), f"seed {seed} {ended}")
    child.seeds.popleft()
    child.deadline = time.monotonic() + SECONDS
    if not child.seeds:
        child.kill()
    return outcome
