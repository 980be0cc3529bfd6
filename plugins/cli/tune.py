"""`pegbox tune`: search a template's configurations."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pegbox as pb
from pegbox.errors import RecordError, SpaceError, TuningError
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
    default_records,
    duration,
    given,
    make_tasks,
    measuring_options,
    natural,
    positive,
    recorded_task,
    task_words,
    write_outputs,
)

if TYPE_CHECKING:
    from pegbox.search import TuneResult

_EPILOG = f"""\
examples:
  pegbox tune matmul 1024 1024 1024 --trials 64
  pegbox tune matmul 1000 999 1001 dtype=float64 --tuner xgb:plan_size=32
  pegbox tune my_templates.py:my_matmul 512 512 512 --budget 60s --records my.jsonl
  pegbox tune my_ops.py:my_norm 512 512 --space sketch          a computation without a template
  pegbox tune matmul 1024 1024 1024 --trials 200 --resume       go on until there are 200
  pegbox tune matmul 512 512 512 --tuner my_tuner.py:MyTuner    a tuner of your own
  pegbox tune --simulate space.jsonl --tuner ga --trials 500    on what 'pegbox sweep' recorded, in a second
  pegbox tune conv2d 1 64 56 56 64 3 3 padding=1 --implementations all
                                                                the template and others of its operator
  pegbox tune matmul 512 512 512 --html search.html             the curve, the knobs and the best program as a page
  pegbox tune matmul 512 512 512 --transfer other-shapes.jsonl  a tuner that learns from other shapes starts ahead

Ctrl-C stops the search, keeps every record and prints the best so far.
{exits.EXPLAINED}
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Search a template's configurations for the fastest kernel"""
    parser.epilog = _EPILOG
    add_task_arguments(parser, optional=True)
    add_implementations_argument(parser)
    search = parser.add_argument_group("search")
    search.add_argument("--tuner", metavar="NAME[:OPTION=VALUE,...]", help="default: bayes; see 'pegbox plugins'")
    trials = "configurations to try (default: 200, or no limit with --budget)"
    add_search_arguments(search, trials=trials, asked="the tuner's")
    search.add_argument("--budget", type=duration, metavar="TIME", help="stop after this time: 60s, 1m30s, 1h")
    search.add_argument("--early-stopping", type=positive, metavar="N", help="stop after N trials without improvement")
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
        help="the same after an edit of the template's code: keep the costs of the old code",
    )
    add_output_arguments(output, page="the search", curve="the curve")
    output.add_argument("-q", "--quiet", action="store_true", help="print the result only")
    parser.set_defaults(run=run, usage_error=parser.error)


def run(namespace: argparse.Namespace) -> int:
    """Tune, print the result, and suggest uses of it."""
    if namespace.no_records and (namespace.resume or namespace.records):
        namespace.usage_error("--no-records excludes --records and --resume")
    check_simulate(namespace, *MEASURING, "records", "resume", "implementations")
    unrecorded = namespace.no_records or namespace.simulate
    records = None if unrecorded else namespace.records or default_records(namespace)
    check_outputs(namespace, records=records)
    task = recorded_task(namespace) if namespace.simulate else make_tasks(namespace)
    options = given(namespace, "tuner", "trials", "budget", "early_stopping", "batch_size", "seed", "transfer")
    if "budget" in options and "trials" not in options:
        options["trials"] = None
    options |= {**measuring_options(namespace), "resume": namespace.resume, "progress": not namespace.quiet}
    try:
        result = pb.tune(task, records=records, **options)
    except SpaceError as error:
        raise exits.NothingFound(str(error)) from error
    except TuningError as error:
        if error.result is not None:  # the measurements before the failure
            print(error.result)
            if records is not None:
                print(f"records: {records}")
        if records is None or not isinstance(error.__cause__, RecordError):
            raise
        reason = f"{error.reason}; then go on: {_resuming(namespace)}"
        raise TuningError(str(error), error.result, reason=reason) from error
    print(result)
    if records is not None:
        print(f"records: {records}")
    plot = None if result.best is None else lambda path: result.plot(path)
    write_outputs(namespace, html=lambda path: result.to_html(path), plot=plot)
    if not namespace.quiet:
        if kept := _kept(result):
            print(f"store:   {kept}")
        for command in _next_commands(namespace, result, records):
            print(f"next:    {command}")
    if result.best is None:
        if not result.all_trials and result.stopped_because == "interrupted":
            return exits.INTERRUPTED
        why = "" if records is None else "; the records give the reasons"
        raise exits.NothingFound(f"none of the {len(result.all_trials)} trials gave a valid kernel{why}")
    return exits.DONE


