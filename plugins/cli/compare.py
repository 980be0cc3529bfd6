"""`pegbox compare`: compares tuners, with statistics."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pegbox as pb
from pegbox.checks import nearest
from pegbox.errors import ArgumentError, ComparisonError, SpaceError
from pegbox.hooks import registry
from pegbox.plugins.cli import exits
from pegbox.plugins.cli.arguments import (
    MEASURING,
    add_implementations_argument,
    add_measuring_arguments,
    add_output_arguments,
    add_search_arguments,
    add_simulate_arguments,
    add_task_arguments,
    check_outputs,
    check_simulate,
    given,
    make_tasks,
    measuring_options,
    natural,
    positive,
    recorded_task,
    write_outputs,
)

if TYPE_CHECKING:
    from pegbox.comparison import Comparison

TUNERS = "bayes,xgb,ga,random"

_EPILOG = f"""\
examples:
  pegbox compare matmul 512 512 512 --tuners xgb,ga,random --trials 200 --seeds 10
  pegbox compare --simulate space.jsonl --tuners xgb:plan_size=8,epsilon=0,xgb,my_tuner.py:MyTuner
  pegbox compare matmul 512 512 512 --simulate all-records.jsonl --html report.html --plot curves.png
  pegbox compare --simulate space.jsonl --tuners random --tuners ga --json report.json
  pegbox compare --simulate matmul-999x999x37 --tuners bayes,xgb --no-experience
  pegbox compare --simulate space.jsonl --seeds 60 --jobs auto                        one run on each core
  pegbox compare --simulate space.jsonl --seeds 60 --jobs dask:scheduler=tcp://host:8786
  pegbox compare --suite hard --tuners bayes,ga,random --jobs auto --log hard-runs.jsonl
  pegbox compare --suite my_suite/ --tuners my_tuner.py:MyTuner,random

