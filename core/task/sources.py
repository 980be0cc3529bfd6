"""The source files of a function: if they are unchanged, another program gets the same results.

Pegbox, Python's library and installed packages are left out, except for the function's own package.
"""

from __future__ import annotations

import ast
import inspect
import os
import sys
from collections.abc import Iterator
from importlib.util import resolve_name
from types import ModuleType

_INSTALLED = ("site-packages", "dist-packages")


def source_files(*objects: object) -> list[str] | None:
    """List the files that define functions or objects, and those that these files import, directly or not.

    Modules that are imported by a computed name don't count. Return None if a function is in no file, or if the file is
    not the source of its module.
    """
    found: dict[str, None] = {}
    seen: set[str] = set()
    for each in objects:
        function = inspect.unwrap(each) if callable(each) else each
        plain = function if hasattr(function, "__code__") or isinstance(function, type) else type(function)
        name, code = str(getattr(plain, "__module__", "")), getattr(plain, "__code__", None)
        if _is_known(name):
            continue
        home = _file(sys.modules.get(name))
        if not home or (code is not None and os.path.realpath(code.co_filename) != home):
            return None
        pending = [name]
        while pending:
            if (module := pending.pop()) in seen:
                continue
            seen.add(module)
            if not _is_known(module) and (file := _file(sys.modules.get(module))) and _belongs(file, module, name):
                found[file] = None
                pending += _imports(file, sys.modules[module])
    return sorted(found)


def _is_known(module: str) -> bool:
    package = module.partition(".")[0]
    return package == "pegbox" or (package in sys.stdlib_module_names and package != "__main__")


def _belongs(file: str, module: str, first: str) -> bool:
    """Decide if a file is a user's, or belongs to the installed package of the first module."""
    return module.partition(".")[0] == first.partition(".")[0] or not any(folder in file for folder in _INSTALLED)


def _file(module: ModuleType | None) -> str:
    file = getattr(module, "__file__", None)
    return os.path.realpath(file) if file else ""


def _imports(file: str, module: ModuleType) -> Iterator[str]:
    """Yield the names of modules that a file imports, and of packages around them."""
    try:
        with open(file, "rb") as source:
            tree = ast.parse(source.read())
    except (OSError, SyntaxError, ValueError):  # not Python
        return
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.ImportFrom):
            try:
                base = resolve_name("." * node.level + (node.module or ""), module.__package__ or "")
            except ImportError:
                continue
            names = [base, *(f"{base}.{name}" for name in names)]
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))
