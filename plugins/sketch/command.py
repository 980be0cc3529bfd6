"""`pegbox sketch`: the sketches of a computation, or a template module of them."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pegbox.plugins.cli import exits
from pegbox.plugins.cli.arguments import read_args
from pegbox.report import check_distinct, check_output, write_file

if TYPE_CHECKING:
    from pegbox.task import Task

_EPILOG = f"""\
examples:
  pegbox sketch my_ops.py:matmul_add 512 512 512                        the sketches and their knobs
  pegbox sketch my_ops.py:matmul_add 512 512 512 --records r.jsonl --out my_template.py
                                                                        the best one's as a template to edit
  pegbox tune my_template.py:matmul_add 512 512 512                     tunes it
  pegbox sketch my_ops.py:matmul_add 512 512 512 --out my_template.py   all of them, with the same space
{exits.EXPLAINED}
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Derive a computation's sketches, and write them as a template to edit"""
    parser.epilog = _EPILOG
    parser.add_argument(
        "workload", metavar="WORKLOAD", help="a name ('pegbox templates' lists them) or FILE.py:FUNCTION"
    )
    parser.add_argument(
        "args",
        metavar="ARG",
        nargs="*",
        help="the workload's arguments in their order, or NAME=VALUE; those with defaults may be left out",
    )
    parser.add_argument("--target", default="llvm", help="what the template is for: default this machine")
    parser.add_argument(
        "--layout-free",
        action="append",
        metavar="INPUT",
        default=[],
        help="an input that is packed ahead of time, by name; may be given several times",
    )
    parser.add_argument(
        "--records",
        type=Path,
        metavar="FILE",
        help="write the sketch of the best configuration in this file alone",
    )
    parser.add_argument("--sketch", metavar="NAME", help="write this sketch alone")
    parser.add_argument("--out", type=Path, metavar="FILE.py", help="write a template module here")
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")
    parser.set_defaults(run=run, usage_error=parser.error)


def run(namespace: argparse.Namespace) -> int:
    """Print the sketches, or write the module."""
    # These load all of schedules, which a list of the commands does not need.
    import pegbox as pb
    from pegbox.plugins.sketch.module_text import check_literals, template_name
    from pegbox.plugins.sketch.single_template import sketch_space
    from pegbox.plugins.sketch.template_module import template_module
    from pegbox.task import find_workload

    kept = None if namespace.out is None or namespace.records is None else namespace.out.with_suffix(".jsonl")
    if namespace.out is not None:
        _check_outputs(namespace, kept)
    args, kwargs = read_args(namespace.args)
    workload = find_workload(namespace.workload)
    options = f":layout_free={'+'.join(namespace.layout_free)}" if namespace.layout_free else ""
    task = pb.create_task(workload, args, kwargs, space=f"sketch{options}", target=namespace.target)
    space = sketch_space(task)
    if namespace.out is None:
        if namespace.records or namespace.sketch:
            namespace.usage_error("--records and --sketch choose the sketch that is written; add --out FILE.py")
        for sketch in space.sketches.values():
            print(f"{sketch.name}: {', '.join(knob.name for knob in sketch.knobs) or 'no knobs'}")
        return exits.DONE
    template = f"{namespace.out}:{template_name(workload.name)}"
    if namespace.records or namespace.sketch:
        return _write_one(namespace, task, template, kept)
    check_literals(workload, task.workload[1])
    write_file(namespace.out, template_module(space, workload.name, task.workload[1]))
    print(f"{namespace.out}: {len(space.sketches)} sketches; next: {_next(namespace, template)}")
    return exits.DONE


def _write_one(namespace: argparse.Namespace, task: Task, template: str, kept: Path | None) -> int:
    """Write one sketch, and its best configuration as a record of the new template."""
    import pegbox as pb
    from pegbox.plugins.sketch.single_template import same_splits, sketch_template
    from pegbox.records import Journal, Record, best
    from pegbox.task import format_cost

    record = None if kept is None else best(Journal(namespace.records).read(), task)
    if kept is not None and record is None:
        raise exits.NothingFound(f"{namespace.records}: no valid record of {task.name}")
    config = None if record is None else task.space.from_json(record.config)
    text = sketch_template(task, config, sketch=namespace.sketch or "")
    write_file(namespace.out, text)
    print(f"{namespace.out}: {text.count(chr(10))} lines")
    if record is None or config is None or kept is None:
        print(f"next: {_next(namespace, template)}")
        return exits.DONE
    written = pb.create_task(template, target=task.target)  # its defaults are the arguments
    own = same_splits(task, config, written)
    made = Record.of(written, own, record.result, tuner=record.tuner, seed=record.seed, baseline=record.baseline)
    write_file(kept, f"{replace(made, host=record.host).to_line()}\n")
    print(f"{kept}: the configuration that it was written from, {format_cost(record.cost, 's')}")
    print(f"next: {_next(namespace, template, '--records', str(kept), '--resume')}")
    return exits.DONE


def _check_outputs(namespace: argparse.Namespace, kept: Path | None) -> None:
    """Check, before the sketches are derived, that the files can be written."""
    if namespace.records and namespace.sketch:
        namespace.usage_error("--records chooses the sketch; leave --sketch out")
    if namespace.out.suffix != ".py":
        namespace.usage_error(f"--out {namespace.out}: a template is read from a Python file; give {namespace.out}.py")
    given = {"--out": namespace.out, "--records": namespace.records, f"{kept}": kept}
    check_distinct({**given, "WORKLOAD": Path(namespace.workload.rpartition(":")[0])})
    for file in filter(None, (namespace.out, kept)):
        check_output(file)
        if file.exists() and not namespace.force:
            namespace.usage_error(f"{file} is there already; give another --out, or --force")


def _next(namespace: argparse.Namespace, template: str, *options: str) -> str:
    """Return the command that tunes the written template."""
    # The template may have other names for the arguments; the given values are its defaults.
    given = [] if any("=" in word for word in namespace.args) else namespace.args
    words = ["pegbox", "tune", template, *given, *options]
    return shlex.join([*words, "--target", namespace.target] if namespace.target != "llvm" else words)
