"""`pegbox tune`: search a template's configurations."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pegbox as pb
from pegbox.errors import SpaceError, TuningError
from pegbox.plugins.cli import exits
from pegbox.plugins.cli.arguments import (
    MEASURING,
    add_measuring_arguments,
    add_simulate_arguments,
    add_task_arguments,
    check_outputs,
    check_simulate,
    default_records,
    duration,
    make_task,
    measuring_options,
    natural,
    positive,
    recorded_task,
    write_outputs,
)

if TYPE_CHECKING:
    from pegbox.search import Trial

_EPILOG = f"""\
examples:
  pegbox tune matmul 1024 1024 1024 --trials 64
  pegbox tune matmul 1000 999 1001 dtype=float64 --tuner xgb:plan_size=32
  pegbox tune my_templates.py:my_matmul 512 512 512 --budget 60s --records my.jsonl
  pegbox tune my_ops.py:my_norm 512 512 --space sketch          a computation without a template
  pegbox tune matmul 1024 1024 1024 --trials 200 --resume       go on until there are 200
  pegbox tune matmul 512 512 512 --tuner my_tuner.py:MyTuner    a tuner of your own
  pegbox tune --simulate space.jsonl --tuner ga --trials 500    on what 'pegbox sweep' recorded, in a second
  pegbox tune matmul 512 512 512 --html search.html             the curve, the knobs and the best program as a page
  pegbox tune matmul 512 512 512 --transfer other-shapes.jsonl  a tuner that learns from other shapes starts ahead

Ctrl-C stops the search, keeps every record and prints the best so far.
{exits.EXPLAINED}
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Search a template's configurations for the fastest kernel"""
    parser.epilog = _EPILOG
    add_task_arguments(parser, optional=True)
    search = parser.add_argument_group("search")
    search.add_argument("--tuner", metavar="NAME[:OPTION=VALUE,...]", help="default: bayes; see 'pegbox plugins'")
    search.add_argument(
        "--trials", type=positive, metavar="N", help="configurations to try (default: 200, or no limit with --budget)"
    )
    search.add_argument("--budget", type=duration, metavar="TIME", help="stop after this time: 60s, 1m30s, 1h")
    search.add_argument("--early-stopping", type=positive, metavar="N", help="stop after N trials without a better one")
    search.add_argument(
        "--batch-size",
        type=positive,
        metavar="N",
        help="ask the tuner for N at a time (default: its own, or as many as a cluster has machines)",
    )
    search.add_argument(
        "--seed", type=natural, metavar="N", help="the same seed and measurements give the same search (default: 0)"
    )
    search.add_argument(
        "--transfer",
        action="append",
        metavar="FILE",
        help="records of other shapes of the template to learn from; may be given several times",
    )
    measuring = parser.add_argument_group("measuring")
    add_simulate_arguments(measuring)
    add_measuring_arguments(measuring)
    output = parser.add_argument_group("records and output")
    output.add_argument(
        "--records", type=Path, metavar="FILE", help="append records here (default: TEMPLATE-ARGS.jsonl)"
    )
    output.add_argument("--no-records", action="store_true", help="keep no records")
    output.add_argument(
        "--resume",
        action="store_true",
        help="continue from the records, which count as trials; nothing is measured twice",
    )
    output.add_argument(
        "--resume-edited",
        action="store_const",
        const="edited",
        dest="resume",
        help="the same where the template's code was edited since: take over the costs of the old code",
    )
    output.add_argument("--html", type=Path, metavar="FILE", help="write the search as a page that opens offline")
    output.add_argument("--plot", type=Path, metavar="FILE", help="write the curve: .png, .svg, ... (pegbox[plot])")
    output.add_argument("-q", "--quiet", action="store_true", help="print the result only")
    parser.set_defaults(run=run, usage_error=parser.error)


def run(namespace: argparse.Namespace) -> int:
    """Tune, print the result and what to do with it."""
    if namespace.no_records and (namespace.resume or namespace.records):
        namespace.usage_error("--no-records excludes --records and --resume")
    check_simulate(namespace, *MEASURING, "records", "resume")
    unrecorded = namespace.no_records or namespace.simulate
    records = None if unrecorded else namespace.records or default_records(namespace)
    check_outputs(namespace, records=records)
    task = recorded_task(namespace) if namespace.simulate else make_task(namespace)
    try:
        result = pb.tune(task, records=records, **_options(namespace))
    except SpaceError as error:
        raise exits.NothingFound(str(error)) from error
    except TuningError as error:
        if error.result is not None:  # what was measured before it broke
            print(error.result)
            if records is not None:
                print(f"records: {records}")
        raise
    print(result)
    if records is not None:
        print(f"records: {records}")
    plot = None if result.best is None else lambda path: result.plot(path)
    write_outputs(namespace, html=lambda path: result.to_html(path), plot=plot)
    if not namespace.quiet and result.first_failed is not None:
        print(f"next:    {_failure_command(namespace, result.first_failed)}   (the first failed one's program)")
    if result.best is None:
        if not result.all_trials and result.stopped_because == "interrupted":
            return exits.INTERRUPTED
        why = "" if records is None else "; the records tell why"
        raise exits.NothingFound(f"none of the {len(result.all_trials)} trials gave a valid kernel{why}")
    if records is not None and not namespace.quiet:
        if result.stopped_because == "interrupted" and not result.emulated:
            print(f"next:    {_resumed(namespace)}   (goes on)")
        # Of records from an emulator there is no best: neither command takes them.
        chosen = ["--config", str(result.best.config.index)] if result.emulated else ["--records", str(records)]
        print(f"next:    {_build_command(namespace, chosen)}")
        if namespace.html is None and namespace.plot is None:
            print(f"next:    {_plot_command(namespace, records)}")
    return exits.DONE


def _options(namespace: argparse.Namespace) -> dict[str, Any]:
    """The keyword arguments of `pb.tune` that were given; its own defaults stand for the others."""
    names = ("tuner", "trials", "budget", "early_stopping", "batch_size", "seed", "transfer")
    options = {name: value for name in names if (value := getattr(namespace, name)) is not None}
    if "budget" in options and "trials" not in options:
        options["trials"] = None
    return {**options, **measuring_options(namespace), "resume": namespace.resume, "progress": not namespace.quiet}


def _resumed(namespace: argparse.Namespace) -> str:
    """The command that goes on with the search."""
    words: tuple[str, ...] = namespace.command_line
    return shlex.join(words if namespace.resume else (*words, "--resume"))


def _build_command(namespace: argparse.Namespace, chosen: list[str]) -> str:
    return shlex.join(["pegbox", "build", *_task_words(namespace), *chosen, "--out", "kernel.so"])


def _failure_command(namespace: argparse.Namespace, failed: Trial) -> str:
    """Shows the program of the configuration, or the error that its template raises, with the lines that it came by."""
    index = str(failed.config.index)
    return shlex.join(["pegbox", "show", *_task_words(namespace), "--config", index, "--emit", "ir", "--traceback"])


def _plot_command(namespace: argparse.Namespace, records: Path) -> str:
    return shlex.join(["pegbox", "plot", str(records), *_task_words(namespace), "--html", "search.html"])


def _task_words(namespace: argparse.Namespace) -> list[str]:
    """The task on a command line."""
    words = [namespace.template, *namespace.args]
    words += ["--space", namespace.space] if namespace.space else []
    return [*words, "--target", namespace.target] if namespace.target != "llvm" else words
