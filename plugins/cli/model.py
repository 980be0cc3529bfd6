"""`pegbox model`: show, tune, build and run a whole model."""

from __future__ import annotations

import argparse
import shlex
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pegbox as pb
from pegbox.errors import ArgumentError, UnknownShape
from pegbox.plugins.cli import exits
from pegbox.plugins.cli.arguments import (
    add_output_arguments,
    duration,
    given,
    natural,
    positive,
    write_outputs,
)

if TYPE_CHECKING:
    import numpy as np

    from pegbox.model import Model, ModelResult

_EPILOG = f"""\
actions:
  show     the operators, and the tasks with how often each is called
  tune     search for faster kernels; repeat the command to go on where it was stopped
  build    write the compiled model as a shared library, with a C header
  run      call the model with random inputs, and print the time of a call

examples:
  pegbox model show resnet18.onnx
  pegbox model tune resnet18.onnx --budget 10m --html resnet18.html
  pegbox model build resnet18.onnx --out resnet18.so
  pegbox model run bert.onnx --shape ids=1,128 --profile
  pegbox model tune encoder.onnx decoder.onnx --trials 2000     two models with one budget

Without --records, build and run take what the user's store knows, as calls of pegbox.compile_model do.
Ctrl-C stops a search, keeps every record and prints the best so far.
{exits.EXPLAINED}
"""

_OWN = {
    "tune": (
        "budget", "trials", "tuner", "allocation", "runner", "timeout", "seed", "html", "plot", "quiet",
    ),
    "run": ("calls", "profile"),
}  # fmt: skip
"""The options that only one action has."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Show, tune, build and run a whole model, such as a file of ONNX"""
    parser.epilog = _EPILOG
    parser.add_argument("action", choices=list(_ACTIONS), metavar="ACTION", help=", ".join(_ACTIONS))
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a model; several for tune")
    parser.add_argument(
        "--shape",
        action="append",
        type=_shape,
        metavar="NAME=N,N,...",
        help="the shape of an input whose dimensions the file leaves open; may be given several times",
    )
    parser.add_argument(
        "--accuracy",
        type=float,
        metavar="ERROR",
        help="the largest error of a kernel, as 1e-6 (default: that of each task)",
    )
    parser.add_argument("--target", help="the processor (default: $PEGBOX_TARGET, else this machine)")
    parser.add_argument("--threads", type=positive, metavar="N", help="the threads of each kernel (default: all cores)")
    parser.add_argument(
        "--records", type=Path, metavar="FILE", help="the records of a search (tune: default FILE.jsonl)"
    )
    parser.add_argument("-o", "--out", type=Path, metavar="FILE.so", help="build, tune: write the library here")
    search = parser.add_argument_group("tune")
    search.add_argument("--budget", type=duration, metavar="TIME", help="stop after this time: 60s, 10m, 1h")
    search.add_argument("--trials", type=positive, metavar="N", help="trials of all tasks together")
    search.add_argument("--tuner", metavar="NAME[:OPTION=VALUE,...]", help="default: bayes; see 'pegbox plugins'")
    search.add_argument("--allocation", metavar="NAME", help="gradient (the default), round_robin, or a plugin's")
    search.add_argument("--runner", metavar="NAME[:OPTION=VALUE,...]", help="the runner of candidates (default: local)")
    search.add_argument("--timeout", type=duration, metavar="TIME", help="give up on a candidate after this time")
    search.add_argument("--seed", type=natural, metavar="N", help="the seed of the tuner (default: 0)")
    add_output_arguments(search, page="the search", curve="the curve of the whole")
    search.add_argument("-q", "--quiet", action="store_true", default=None, help="print the result only")
    ran = parser.add_argument_group("run")
    ran.add_argument("--calls", type=positive, metavar="N", help="the calls that are timed (default: 20)")
    ran.add_argument("--profile", action="store_true", default=None, help="print the time of each kernel")
    parser.set_defaults(run=run, usage_error=parser.error)


def run(namespace: argparse.Namespace) -> int:
    """Check the options of the action, and perform it."""
    action = namespace.action
    for owner, names in _OWN.items():
        if owner != action and (wrong := [name for name in names if getattr(namespace, name) is not None]):
            namespace.usage_error(f"--{wrong[0]} is an option of 'pegbox model {owner}'")
    if len(namespace.files) > 1 and action != "tune":
        namespace.usage_error(f"{action} takes one model; given {' '.join(map(str, namespace.files))}")
    if namespace.out is not None and action not in ("build", "tune"):
        namespace.usage_error(f"--out is an option of 'pegbox model build' and 'pegbox model tune', not of {action}")
    models = _read(namespace.files, dict(namespace.shape or ()), namespace.accuracy)
    code: int = _ACTIONS[action](namespace, models)
    return code


def _read(files: Sequence[Path], shapes: Mapping[str, tuple[int, ...]], accuracy: float | None) -> list[Model]:
    """Read the models; each shape must name an input or a dimension of at least one of them.

    Raises:
        UnknownShape: a name is neither an input nor a dimension of any model.
    """
    models, nowhere = [], set(shapes)
    for file in files:
        lacking: frozenset[str] = frozenset()
        try:
            models.append(pb.load_model(file, shapes=shapes or None, accuracy=accuracy))
        except UnknownShape as error:
            if len(files) == 1:
                raise
            lacking = error.names
            own = {name: shape for name, shape in shapes.items() if name not in lacking}
            models.append(pb.load_model(file, shapes=own or None, accuracy=accuracy))
        nowhere &= lacking
    if nowhere:
        pb.load_model(files[0], shapes={name: shapes[name] for name in sorted(nowhere)})  # raises the error
    return models


