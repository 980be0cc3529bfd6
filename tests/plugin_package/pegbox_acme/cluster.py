"""A runner on a cluster, whose machines are processes here: a network would carry the same pickles.

The bench travels to each machine once, candidates as object code, results come back.
"""

from __future__ import annotations

import math
import multiprocessing
import queue
import tempfile
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from pegbox.checks import check_int
from pegbox.codegen import CompiledProgram, load
from pegbox.measure import (
    Bench,
    CandidateArrays,
    CorePlan,
    Failed,
    FailureKind,
    Result,
    Runner,
    TimingPolicy,
    run_interleaved,
    run_trial,
)

_START = 60.0
"""Seconds that a machine may take to start, besides the candidate."""


class ClusterRunner(Runner):
    """Runs candidates on several machines at the same time, each one candidate.

    Args:
        machines: how many there are.
    """

    host = "acme"
    cluster = True

    def __init__(
        self,
        bench: Bench,
        *,
        timing: TimingPolicy,
        cores: CorePlan,
        max_memory: int | None,
        machines: int = 2,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="acme-")
        bench.save(Path(self._folder.name))
        count = check_int("machines", machines)
        self._all = [_Machine(Path(self._folder.name), timing) for _ in range(count)]
        self._idle: queue.SimpleQueue[_Machine] = queue.SimpleQueue()
        for machine in self._all:
            self._idle.put(machine)

    @property
    def machines(self) -> int:
        return len(self._all)

    def run(self, program: CompiledProgram, *, best: float = math.inf) -> Result:
        return self._ask([program], best)[0]

    def rerun(self, programs: Sequence[CompiledProgram]) -> list[Result]:
        return self._ask(programs, None)

    def interrupt(self) -> None:
        for machine in self._all:
            machine.stop()

    def close(self) -> None:
        self.interrupt()
        self._folder.cleanup()

    def _ask(self, programs: Sequence[CompiledProgram], best: float | None) -> list[Result]:
        machine = self._idle.get()
        try:
            return machine.ask(programs, best)
        finally:
            self._idle.put(machine)


class _Machine:
    """A process that runs candidates; a new one takes its place when it is lost."""

    def __init__(self, folder: Path, timing: TimingPolicy) -> None:
        self._folder, self._timing = folder, timing
        self._process: multiprocessing.process.BaseProcess | None = None
        self._link: Connection | None = None
        self._lock = threading.Lock()

    def ask(self, programs: Sequence[CompiledProgram], best: float | None) -> list[Result]:
        link = self._connected()
        try:
            link.send((list(programs), best))
            if link.poll(_START + self._timing.timeout * len(programs)):
                results: list[Result] = link.recv()
                return results
            kind, why = FailureKind.TIMEOUT, f"no answer in {self._timing.timeout:g} s"
        except (EOFError, OSError):
            kind, why = FailureKind.CRASH, "the machine was lost"
        self.stop()
        return [Failed(kind, why) for _ in programs]

    def stop(self) -> None:
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._process.join()
            self._process = None

    def _connected(self) -> Connection:
        with self._lock:
            if self._process is None or self._link is None:
                self._link, there = multiprocessing.Pipe()
                start = multiprocessing.get_context("spawn").Process
                self._process = start(target=_serve, args=(there, self._folder, self._timing), daemon=True)
                self._process.start()
                there.close()
            return self._link


def _serve(link: Connection, folder: Path, timing: TimingPolicy) -> None:
    """Answer what comes, in the process of a machine."""
    stage = CandidateArrays(Bench.load(folder))
    while True:
        try:
            programs, best = link.recv()
        except EOFError:
            return
        kernels = [load(program) for program in programs]
        try:
            if best is None:
                link.send(run_interleaved(kernels, stage, timing))
            else:
                link.send([run_trial(kernels[0], stage, timing, best=best)])
        except Exception as error:
            link.send([Failed(FailureKind.RUN_ERROR, str(error)) for _ in programs])
