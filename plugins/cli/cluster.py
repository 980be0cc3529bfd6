"""`pegbox cluster`: lists the machines of a Dask cluster."""

from __future__ import annotations

import argparse

from pegbox.errors import MeasureError
from pegbox.plugins.cli import exits
from pegbox.plugins.runners.dask_client import connected
from pegbox.plugins.runners.dask_machines import APART, find_machines, speeds
from pegbox.plugins.runners.machine import Kind, Machine, one_kind

_EPILOG = f"""\
examples:
  pegbox cluster tcp://host:8786
  pegbox tune matmul 512 512 512 --runner dask:scheduler=tcp://host:8786      measures there

GFLOP/s are those of one core on a fixed kernel; equal machines should not differ by more than {APART:.0%}.
{exits.EXPLAINED}
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """List the machines of a Dask cluster, their kind and their speed"""
    parser.epilog = _EPILOG
    parser.add_argument("scheduler", metavar="ADDRESS", help="of the scheduler, such as tcp://host:8786")
    parser.set_defaults(run=run)


def run(namespace: argparse.Namespace) -> int:
    """Print a line for each worker, then whether a search can measure on all of them."""
    with connected(namespace.scheduler) as client:
        machines = find_machines(client)
        rates = speeds(client, [machine.address for machine in machines if machine.measures])
    for machine in machines:
        print(f"{machine}{_state(machine, rates)}")
    if len(positive := [rate for rate in rates.values() if rate]) > 1:
        print(f"the fastest has {max(positive) / min(positive) - 1:.1%} more than the slowest")
    try:
        one_kind([machine for machine in machines if machine.measures], here=Kind.own())
    except MeasureError as error:
        raise exits.NothingFound(str(error)) from error
    return exits.DONE


def _state(machine: Machine, rates: dict[str, float]) -> str:
    if not machine.measures:
        return "; does not measure"
    rate = rates.get(machine.address)
    return f"; {rate:.4g} GFLOP/s" if rate else ""
