"""The machines of a Dask cluster, and their differences."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from pegbox.errors import MeasureError
from pegbox.plugins.runners.dask_client import START, address_of, await_worker, check_versions
from pegbox.plugins.runners.machine import RESOURCE, ClusterMachine

if TYPE_CHECKING:
    from distributed import Client

_SPEED_SECONDS = 30.0

APART = 0.03
"""The share by which machines' speeds on the fixed kernel may differ before a search warns."""


def find_machines(client: Client, *, patience: float = math.inf) -> list[ClusterMachine]:
    """Describe the machines of all workers, including those that don't measure; wait at most 10 seconds for a first
    one, or `patience` if that is less.

    Raises `MeasureError` if there is no worker, none that measures, or one without pegbox.
    """
    from pegbox.plugins.runners.dask_worker import describe

    start = f"start one on each machine: {START.format(address=address_of(client))}"
    await_worker(client, patience=patience, start=start)
    versions = client.get_versions()["workers"]
    check_versions({f"worker at {address}": there["packages"]["distributed"] for address, there in versions.items()})
    found: Mapping[str, Any] = client.run(describe, on_error="return")
    if broken := {address: error for address, error in found.items() if not isinstance(error, ClusterMachine)}:
        listed = "".join(f"\n  {address}: {type(error).__name__}: {error}" for address, error in broken.items())
        raise MeasureError(f"workers that cannot use pegbox; install the same version there as here:{listed}")
    machines = sorted(found.values(), key=lambda machine: (machine.node, machine.address))
    if not any(machine.measures for machine in machines):
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
        resources = {f"{name}={count:g}" for worker in workers for name, count in worker["resources"].items()}
        has = ", ".join(sorted(resources)) or "no resources"
        raise MeasureError(
            f"none of the {len(machines)} workers at {address_of(client)} has the resource 'pegbox', which marks "
            f"machines that may measure (they have {has}); {start}"
        )
    return machines


def check_memory(client: Client, nbytes: int) -> None:
    """Check that each worker's memory limit suffices for the inputs and outputs, of `nbytes`, and their message.

    Raises `MeasureError` if some don't; Dask would end these workers without giving a reason.
    """
    workers: Mapping[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
    small = {a: limit for a, worker in workers.items() if 0 < (limit := worker.get("memory_limit") or 0) < 2 * nbytes}
    if small:
        listed = ", ".join(f"{address} ({limit / 1e6:,.0f} MB)" for address, limit in sorted(small.items()))
        raise MeasureError(
            f"the inputs and outputs take {nbytes / 1e6:,.0f} MB, twice as much while they arrive, and workers have "
            f"too little memory for them: {listed}; start them with a larger one (dask worker --memory-limit), or tune "
            "smaller shapes"
        )


def trials_of(client: Client) -> dict[str, Mapping[str, int]]:
    """Count the candidates that each worker has measured since it started, by its address and by the process."""
    from pegbox.plugins.runners.dask_worker import measured

    return dict(client.run(measured, on_error="ignore"))


def speeds(client: Client, workers: Collection[str]) -> dict[str, float]:
    """Measure GFLOP/s of a core on a fixed kernel on all these workers at once, by address; 0 if unknown.

    A single worker is not measured, as there is nothing to compare it with.
    """
    from pegbox.plugins.runners.dask_worker import speed

    options = {"allow_other_workers": False, "resources": {RESOURCE: 1}, "pure": False}
    compared = workers if len(workers) > 1 else ()
    asked = {address: client.submit(speed, workers=[address], **options) for address in compared}
    rates: dict[str, float] = {}
    for address, future in asked.items():
        try:
            rates[address] = future.result(timeout=_SPEED_SECONDS)
        except Exception:  # it is gone, or measures for another search: compare the others
            rates[address] = 0.0
    return rates
