"""`pegbox build`: writes a kernel as a library or an object file, with a C header."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pegbox as pb
from pegbox.errors import ArgumentError
from pegbox.plugins.cli import exits
from pegbox.plugins.cli.arguments import (
    add_config_arguments,
    add_implementations_argument,
    add_task_arguments,
    check_files,
    choose_config,
    make_tasks,
)

if TYPE_CHECKING:
    from pegbox.space import Config
    from pegbox.task import Task, TaskGroup

_EPILOG = f"""\
examples:
  pegbox build matmul 1024 1024 1024 --records matmul-1024x1024x1024.jsonl --out matmul.so
  pegbox build matmul 64 64 64 --config 1234 --out matmul.o --no-header

The suffix of --out decides: .so is a shared library, .o an object file. A C header with the kernel's
declaration is written next to it. Without --records and --config it is the best kernel of the user's store,
or else a predicted one; a note says so.
{exits.EXPLAINED}
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Write a kernel as a shared library or an object file, with a C header"""
    parser.epilog = _EPILOG
    add_task_arguments(parser)
    add_implementations_argument(parser)
    add_config_arguments(parser, default="default: the best of the store, or else a predicted one")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="kernel.so or kernel.o")
    parser.add_argument(
        "--header", action=argparse.BooleanOptionalAction, default=True, help="write the C header too (default: yes)"
    )
    parser.set_defaults(run=run)


def run(namespace: argparse.Namespace) -> int:
    """Write the files and name them."""
    from pegbox.codegen import check_export  # loads what 'pegbox --help' should not wait for
    from pegbox.task import task_of

    out: Path = namespace.out
    if out.suffix not in (".so", ".o"):
        raise ArgumentError(f"--out {str(out)!r} ends in neither .so (shared library) nor .o (object file)")
    check_files(namespace, out=out, records=namespace.records)
    check_export(out, header=namespace.header)
    task = make_tasks(namespace)
    named = namespace.config is not None or namespace.records is not None
    config = choose_config(namespace, task) if named else _known_config(task)
    pb.export(task, config, out, header=namespace.header)
    if namespace.implementations is not None:
        print(f"implementation: {task_of(task, config).name}")
    print(f"wrote {out}" + (f" and {out.with_suffix('.h')}" if namespace.header else ""))
    return exits.DONE


def _known_config(task: Task | TaskGroup) -> Config:
    """Find the best configuration of the user's store, or else a predicted one; print a note for the latter."""
    from pegbox.search import predicted_configs  # loads NumPy, which 'pegbox --help' should not wait for
    from pegbox.store import best_config
    from pegbox.task import tasks_of

    if (best := best_config(task)) is not None:
        return best
    print("note: predicted, not tuned; 'pegbox tune' searches for a faster kernel", file=sys.stderr)
    return next(predicted_configs(tasks_of(task)[0]))