def _kept(result: TuneResult) -> str:
    """Say whether later calls use the result; empty where nothing was to be kept."""
    from pegbox.store import user_store  # both load NumPy, which 'pegbox --help' should not wait for
    from pegbox.task import format_cost

    store = user_store()
    if store is None or result.best is None or result.task is None or result.simulated or result.emulated:
        return ""
    best = store.best(result.task)
    if best is None:
        return ""
    if best.config == result.best.config.to_json():
        return "calls of this shape use the result from now on, in every program"
    return f"calls of this shape use an earlier result, which is faster: {format_cost(best.cost, 's')}"


def _for_one_core(namespace: argparse.Namespace) -> list[str]:
    """Write the same search for a target of one core."""
    words = [word for word in _without(namespace.command_line, "--target") if not word.startswith("--resume")]
    target = re.sub(r" *-num-cores[ =]*\d+", "", namespace.target)
    return _with_options(words, "--target", f"{target} -num-cores 1")


def _resuming(namespace: argparse.Namespace) -> str:
    """Write the command that goes on with the search."""
    return shlex.join(_with_options(namespace.command_line, *([] if namespace.resume else ["--resume"])))


def _next_commands(namespace: argparse.Namespace, result: TuneResult, records: Path | None) -> Iterator[str]:
    """Suggest commands that show the first failure, avoid noise, go on, build and plot."""
    task = task_words(namespace)
    if result.first_failed is not None and namespace.implementations is None:  # the number is of one task's space
        chosen = ["--config", str(result.first_failed.config.index)]
        shown = shlex.join(["pegbox", "show", *task, *chosen, "--emit", "ir", "--traceback"])
        yield f"{shown}   (the program of the first failed trial)"
    if result.noise and not result.emulated and result.task is not None and result.task.target.num_cores > 1:
        yield f"{shlex.join(_for_one_core(namespace))}   (no thread waits for another)"
    if result.best is None or records is None:
        return
    if result.stopped_because == "interrupted" and not result.emulated:
        yield f"{_resuming(namespace)}   (goes on)"
    if result.goes_on:
        yield f"{shlex.join(_with_trials(namespace, 2 * len(result.all_trials)))}   (slower than NumPy: more trials)"
    # Neither command takes a best from records of an emulator.
    chosen = ["--config", str(result.best.config.index)] if result.emulated else ["--records", str(records)]
    yield shlex.join(["pegbox", "build", *task, *chosen, "--out", "kernel.so"])
    if namespace.html is None and namespace.plot is None:
        chosen = task_words(argparse.Namespace(**{**vars(namespace), "implementations": None}))
        yield shlex.join(["pegbox", "plot", str(records), *chosen, "--html", "search.html"])


def _with_trials(namespace: argparse.Namespace, trials: int) -> list[str]:
    """Write the command that goes on until there are so many trials."""
    words = _without(namespace.command_line, "--trials", "--budget", "--early-stopping")
    return _with_options(words, "--trials", str(trials), *([] if namespace.resume else ["--resume"]))


def _without(words: Sequence[str], *options: str) -> list[str]:
    """Leave options with a value out of a command, as two words or as `--option=value`."""
    left = [word for word in words if not word.startswith(tuple(f"{option}=" for option in options))]
    for option in options:
        if option in left:
            place = left.index(option)
            del left[place : place + 2]
    return left


def _with_options(words: Sequence[str], *options: str) -> list[str]:
    """Add options to a command: before `--`, behind which words are operands."""
    end = words.index("--") if "--" in words else len(words)
    return [*words[:end], *options, *words[end:]]
