"""Which configuration a command works on: --config N, the best in --records FILE, or the first valid one."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pegbox.plugins.cli.arguments import natural
from pegbox.plugins.cli.exits import NothingFound

if TYPE_CHECKING:
    from pegbox.space import Config
    from pegbox.task.task import Task


def add_config_arguments(parser: argparse.ArgumentParser, *, default: str) -> None:
    """--config and --records, which exclude each other; `default` says what happens without them."""
    parser.add_argument("--config", type=natural, metavar="N", help=f"a configuration by its index ({default})")
    parser.add_argument("--records", type=Path, metavar="FILE", help="the best configuration in a records file")
    parser.set_defaults(usage_error=parser.error)


def choose_config(namespace: argparse.Namespace, task: Task) -> Config:
    """The configuration that the arguments name. Raises SpaceError, RecordError or NothingFound."""
    if namespace.config is not None and namespace.records is not None:
        namespace.usage_error("--config and --records exclude each other")
    if namespace.config is not None:
        return task.space.get(namespace.config)
    if namespace.records is not None:
        from pegbox.plugins.cli.history import best_config  # loads NumPy, which 'pegbox --help' should not wait for

        return best_config(namespace.records, task)
    first = next(iter(task.space.iterate()), None)
    if first is None:
        raise NothingFound(f"the space of {task.name} has no valid configuration")
    return first
