"""Makes plugins on disk, as a package index would install them, and registries that see only those."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path

import pytest

from pegbox.hooks.manager import PluginLoader
from pegbox.hooks.registry import Registry

_serial = itertools.count()


class Site:
    """A folder on `sys.path` with modules and distributions in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def module(self, source: str) -> str:
        """Write a module under a name that no test used before; give the name."""
        name = f"made_for_test_{next(_serial)}"
        (self.folder / f"{name}.py").write_text(source)
        return name

    def install(self, distribution: str, source: str, *, entry: str = "plug", version: str = "1.0") -> str:
        """Write a distribution with one entry point of group `pegbox`; give the name of its module."""
        module = self.module("from pegbox.hooks import hookimpl\n" + source)
        info = self.folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[pegbox]\n{entry} = {module}\n")
        return module

    def entry_points(self) -> list[metadata.EntryPoint]:
        found = metadata.distributions(path=[str(self.folder)])
        return [entry for distribution in found for entry in distribution.entry_points]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.syspath_prepend(str(tmp_path))
    return Site(tmp_path)


@pytest.fixture
def make_registry(site: Site) -> Callable[..., Registry]:
    """A registry over `site`, with the built-ins and the environment that a test gives (none by default)."""

    def make(*, builtins: Mapping[str, str] | None = None, **environ: str) -> Registry:
        return Registry(
            loader=lambda table: PluginLoader(
                table, builtins=builtins or {}, environ=environ, entry_points=site.entry_points
            )
        )

    return make
