"""Lazy exports: names of a package that are imported when they are first used."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def on_demand(package: str, homes: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """Make the `__getattr__` of a package that exports names from other modules.

    Args:
        package: its `__name__`.
        homes: the module of each name; by default the one from which the package imports it under `if TYPE_CHECKING`. A
            name that is one of the package's modules means that module.
    """
    known = homes

    def get(name: str) -> Any:
        nonlocal known
        if known is None:
            known = _imported_for_checkers(package)
        if name not in known:
            raise AttributeError(f"module {package!r} has no attribute {name!r}; it has {', '.join(sorted(known))}")
        home = import_module(known[name])
        value = home if known[name] == f"{package}.{name}" else getattr(home, name)
        setattr(sys.modules[package], name, value)
        return value

    return get


def _imported_for_checkers(package: str) -> dict[str, str]:
    """Find the module of each name that a package imports under a condition, as type checkers see them."""
    loader: Any = sys.modules[package].__loader__
    program = ast.parse(loader.get_source(package))  # unlike __file__, it works in a zip file
    conditions = [statement for statement in program.body if isinstance(statement, ast.If)]
    imports = [each for condition in conditions for each in condition.body if isinstance(each, ast.ImportFrom)]
    return {
        alias.name: f"{package}.{alias.name}" if each.module == package else str(each.module)
        for each in imports
        for alias in each.names
    }