def _show(namespace: argparse.Namespace, models: Sequence[Model]) -> int:
    print(models[0])
    return exits.DONE


def _tune(namespace: argparse.Namespace, models: Sequence[Model]) -> int:
    from pegbox.report import PAGE, check_output, check_plot

    if namespace.budget is None and namespace.trials is None:
        namespace.usage_error("give the search an end: --budget 10m, --trials N, or both")
    if namespace.out is not None:
        _check_library(namespace, models)
    check_output(namespace.html, PAGE)
    if namespace.plot is not None:
        check_plot(namespace.plot)
    records = namespace.records or Path("-".join(file.stem for file in namespace.files) + ".jsonl")
    options = given(namespace, "budget", "trials", "tuner", "allocation", "runner", "timeout", "seed")
    result = pb.tune_model(models, records=records, progress=not namespace.quiet, **options, **_machine(namespace))
    print(result)
    print(f"records: {records}")
    plot = (lambda path: result.plot(path)) if result.curve else None
    write_outputs(namespace, html=lambda path: result.to_html(path), plot=plot)
    if namespace.out is not None:
        result.module.export(namespace.out)
        print(f"wrote {namespace.out} and {namespace.out.with_suffix('.h')}")
    elif not namespace.quiet:
        for command in _next_commands(namespace, result, records):
            print(f"next:    {command}")
    if not any(task.trials for task in result.tasks):
        return exits.INTERRUPTED
    return exits.DONE


def _next_commands(namespace: argparse.Namespace, result: ModelResult, records: Path) -> list[str]:
    """Suggest commands that continue, time the model, and write its library."""
    commands = []
    if result.stopped_because == "interrupted":
        commands.append(f"{shlex.join(namespace.command_line)}   (goes on)")
    if len(namespace.files) == 1:
        for action, more in (("run", ["--profile"]), ("build", ["--out", f"{namespace.files[0].stem}.so"])):
            words = ["pegbox", "model", action, *_model_words(namespace), "--records", str(records), *more]
            commands.append(shlex.join(words))
    return commands


def _model_words(namespace: argparse.Namespace) -> list[str]:
    """Write the model as given, for another command."""
    words = [str(namespace.files[0])]
    for name, shape in namespace.shape or ():
        words += ["--shape", f"{name}={','.join(map(str, shape))}"]
    for option, value in (("--target", namespace.target), ("--threads", namespace.threads)):
        words += [] if value is None else [option, str(value)]
    return words


def _build(namespace: argparse.Namespace, models: Sequence[Model]) -> int:
    if namespace.out is None:
        namespace.usage_error("name the library with --out FILE.so")
    _check_library(namespace, models)
    module = pb.compile_model(models[0], **_machine(namespace), **given(namespace, "records"))
    module.export(namespace.out)
    print(f"wrote {namespace.out} and {namespace.out.with_suffix('.h')}")
    return exits.DONE


def _check_library(namespace: argparse.Namespace, models: Sequence[Model]) -> None:
    """Raise ArgumentError, before the long work, if the library cannot be written."""
    from pegbox.codegen import check_export  # loads what 'pegbox --help' should not wait for

    if len(models) > 1:
        namespace.usage_error("--out takes one model; build the others with 'pegbox model build'")
    if namespace.out.suffix != ".so":
        raise ArgumentError(f"--out {str(namespace.out)!r} does not end in .so: a model is a shared library")
    check_export(namespace.out, header=True)


def _run(namespace: argparse.Namespace, models: Sequence[Model]) -> int:
    began = time.perf_counter()
    module = pb.compile_model(models[0], **_machine(namespace), **given(namespace, "records"))
    print(f"compiled in {time.perf_counter() - began:.1f} s")
    arrays = _random_inputs(models[0])
    module(*arrays)
    seconds = []
    for _ in range(namespace.calls or 20):
        began = time.perf_counter()
        module(*arrays)
        seconds.append(time.perf_counter() - began)
    from pegbox.task import format_cost

    median, least = (format_cost(each, "s") for each in (statistics.median(seconds), min(seconds)))
    print(f"a call takes {median} (median of {len(seconds)}; the fastest {least}), with random inputs")
    if namespace.profile:
        print(module.profile(*arrays))
    return exits.DONE


def _random_inputs(model: Model) -> list[np.ndarray[Any, Any]]:
    """Make an array for each input: normal numbers; zeros and ones for integers, which may be indices."""
    import numpy as np  # which 'pegbox --help' should not wait for

    rng = np.random.default_rng(0)

    def made(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
        kind = np.dtype(dtype).kind if dtype != "bfloat16" else "f"
        values = rng.standard_normal(shape) if kind == "f" else rng.integers(0, 2, shape)
        return values.astype(dtype)

    return [made(value.shape, value.dtype) for value in model.graph.inputs]


def _machine(namespace: argparse.Namespace) -> dict[str, Any]:
    """Return the given options of the processor."""
    threads = {} if namespace.threads is None else {"num_threads": namespace.threads}
    return {**given(namespace, "target"), **threads}


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Read "x=1,3,224,224" or "x=1x3x224x224"; for argparse."""
    name, equals, extents = text.rpartition("=")
    words = extents.replace("x", ",").split(",")
    if not equals or not name or not all(word.isdecimal() for word in words):
        raise argparse.ArgumentTypeError(f"{text!r} is not the shape of an input: write NAME=1,3,224,224")
    return name, tuple(map(int, words))


_ACTIONS: dict[str, Callable[[argparse.Namespace, Sequence[Model]], int]] = {
    "show": _show,
    "tune": _tune,
    "build": _build,
    "run": _run,
}
