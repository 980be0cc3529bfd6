"""`pegbox best`: the fastest configurations in a records file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pegbox.plugins.cli import exits

_EPILOG = f"""\
examples:
  pegbox best matmul-1024x1024x1024.jsonl
  pegbox best all-my-records.jsonl --json
  pegbox best monday.jsonl tuesday.jsonl

A file may hold records of several tasks and targets; each has its best.
{exits.EXPLAINED}
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Print the fastest configuration of each task in a records file"""
    parser.epilog = _EPILOG
    parser.add_argument(
        "files",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="a records file, as 'pegbox tune' writes it; several count as one",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.set_defaults(run=run)


def run(namespace: argparse.Namespace) -> int:
    """Print the best of each task; return the exit code 1 if there is none at all."""
    from pegbox.plugins.cli import history  # loads NumPy, which 'pegbox --help' should not wait for

    found = history.summaries(namespace.files)
    print(json.dumps([each.to_json() for each in found], indent=2) if namespace.json else "\n".join(map(str, found)))
    if all(summary.best is None for summary in found):
        names = " and ".join(map(str, namespace.files))
        why = f"(tasks there: {len(found)})" if found else "('pegbox tune' writes records)"
        raise exits.NothingFound(f"no valid record in {names} {why}")
    return exits.DONE
