"""The worker's side of builds on a Dask cluster: builder processes, and the task that uses them."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

from distributed import Worker, get_worker

from pegbox.codegen import usable_cores
from pegbox.errors import MeasureError
from pegbox.measure import GIVEN_UP, Builder, Failed, memory_share
from pegbox.plugins.runners.dask_lease import LeasedPlugin
from pegbox.plugins.runners.machine import Kind
from pegbox.plugins.runners.machine_lock import building
from pegbox.workers import GivenUp

if TYPE_CHECKING:
    from pegbox.codegen import CompiledProgram, Program

IDLE = 60.0
"""Seconds without work after which the builder processes end; the next program starts others."""


def build_resource(kind: Kind) -> str:
    """The resource of the workers that compile as `kind` does: with the same versions, whatever their processor is."""
    versions = f"{kind.pegbox} {kind.llvm}"
    return f"pegbox-build-{hashlib.sha256(versions.encode()).hexdigest()[:12]}"


class BuildStation(LeasedPlugin):
    """Builder processes on a worker, as many as it has threads, or cores; they start with the first program.

    A worker with other versions than those of `kind` keeps it without use.
    """

    def __init__(self, name: str, kind: Kind) -> None:
        self.name, self.kind = name, kind

    async def setup(self, worker: Worker) -> None:
        """Called by Dask where the worker is."""
        self._since, self._closed = 0, False
        await super().setup(worker)
        size = max(1, min(worker.state.nthreads, len(usable_cores())))
        memory = memory_share(workers=size + 1)
        self._builder = Builder(workers=size, cores=usable_cores(), max_memory=memory, idle=IDLE)
        try:
            own = await asyncio.to_thread(Kind.own)
        except ImportError:  # it has no LLVM
            return
        if (own.pegbox, own.llvm) == (self.kind.pegbox, self.kind.llvm):
            await worker.set_resources(**{build_resource(self.kind): size})

    async def teardown(self, worker: Worker) -> None:
        """Called by Dask when the client says so, and when the worker ends."""
        await super().teardown(worker)
        await asyncio.to_thread(self.close)

    def build(self, number: int, program: Program, timeout: float) -> CompiledProgram | Failed:
        """Compile as `Builder.build` does, while nothing is timed on this machine.

        What was asked before turn `number` may be given up.
        """
        try:
            with building(lambda: self._is_over(number), timeout=timeout):
                return self._builder.build(program, timeout=timeout)
        except GivenUp:
            return GIVEN_UP

    def give_up(self, number: int) -> None:
        """End the builds in progress, and those that wait and were asked before the turn `number`."""
        self._since = number
        self._builder.interrupt()

    def close(self) -> None:
        """End the processes; harmless when done twice."""
        self._closed = True
        self._builder.close()

    def _is_over(self, number: int) -> bool:
        return self._closed or number < self._since


def build(name: str, number: int, program: Program, timeout: float) -> tuple[bytes, float] | Failed:
    """The task that compiles a program: its object code, and the seconds that LLVM took."""
    try:
        station: BuildStation = get_worker().plugins[name]
    except KeyError:
        raise MeasureError("the search was closed") from None
    built = station.build(number, program, timeout)
    return built if isinstance(built, Failed) else (built.object_code, built.seconds)


def give_up(name: str, number: int, dask_worker: Worker) -> None:
    """End the builds in progress on a worker; it is not a task and waits for none."""
    if (station := dask_worker.plugins.get(name)) is not None:
        station.give_up(number)
