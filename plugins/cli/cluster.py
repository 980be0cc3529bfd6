"""`pegbox cluster`: lists the machines of a Dask cluster."""

from __future__ import annotations

import argparse

from pegbox.errors import MeasureError
from pegbox.plugins.cli import exits
from pegbox.plugins.runners.dask_client import connected, dashboard_of
from pegbox.plugins.runners.dask_machines import APART, find_machines, speeds, trials_of
from pegbox.plugins.runners.machine import Kind, one_kind

_EPILOG = f"""\
examples:
  pegbox cluster tcp://host:8786
  pegbox tune matmul 512 512 512 --runner dask:scheduler=tcp://host:8786      measures there

GFLOP/s are those of one core on a fixed kernel, and in brackets how far behind the fastest; equal machines should not
differ by more than {APART:.0%}. Trials are those that the worker has measured since it started, for each process that
searched; of the latest three, and of the earlier ones together.
{exits.EXPLAINED}
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """List the machines of a Dask cluster, their kind, speed and trials"""
    parser.epilog = _EPILOG
    parser.add_argument("scheduler", metavar="ADDRESS", help="the scheduler, such as tcp://host:8786")
    parser.set_defaults(run=run)


def run(namespace: argparse.Namespace) -> int:
    """Print two lines for each worker; return the exit code 1 if a search cannot measure on all of them."""
    with connected(namespace.scheduler) as client:
        machines = find_machines(client)
        trials = trials_of(client)
        rates = speeds(client, [machine.address for machine in machines if machine.measures])
        page = dashboard_of(client)
    fastest = max(rates.values(), default=0.0)
    for machine in machines:
        rate, counts = rates.get(machine.address, 0.0), trials.get(machine.address, {})
        if not machine.measures:
            print(f"{machine}; does not measure, may compile")
            continue
        behind = f" ({rate / fastest - 1:.1%})" if rate != fastest else ""
        print(machine, *([f"{rate:.4g} GFLOP/s{behind}"] if rate else []), sep="; ")
        total, searches = sum(counts.values()), ", ".join(f"{n:,} of {process}" for process, n in counts.items())
        print(f"  {total:,} trial{'s' if total != 1 else ''}: {searches}" if counts else "  no trials")
    if len(positive := [rate for rate in rates.values() if rate]) > 1:
        print(f"the fastest has {fastest / min(positive) - 1:.1%} more than the slowest")
    if page:
        print(f"dashboard: {page}")
    try:
        one_kind([machine for machine in machines if machine.measures], here=Kind.own())
    except MeasureError as error:
        raise exits.NothingFound(str(error)) from error
    return exits.DONE
