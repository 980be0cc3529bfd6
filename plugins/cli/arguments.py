"""Arguments that several commands share, and their parsers."""

from __future__ import annotations

import argparse
import ast
import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pegbox as pb
from pegbox.checks import DURATIONS, read_seconds
from pegbox.errors import ArgumentError, RecordError, SpaceError
from pegbox.hooks import registry
from pegbox.plugins.cli import exits
from pegbox.records import check_archive

if TYPE_CHECKING:
    from pegbox.records import RecordedSpace
    from pegbox.space import Config
    from pegbox.task import Task, TaskGroup


MEASURING = ("runner", "timeout", "inputs")
"""The options of measuring."""


def given(namespace: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return the user's options; pegbox's functions have defaults for the others."""
    return {name: value for name in names if (value := getattr(namespace, name)) is not None}


def add_task_arguments(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """Add TEMPLATE, ARGS, --space and --target for `make_task`; if `optional`, all may be omitted."""
    parser.add_argument(
        "template",
        metavar="TEMPLATE",
        nargs="?" if optional else None,
        help="a name ('pegbox templates' lists them) or FILE.py:FUNCTION",
    )
    parser.add_argument(
        "args",
        metavar="ARG",
        nargs="*",
        help="the template's arguments in their order, or NAME=VALUE; Python literals (64, 0.5, 1,2,3), else text",
    )
    parser.add_argument(
        "--space",
        metavar="NAME[:OPTION=VALUE,...]",
        help="derive the space, where TEMPLATE is a workload without a schedule: 'sketch', 'sketch:rules=ansor', or "
        "another space generator",
    )
    parser.add_argument(
        "--accuracy",
        type=float,
        metavar="ERROR",
        help="the largest error that is allowed, relative to the largest magnitude of the output, as in 1e-6",
    )
    parser.add_argument(
        "--target",
        default="llvm",
        help="e.g. 'llvm -mcpu=znver4 -num-cores 2' (default: $PEGBOX_TARGET, else this machine)",
    )


def make_task(namespace: argparse.Namespace) -> Task:
    """Make the task that TEMPLATE, ARGS, --space and --target name."""
    if Path(namespace.template).suffix in registry.names("model_reader"):
        raise ArgumentError(
            f"{namespace.template!r} is a model, not a template: 'pegbox model tune {namespace.template}' searches for "
            "its kernels ('pegbox model --help')"
        )
    args, kwargs = read_args(namespace.args)
    generated: dict[str, Any] = {"space": namespace.space} if namespace.space else {}
    generated |= given(namespace, "accuracy")
    return pb.create_task(namespace.template, args=args, kwargs=kwargs, target=namespace.target, **generated)


def add_implementations_argument(parser: argparse.ArgumentParser) -> None:
    """Add --implementations for `make_tasks`."""
    parser.add_argument(
        "--implementations",
        metavar="NAME,...|all",
        help="implementations of the operator to search together: names ('pegbox plugins' has them), or 'all' that fit",
    )


def make_tasks(namespace: argparse.Namespace) -> Task | TaskGroup:
    """Make the task of `make_task`, or the group that --implementations names."""
    task = make_task(namespace)
    if namespace.implementations is None:
        return task
    names = [name.strip() for name in namespace.implementations.split(",")]
    return task.with_implementations("all" if names == ["all"] else names)


def task_words(namespace: argparse.Namespace) -> list[str]:
    """Write the task as given, for another command."""
    words = [namespace.template, *namespace.args, *(["--space", namespace.space] if namespace.space else [])]
    if implementations := getattr(namespace, "implementations", None):
        words += ["--implementations", implementations]
    if (accuracy := getattr(namespace, "accuracy", None)) is not None:
        words += ["--accuracy", str(accuracy)]
    return [*words, "--target", namespace.target] if namespace.target != "llvm" else words


def add_config_arguments(parser: argparse.ArgumentParser, *, default: str) -> None:
    """Add --config and --records, which exclude each other; `default` is the help for neither."""
    parser.add_argument("--config", type=natural, metavar="N", help=f"a configuration by its index ({default})")
    parser.add_argument("--records", type=Path, metavar="FILE", help="the best configuration in a records file")
    parser.set_defaults(usage_error=parser.error)


def choose_config(namespace: argparse.Namespace, task: Task | TaskGroup) -> Config:
    """Find the configuration that the arguments name. Raises SpaceError, RecordError or NothingFound."""
    from pegbox.task import tasks_of  # loads schedules, which 'pegbox --help' should not wait for

    if namespace.config is not None and namespace.records is not None:
        namespace.usage_error("--config and --records exclude each other")
    if namespace.config is not None:
        if getattr(namespace, "implementations", None) is not None:
            namespace.usage_error("--config is the number of a configuration of one task: leave --implementations out")
        try:
            return tasks_of(task)[0].space.get(namespace.config)
        except SpaceError as error:
            raise SpaceError(f"--config {namespace.config}: {error}") from error
    if namespace.records is not None:
        from pegbox.plugins.cli.history import best_config  # loads NumPy, which 'pegbox --help' should not wait for

        return best_config(namespace.records, task)
    task = tasks_of(task)[0]
    first = next(iter(task.space.iterate()), None)
    if first is None:
        raise exits.NothingFound(f"the space of {task.name} has no valid configuration")
    return first


def add_measuring_arguments(group: argparse._ArgumentGroup) -> None:
    """Add --runner, --timeout and --inputs for `measuring_options`."""
    group.add_argument("--runner", metavar="NAME[:OPTION=VALUE,...]", help="the runner of candidates (default: local)")
    group.add_argument("--timeout", type=duration, metavar="TIME", help="give up on a candidate after this time")
    group.add_argument(
        "--inputs",
        type=Path,
        metavar="FILE.npz",
        help="a file of numpy.savez with arrays for inputs by name, if random values make no sense (indices)",
    )


def measuring_options(namespace: argparse.Namespace) -> dict[str, Any]:
    """Return the given measuring options, as arguments of `pb.tune`, `compare` and `sweep`.

    Raises `ArgumentError` if the file of --inputs does not hold arrays.
    """
    options = given(namespace, "runner", "timeout")
    if namespace.inputs is not None:
        options["measure_options"] = {"inputs": _read_inputs(namespace.inputs)}
    return options


def _read_inputs(path: Path) -> dict[str, Any]:
    import numpy as np  # which 'pegbox --help' should not wait for

    try:
        check_archive(path)
        with np.load(path) as arrays:
            return {name: arrays[name] for name in arrays}
    except (OSError, RecordError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ArgumentError(f"--inputs: {str(path)!r} cannot be read: {why}") from error
    except Exception as error:  # NumPy and zipfile raise many kinds of errors for damaged files
        raise ArgumentError(
            f"--inputs: {str(path)!r} is not a file of arrays by name ({error}); write it with "
            f"numpy.savez({str(path)!r}, NAME=array)"
        ) from error


def add_search_arguments(group: argparse._ArgumentGroup, *, trials: str, asked: str) -> None:
    """Add --trials and --batch-size, with the help text of the first, and a phrase for the tuner in the second's."""
    group.add_argument("--trials", type=positive, metavar="N", help=trials)
    default = f"default: {asked} own, or as many as a cluster has machines"
    group.add_argument("--batch-size", type=positive, metavar="N", help=f"candidates to propose at a time ({default})")


def add_output_arguments(group: argparse._ActionsContainer, *, page: str, curve: str) -> None:
    """Add --html and --plot, which write a `page` and a `curve`."""
    group.add_argument("--html", type=Path, metavar="FILE", help=f"write {page} as a page that opens offline")
    group.add_argument("--plot", type=Path, metavar="FILE", help=f"write {curve}: .png, .svg, ... (pegbox[plot])")


def add_simulate_arguments(parser: argparse._ArgumentGroup, *, several: bool = False) -> None:
    """Add the arguments that `recorded_task` reads, which replace the task's own. `several`: they may be repeated."""
    parser.add_argument(
        "--simulate",
        action="append" if several else "store",
        metavar="FILE|NAME",
        help="answer from records: a file, or the name of a recorded space that ships with pegbox",
    )
    parser.add_argument("--host", metavar="NAME", help="the machine, if the file holds records of several")
    parser.add_argument(
        "--objective", metavar="NAME", help="the quantity to minimise in results of another tool (default: the time)"
    )


def check_simulate(namespace: argparse.Namespace, *excluded: str) -> None:
    """End with a usage error without a task or records, and for options without a meaning in a simulation."""
    if not namespace.simulate:
        if namespace.template is None:
            namespace.usage_error("name a TEMPLATE with its arguments, or the records to simulate it with --simulate")
        for name in ("host", "objective"):
            if getattr(namespace, name):
                namespace.usage_error(f"--{name} chooses among records: it needs --simulate")
        return
    if given := [f"--{name.replace('_', '-')}" for name in excluded if getattr(namespace, name)]:
        namespace.usage_error(f"--simulate measures nothing: it excludes {', '.join(given)}")


def check_outputs(namespace: argparse.Namespace, **others: Path | None) -> None:
    """Check, before the long work, that --html and --plot can be written to different files. Raises ArgumentError.

    `others` are further files that the command writes or reads, by the names of their options.
    """
    from pegbox.report import PAGE, check_output, check_plot

    check_files(namespace, html=namespace.html, plot=namespace.plot, **others)
    check_output(namespace.html, PAGE)
    if namespace.plot is not None:
        check_plot(namespace.plot)


def check_files(namespace: argparse.Namespace, **files: Path | None) -> None:
    """Raise ArgumentError if two of a command's files are the same, including that of the template."""
    from pegbox.report import check_distinct

    path, _, attribute = (namespace.template or "").rpartition(":")
    source = Path(path) if attribute and path.endswith(".py") else None
    options = {f"--{name}" if name.islower() else name: file for name, file in files.items()}
    check_distinct({**options, "TEMPLATE": source})


def write_outputs(namespace: argparse.Namespace, **writers: Callable[[Path], None] | None) -> None:
    """Write --html, --plot, ... by the functions given under their names, and report it."""
    for name, write in writers.items():
        path = getattr(namespace, name)
        if path is not None and write is not None:
            write(path)
            print(f"wrote {path}")


def recorded_task(namespace: argparse.Namespace) -> RecordedSpace:
    """Find the recorded space of the named task, or else of the records' own task."""
    task = None if namespace.template is None else make_task(namespace)
    options: dict[str, Any] = {"task": task, "host": namespace.host, "objective": namespace.objective}
    if namespace.target != "llvm":
        options["target"] = None if task is not None else namespace.target
    return pb.recorded_space(namespace.simulate, **options)


def read_args(words: list[str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Split template arguments into positional and NAME=VALUE ones. Raises ArgumentError for a name given twice."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier():
            args.append(read_value(word))
        elif name in kwargs:
            raise ArgumentError(f"template argument {name!r} is given twice: {kwargs[name]!r} and {value!r}")
        else:
            kwargs[name] = read_value(value)
    return tuple(args), kwargs


def read_value(text: str) -> Any:
    """Read a Python literal (`3`, `0.5`, `True`, `1,2,3`, `'text'`); other text stays."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def duration(text: str) -> float:
    """Read "90", "90s", "1.5m", "2h" or "1m30s" as seconds; for argparse."""
    seconds = read_seconds(text)
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time: write {DURATIONS}")
    return seconds


def natural(text: str, *, least: int = 0) -> int:
    """Read an integer of at least 0; for argparse."""
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
    return int(text)


positive = functools.partial(natural, least=1)


def default_records(namespace: argparse.Namespace) -> Path:
    """Name the default file of records: one per task in the current folder, `matmul-64x64x64.jsonl`."""
    _, attribute_colon, attribute = namespace.template.rpartition(".py:")
    stem = attribute if attribute_colon else namespace.template
    parts = [stem, "x".join(word for word in namespace.args if "=" not in word)]
    parts += sorted(word for word in namespace.args if "=" in word)
    parts += [namespace.space] if namespace.space else []
    parts += [namespace.implementations] if getattr(namespace, "implementations", None) else []
    parts += [f"accuracy={namespace.accuracy}"] if getattr(namespace, "accuracy", None) is not None else []
    parts += [namespace.target] if namespace.target != "llvm" else []
    return Path("-".join(re.sub(r"[^\w.=+,]+", "_", part) for part in parts if part) + ".jsonl")
