"""`pegbox plot`: draws a search from its records."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pegbox as pb
from pegbox.plugins.cli import exits
from pegbox.plugins.cli.arguments import (
    add_output_arguments,
    add_task_arguments,
    check_outputs,
    make_task,
    write_outputs,
)

_EPILOG = f"""\
examples:
  pegbox plot matmul-1024x1024x1024.jsonl --html search.html
  pegbox plot my.jsonl my_templates.py:my_matmul 512 512 512 --plot search.png     a template in a file of your own

The file holds records of one task, or TEMPLATE and its arguments say which one is meant.
{exits.EXPLAINED}
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Print a search that is in a records file, and draw it"""
    parser.epilog = _EPILOG
    parser.add_argument("file", type=Path, metavar="FILE", help="a records file, as 'pegbox tune' writes it")
    add_task_arguments(parser, optional=True)
    parser.add_argument("--host", metavar="NAME", help="the machine, if the file holds records of several")
    add_output_arguments(parser, page="the search", curve="the curve")
    parser.set_defaults(run=run)


def run(namespace: argparse.Namespace) -> int:
    """Print the result, write the requested files; return the exit code 1 if nothing valid is recorded."""
    check_outputs(namespace, FILE=namespace.file)
    task = None if namespace.template is None else make_task(namespace)
    options: dict[str, Any] = {"host": namespace.host}
    if task is None and namespace.target != "llvm":
        options["target"] = namespace.target
    result = pb.load_result(namespace.file, task, **options)
    print(result)
    write_outputs(namespace, html=result.to_html, plot=None if result.best is None else result.plot)
    if result.best is None:
        raise exits.NothingFound(f"{namespace.file} holds no valid record (trials in it: {len(result.trials)})")
    return exits.DONE
