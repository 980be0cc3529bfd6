"""`pegbox show`: prints the choices of a template, or one configuration as schedule, loops or code."""

from __future__ import annotations

import argparse

import pegbox as pb
from pegbox.plugins.cli import exits
from pegbox.plugins.cli.arguments import add_config_arguments, add_task_arguments, choose_config, make_task

_EPILOG = f"""\
what --emit prints:
  space      the knobs and the number of their values (the default)
  schedule   the schedule that the configuration makes, primitive by primitive
  ir         the loop program
  dag        the computation, one operation per line
  code       the computation and the schedule as te code, where a space generator derived the space
  ll         the LLVM assembly
  asm        the machine code

examples:
  pegbox show matmul 64 64 64
  pegbox show matmul 64 64 64 --config 1234 --emit ir
  pegbox show matmul 64 64 64 --records matmul-64x64x64.jsonl --emit asm | less
{exits.EXPLAINED}
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Show a template's choices, or the schedule, loops and code of one configuration"""
    parser.epilog = _EPILOG
    add_task_arguments(parser)
    add_config_arguments(parser, default="default: the first valid one")
    emits = ("space", "schedule", "ir", "dag", "code", "ll", "asm")
    parser.add_argument("--emit", choices=emits, default="space", help="what to print (default: space)")
    parser.set_defaults(run=run)


def run(namespace: argparse.Namespace) -> int:
    """Print what --emit asks for."""
    task = make_task(namespace)
    if namespace.emit == "space":
        named = namespace.config is not None or namespace.records is not None
        config = choose_config(namespace, task) if named else None
        print(task.space)
        if config is not None:
            print(config)
        return exits.DONE
    config = choose_config(namespace, task)
    match namespace.emit:
        case "schedule":
            print(task.show_schedule(config))
        case "ir":
            print(task.show_ir(config))
        case "dag":
            print(task.compute_dag)
        case "code":
            print(task.schedule_code(config), end="")
        case form:
            print(pb.build(task, config=config).source(form))
    return exits.DONE
