"""Lazy exports: names of a package that are imported when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def on_demand(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package whose names are at home in other modules.

    Args:
        package: its `__name__`.
        homes: the module of each name. A name that is one of the package's modules stands for that module.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}; it has {', '.join(sorted(homes))}")
        home = import_module(homes[name])
        value = home if homes[name] == f"{package}.{name}" else getattr(home, name)
        setattr(sys.modules[package], name, value)
        return value

    return get


def by_name(names: Mapping[str, str]) -> dict[str, str]:
    """The module of each name, from the names of each module, which are separated by spaces."""
    return {name: home for home, listed in names.items() for name in listed.split()}
