"""`pegbox sketch`: the sketches of a computation, or a template module of them."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from pegbox.codegen import Target
from pegbox.plugins.cli import exits
from pegbox.plugins.cli.arguments import read_args
from pegbox.report import check_distinct, check_output, write_file

_EPILOG = f"""\
examples:
  pegbox sketch my_ops.py:matmul_add 512 512 512                        the sketches and their knobs
  pegbox sketch my_ops.py:matmul_add 512 512 512 --out my_template.py   a template to edit
  pegbox tune my_template.py:matmul_add 512 512 512                     which has the same space
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
        help="an input that is packed ahead of time, by name; several times for several",
    )
    parser.add_argument("--out", type=Path, metavar="FILE.py", help="write a template module here")
    parser.add_argument("--force", action="store_true", help="overwrite FILE.py")
    parser.set_defaults(run=run, usage_error=parser.error)


def run(namespace: argparse.Namespace) -> int:
    """Print the sketches, or write the module."""
    # These load all of schedules, which a list of the commands can do without.
    from pegbox.plugins.sketch.generator import SketchGenerator
    from pegbox.plugins.sketch.template_module import check_literals, template_module, template_name
    from pegbox.task import find_workload

    if namespace.out is not None:
        _check_out(namespace)
    args, kwargs = read_args(namespace.args)
    workload = find_workload(namespace.workload)
    bound = workload.bind(args, kwargs)
    generator = SketchGenerator(layout_free="+".join(namespace.layout_free))
    space = generator(workload.tensors(*args, **kwargs), Target(namespace.target))
    if namespace.out is None:
        for sketch in space.sketches.values():
            print(f"{sketch.name}: {', '.join(knob.name for knob in sketch.knobs) or 'no knobs'}")
        return exits.DONE
    check_literals(workload, bound)
    write_file(namespace.out, template_module(space, workload.name, bound))
    template = f"{namespace.out}:{template_name(workload.name)}"
    print(f"{namespace.out}: {len(space.sketches)} sketches; next: {_next(namespace, template)}")
    return exits.DONE


def _check_out(namespace: argparse.Namespace) -> None:
    """Check, before the sketches are derived, that the module can be written."""
    out = namespace.out
    if out.suffix != ".py":
        namespace.usage_error(f"--out {out}: a template is read from a Python file; give {out}.py")
    check_distinct({"--out": out, "WORKLOAD": Path(namespace.workload.rpartition(":")[0])})
    if out.is_file() and not namespace.force:
        namespace.usage_error(f"{out} is there already; give another --out, or --force")
    check_output(out)


def _next(namespace: argparse.Namespace, template: str) -> str:
    """The command that tunes what was written."""
    words = ["pegbox", "tune", template, *namespace.args]
    return shlex.join([*words, "--target", namespace.target] if namespace.target != "llvm" else words)
