"""`pegbox sweep`: measures a whole space, or a uniform sample of it."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

import pegbox as pb
from pegbox.errors import SpaceError
from pegbox.plugins.cli import exits
from pegbox.plugins.cli.arguments import (
    add_measuring_arguments,
    add_task_arguments,
    check_files,
    default_records,
    duration,
    given,
    make_task,
    measuring_options,
    natural,
    positive,
    task_words,
)

_EPILOG = f"""\
examples:
  pegbox sweep matmul 512 512 512 --configs 5000 --records space.jsonl
  pegbox sweep matmul 64 64 64 --configs all                 the whole space
  pegbox sweep matmul 512 512 512 --configs 5000 --records space.jsonl --pack space.jsonl.xz
  pegbox compare --simulate space.jsonl --tuners xgb,ga      what it is for

The same command goes on where it was stopped; what the file holds already counts. Configurations come in random order,
and the fastest are measured again at the end. Ctrl-C stops the sweep and keeps every record.
{exits.EXPLAINED}
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Measure a whole space or a uniform sample of it, for simulated searches"""
    parser.epilog = _EPILOG
    add_task_arguments(parser)
    plan = parser.add_argument_group("sweep")
    plan.add_argument(
        "--configs", type=_count, metavar="N|all", help="configurations in the sample, or all (default: 5000)"
    )
    plan.add_argument(
        "--passes", type=natural, metavar="N", help="measure everything again N times, against noise (default: 0)"
    )
    plan.add_argument("--seed", type=natural, metavar="N", help="the seed of the sample and of its order (default: 0)")
    plan.add_argument("--budget", type=duration, metavar="TIME", help="stop after this time: 60s, 1m30s, 1h")
    measuring = parser.add_argument_group("measuring")
    add_measuring_arguments(measuring)
    output = parser.add_argument_group("records and output")
    output.add_argument(
        "--records", type=Path, metavar="FILE", help="append records here (default: TEMPLATE-ARGS.sweep.jsonl)"
    )
    output.add_argument(
        "--pack", type=Path, metavar="FILE", help="when done, write one line per configuration to FILE.jsonl.xz"
    )
    output.add_argument("-q", "--quiet", action="store_true", help="print the summary only")
    parser.set_defaults(run=run)


def run(namespace: argparse.Namespace) -> int:
    """Sweep, print the summary, and suggest uses of the file."""
    if namespace.pack is not None:
        from pegbox.records import check_packed  # loads NumPy, which 'pegbox --help' should not wait for

        check_packed(namespace.pack)
    records = namespace.records or default_records(namespace).with_suffix(".sweep.jsonl")
    check_files(namespace, records=records, pack=namespace.pack)
    task = make_task(namespace)
    options = given(namespace, "passes", "seed", "budget") | measuring_options(namespace)
    if namespace.configs is not None:
        options["configs"] = namespace.configs or None
    options["progress"] = not namespace.quiet
    try:
        result = pb.sweep(task, records=records, **options)
    except SpaceError as error:
        raise exits.NothingFound(str(error)) from error
    print(result)
    print(f"records: {records}")
    if result.stopped_because == "interrupted" and not result.results:
        return exits.INTERRUPTED
    if result.recorded is None:
        raise exits.NothingFound(f"none of the {len(result.results)} configurations gave a valid kernel")
    simulated = records
    if namespace.pack is not None and result.stopped_because == "done":
        count = pb.pack_space(records, namespace.pack, args=task.args)
        print(f"packed:  {namespace.pack} ({count:,} configurations, {namespace.pack.stat().st_size / 1e3:.0f} kB)")
        simulated = namespace.pack
    if not namespace.quiet:
        words = ["compare", *task_words(namespace), "--simulate", str(simulated), "--tuners", "bayes,xgb,ga,random"]
        compared = shlex.join(["pegbox", *words])
        print(f"next:    {compared if result.stopped_because == 'done' else 'repeat the command to go on'}")
    return exits.DONE


def _count(text: str) -> int:
    """Read a number of configurations, 0 for all of them; for argparse."""
    return 0 if text == "all" else positive(text)
