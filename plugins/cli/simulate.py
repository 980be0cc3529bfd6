"""--simulate and --host: answers from records instead of from this machine."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import pegbox as pb
from pegbox.plugins.cli.arguments import make_task

if TYPE_CHECKING:
    from pegbox.records.recorded_space import RecordedSpace


def add_simulate_arguments(parser: argparse._ArgumentGroup, *, several: bool = False) -> None:
    """What `recorded_task` reads; the task's own arguments may be left out then. `several`: it may be given again."""
    parser.add_argument(
        "--simulate",
        action="append" if several else "store",
        metavar="FILE|NAME",
        help="answer from records: a file, or the name of a recorded space that ships with pegbox",
    )
    parser.add_argument("--host", metavar="NAME", help="whose records, where the file holds those of several machines")
    parser.add_argument(
        "--objective", metavar="NAME", help="what to minimise in results of another tool (default: the time)"
    )


def check_simulate(namespace: argparse.Namespace, *excluded: str) -> None:
    """Usage errors: neither a task nor records of one, or options that a simulation has no use for."""
    if not namespace.simulate:
        if namespace.template is None:
            namespace.usage_error("name a TEMPLATE with its arguments, or the records to simulate it with --simulate")
        for name in ("host", "objective"):
            if getattr(namespace, name):
                namespace.usage_error(f"--{name} chooses among records: it needs --simulate")
        return
    if given := [f"--{name.replace('_', '-')}" for name in excluded if getattr(namespace, name)]:
        namespace.usage_error(f"--simulate measures nothing: it excludes {', '.join(given)}")


def recorded_task(namespace: argparse.Namespace) -> RecordedSpace:
    """What is recorded of the task that was named, or whatever the records are of."""
    task = None if namespace.template is None else make_task(namespace)
    options: dict[str, Any] = {"task": task, "host": namespace.host, "objective": namespace.objective}
    if namespace.target != "llvm":
        options["target"] = None if task is not None else namespace.target
    return pb.recorded_space(namespace.simulate, **options)
