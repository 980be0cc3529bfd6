"""`Builds`: programs that are compiled on the workers of a Dask cluster."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pegbox.errors import MeasureError
from pegbox.measure import GIVEN_UP, Failed, FailureKind
from pegbox.plugins.runners.dask_tasks import Tasks
from pegbox.plugins.runners.machine import Kind

if TYPE_CHECKING:
    from distributed import Client

    from pegbox.codegen import CompiledProgram, Program

_LATER = -1
"""The priority of builds: on a worker of one thread a candidate that can be timed goes first."""


class Builds:
    """Compiles on workers with the versions of `kind`: those that don't measure, and those that do while none is timed.

    Args:
        name: of the search; that of the worker plugin begins with it.
    """

    def __init__(self, client: Client, name: str, kind: Kind) -> None:
        from pegbox.plugins.runners.dask_build_station import BuildStation, build_resource
        from pegbox.plugins.runners.dask_lease import Lease

        self._name = f"{name}-build"
        self._resource = build_resource(kind)
        self._lease = Lease(client, BuildStation(self._name, kind))
        self._tasks = Tasks(client, self._name, resources={self._resource: 1}, patience=0.0, priority=_LATER)

    def places(self, measuring: str, idle: int) -> int:
        """Count the programs that are compiled at the same time by the workers without the resource `measuring`, and by
        `idle` of those that have it.
        """
        workers = self._tasks.workers.values()
        apart = sum(int(worker[self._resource]) for worker in workers if not worker.get(measuring))
        both = sorted(int(worker[self._resource]) for worker in workers if worker.get(measuring))
        return apart + sum(both[: max(0, idle)])

    def build(self, program: Program, timeout: float) -> CompiledProgram | Failed | None:
        """Compile there; None where no worker can."""
        from pegbox.plugins.runners import dask_build_station

        if not self._tasks.workers:
            return None
        shipped = dataclasses.replace(program, target=program.target.explicit)
        try:
            built: tuple[bytes, float] | Failed | None = self._tasks.ask(dask_build_station.build, shipped, timeout)
        except MeasureError:
            return None
        if built is None:
            return GIVEN_UP
        if isinstance(built, Failed):
            return None if built.kind == FailureKind.CRASH else built  # so many workers died: not the program's fault
        return program.compiled(*built)

    def give_up(self) -> None:
        """Take back what is queued, and end what is compiled."""
        from pegbox.plugins.runners import dask_build_station

        self._tasks.give_up(dask_build_station.give_up)

    def close(self) -> None:
        """Leave the workers as they were; harmless when done twice."""
        from pegbox.plugins.runners import dask_build_station

        if self._tasks.close(dask_build_station.give_up):
            self._lease.close()
