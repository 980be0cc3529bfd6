"""The public packages: their names are documented, and plugins import nothing else.

import-linter checks the modules that plugins import. Here it is the names, imports for type checkers, and the sources
of a third party's package.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = re.split(r"^## (pegbox\.[\w.]+)$", (ROOT / "docs/reference/public.md").read_text(), flags=re.M)
DOCUMENTED = dict(zip(SECTIONS[1::2], SECTIONS[2::2], strict=True))
PUBLIC = {*DOCUMENTED, "pegbox", "pegbox.api", "pegbox.errors", "pegbox.te", "pegbox.tir", "pegbox.tir.script"}

COMMANDS_MAY_USE = ("pegbox.plugins", "pegbox.templates", "pegbox.tuners")
PLUGIN_PACKAGE = "tests/plugin_package/pegbox_acme"


def names_of(package: ModuleType) -> set[str]:
    """The names that a package lists; of one without a list, all but its modules and what begins with an underscore."""
    listed = getattr(package, "__all__", None)
    if listed is not None:
        return set(listed)
    return {n for n, value in vars(package).items() if not n.startswith("_") and not isinstance(value, ModuleType)}


def sources(folder: str) -> Iterator[Path]:
    yield from sorted((ROOT / folder).rglob("*.py"))


def imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """The modules of pegbox that are imported, each with a name taken from it; empty for the module itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.partition(".")[0] == "pegbox")
        elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").partition(".")[0] == "pegbox":
            yield from ((str(node.module), alias.name) for alias in node.names)


def beyond_the_surface(source: str, own: tuple[str, ...] = ()) -> list[str]:
    """The imports of a source that are neither public nor of packages of its own."""
    found = []
    for module, name in imports(ast.parse(source)):
        if any(f"{module}.".startswith(f"{package}.") for package in own):
            continue
        public = module in PUBLIC and (name in ("", "*") or name in names_of(importlib.import_module(module)))
        if not public:
            found.append(f"{module}: {name}" if name else module)
    return found


@pytest.mark.parametrize("package", DOCUMENTED)
def test_every_name_of_a_public_package_is_there_and_on_the_page(package: str) -> None:
    module = importlib.import_module(package)
    on_page = re.findall(r"`(\w+)`", re.sub(r"\(`.*?`\)", "", DOCUMENTED[package]))
    assert [name for name in on_page if not hasattr(module, name)] == []
    if package != "pegbox.checks":  # a module: what it imports itself is not listed
        assert names_of(module) - set(on_page) == set()


@pytest.mark.parametrize("folder", ["plugins", "templates", "tuners"])
def test_plugins_import_public_names_alone(folder: str) -> None:
    found = {}
    for path in sources(folder):
        in_cli = path.is_relative_to(ROOT / "plugins/cli")
        own = COMMANDS_MAY_USE if in_cli else (f"pegbox.{folder}",)
        found[str(path.relative_to(ROOT))] = beyond_the_surface(path.read_text(), own)
    assert {path: wrong for path, wrong in found.items() if wrong} == {}


def test_a_third_partys_package_imports_public_names_alone() -> None:
    found = {path.name: beyond_the_surface(path.read_text()) for path in sources(PLUGIN_PACKAGE)}
    assert len(found) > 3
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("from pegbox.space import ConfigSpace, Digits\nimport pegbox as pb\nfrom pegbox import te", []),
        ("from pegbox.space.random_walk import revive", ["pegbox.space.random_walk: revive"]),
        ("from pegbox.te import *", []),
        ("from pegbox.expr.nodes import *", ["pegbox.expr.nodes: *"]),
        ("from pegbox.expr import dtypes", ["pegbox.expr: dtypes"]),
        ("if TYPE_CHECKING:\n    from pegbox.measure.result import Ok", ["pegbox.measure.result: Ok"]),
        ("def late():\n    import pegbox.origin", ["pegbox.origin"]),
    ],
)
def test_the_check_itself_finds_what_is_not_public(source: str, wrong: list[str]) -> None:
    assert beyond_the_surface(source) == wrong
