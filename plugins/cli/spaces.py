"""`pegbox spaces`: lists the recorded spaces that ship with pegbox, or describes files and spaces by name."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pegbox as pb
from pegbox.plugins.cli import exits

_EPILOG = f"""\
examples:
  pegbox spaces
  pegbox spaces --json
  pegbox spaces space.jsonl                  what 'pegbox sweep' recorded
  pegbox tune --simulate NAME --tuner ga     a search on one of them

{exits.EXPLAINED}
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """List the recorded spaces that come with pegbox, for simulated searches"""
    parser.epilog = _EPILOG
    parser.add_argument(
        "sources", nargs="*", metavar="FILE|NAME", help="describe only these: files of your own, or listed names"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.set_defaults(run=run)


def run(namespace: argparse.Namespace) -> int:
    """Print one recorded space after the other."""
    found = [_describe(source) for source in namespace.sources or pb.recorded_spaces()]
    if namespace.json:
        print(json.dumps(found, indent=2))
        return exits.DONE
    for space in found:
        print(f"{space['name']}\n    {space['summary']}")
    return exits.DONE


def _describe(source: str) -> dict[str, Any]:
    recorded = pb.recorded_space(source)
    return {
        "name": source,
        "summary": str(recorded),
        "configurations": len(recorded),
        "ran": recorded.num_ok,
        "best": recorded.best_cost,
        "host": recorded.host,
        "target": recorded.target,
    }