Every tuner gets each seed, the same trials and the same random start. With --simulate the answers come from records (a
file, or the name of a recorded space that ships with pegbox), which know the template and its arguments. A name after a
comma begins a tuner, OPTION=VALUE after a comma belongs to the tuner before it.
Ctrl-C ends the comparison and reports the runs that are finished; --json keeps them in the file as they come.
{exits.EXPLAINED}
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Compare tuners: the same trials over several seeds, measured or simulated, with a test for every pair"""
    parser.epilog = _EPILOG
    add_task_arguments(parser, optional=True)
    add_implementations_argument(parser)
    search = parser.add_argument_group("comparison")
    search.add_argument(
        "--suite", metavar="NAME|FOLDER", help="compare on all problems of a suite, in place of TEMPLATE or --simulate"
    )
    search.add_argument(
        "--tuners",
        action="append",
        metavar="NAME[:OPTION=VALUE,...],NAME,...",
        help=f"may be given several times (default: {TUNERS})",
    )
    add_search_arguments(search, trials="trials of each run (default: 200)", asked="each tuner's")
    search.add_argument("--seeds", type=positive, metavar="N", help="runs of each tuner (default: 10)")
    search.add_argument(
        "--start", type=natural, metavar="N", help="random trials that all runs of a seed begin with (default: 1)"
    )
    search.add_argument(
        "--no-experience",
        action="store_const",
        const=False,
        dest="experience",
        help="start every tuner without measurements of other workloads",
    )
    search.add_argument(
        "--jobs",
        type=jobs,
        metavar="N",
        help="runs at the same time, where they are simulated; 'auto': one on each core; or a cluster, as in "
        "dask:scheduler=tcp://host:8786 (default: 1)",
    )
    search.add_argument(
        "--log",
        type=Path,
        metavar="FILE",
        help="append each finished run at once; the same command then continues where it was stopped",
    )
    search.add_argument(
        "--keep-going",
        action="store_const",
        const=True,
        help="continue without runs that fail (always with --suite)",
    )
    search.add_argument(
        "--run-timeout",
        metavar="TIME",
        help="kill runs that take longer, e.g. 5m, where nothing is timed (default with --suite: 10m)",
    )
    measuring = parser.add_argument_group("measuring")
    add_simulate_arguments(measuring, several=True)
    add_measuring_arguments(measuring)
    output = parser.add_argument_group("output")
    add_output_arguments(output, page="the report", curve="the curves")
    output.add_argument("--latex", type=Path, metavar="FILE", help="write the table over all spaces for LaTeX")
    output.add_argument("--csv", type=Path, metavar="FILE", help="write a line for each tuner and space")
    output.add_argument(
        "--paper", type=Path, metavar="FOLDER", help="write report, tables, values, and figures as SVG and PDF"
    )
    output.add_argument("--json", type=Path, metavar="FILE", help="write everything, curves included, after every run")
    output.add_argument("-q", "--quiet", action="store_true", help="print the report only")
    parser.set_defaults(run=run, usage_error=parser.error)


def run(namespace: argparse.Namespace) -> int:
    """Compare, print the report and write the requested files, even if a run broke."""
    _check(namespace)
    tuners = split_tuners(namespace.tuners or [TUNERS])
    options = given(
        namespace, "trials", "seeds", "start", "experience", "batch_size", "jobs", "log", "keep_going", "run_timeout"
    )
    options |= {**measuring_options(namespace), "save": namespace.json, "progress": not namespace.quiet}
    try:
        if namespace.suite is None:
            report = pb.compare(_tasks(namespace), tuners, **options)
        else:
            report = pb.compare(suite=namespace.suite, tuners=tuners, **options)
    except SpaceError as error:
        raise exits.NothingFound(str(error)) from error
    except (ComparisonError, KeyboardInterrupt) as error:
        if (finished := getattr(error, "result", None)) is not None and finished.runs:
            _show(namespace, finished)
        raise
    _show(namespace, report)
    if not any(run.final_cost < float("inf") for run in report.runs):
        raise exits.NothingFound(f"none of the {len(report.runs)} runs found a valid kernel")
    return exits.DONE


def jobs(text: str) -> int | str:
    """Read a number; "auto" and clusters remain text for `pb.compare`."""
    return positive(text) if text.lstrip("+-").isdigit() else text


def split_tuners(texts: list[str]) -> list[str]:
    """Split `a,b:x=1,y=2,c` into `a`, `b:x=1,y=2` and `c`: OPTION=VALUE belongs to the tuner before it.

    Raises `ArgumentError` for options without a tuner before them.
    """
    found: list[str] = []
    for text in texts:
        first = len(found)
        for piece in filter(None, (part.strip() for part in text.split(","))):
            if not re.match(r"\w+\s*=", piece):
                found.append(piece)
            elif len(found) > first and ":" in found[-1]:
                found[-1] += f",{piece}"
            else:
                before = f"{found[-1]!r}: write {found[-1]}:{piece}" if len(found) > first else "no tuner"
                raise ArgumentError(f"--tuners {text!r}: the option {piece!r} comes after {before}")
    return found


def _check(namespace: argparse.Namespace) -> None:
    """Check early for faults that would otherwise appear after an hour."""
    from pegbox.comparison import REPORT  # loads NumPy, which --help should not wait for
    from pegbox.report import check_output

    if namespace.suite is None:
        check_simulate(namespace, *MEASURING, "implementations")
    elif namespace.template is not None or namespace.simulate:
        namespace.usage_error("--suite names the problems: leave TEMPLATE and --simulate out")
    if namespace.template is not None and len(namespace.simulate or ()) > 1:
        namespace.usage_error("several --simulate are several tasks: leave TEMPLATE out")
    check_outputs(namespace, json=namespace.json, latex=namespace.latex, csv=namespace.csv)
    for file in (namespace.latex, namespace.csv):
        check_output(file)
    check_output(namespace.json, REPORT)
    _check_commas(namespace)


def _check_commas(namespace: argparse.Namespace) -> None:
    """End with a usage error at `--tuners bayes random`: the second one would be an argument of the template."""
    words = namespace.command_line
    for option, tuners, next_word in zip(words, words[1:], words[2:], strict=False):
        near = nearest(next_word, registry.names("tuner"))
        if option == "--tuners" and next_word in namespace.args and near:
            written = f"--tuners {tuners.rstrip(',')},{near[0]}"
            namespace.usage_error(f"{next_word!r} comes after --tuners {tuners}: join tuners by commas, {written}")


def _tasks(namespace: argparse.Namespace) -> list[Any]:
    """Make the named task, or read its records, or those of the files' own task."""
    if not namespace.simulate:
        return [make_tasks(namespace)]
    each = (argparse.Namespace(**{**vars(namespace), "simulate": source}) for source in namespace.simulate)
    return [recorded_task(one) for one in each]


def _show(namespace: argparse.Namespace, report: Comparison) -> None:
    from pegbox.report import write_file

    print(report)
    write_outputs(namespace, html=report.to_html, plot=report.plot, json=report.save)
    if namespace.latex is not None:
        write_file(namespace.latex, report.aggregate().to_latex())
    if namespace.csv is not None:
        write_file(namespace.csv, report.aggregate().to_csv())
    if namespace.paper is not None:
        report.write_paper(namespace.paper)
