"""The pages on runners and cost models are true: their files make a plugin that is found, works and keeps its contract.

Here they are put where an installer would put them; tests/packaging/test_write_a_tuner.py runs the installer itself.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from pegbox.hooks import registry
from pegbox.hooks.manager import PluginLoader
from pegbox.hooks.refs import parse_nested, parse_spec
from pegbox.hooks.registry import Registry
from pegbox.measure import Failed, FailureKind, Ok, RunnerWrapper
from pegbox.search import make_cost_model

DOCS = Path(__file__).resolve().parents[2] / "docs"


class Page:
    """A page whose code blocks are files and commands."""

    def __init__(self, name: str) -> None:
        text = (DOCS / name).read_text()
        self.files = dict(re.findall(r"^`([\w.]+)`[^\n]*\n\n```\w+\n(.*?)^```$", text, flags=re.M | re.S))
        self.commands = re.findall(r"^```sh\n(.*?)^```$", text, flags=re.M | re.S)[0].splitlines()
        self.module, self.test = sorted(name.removesuffix(".py") for name in self.files if name.endswith(".py"))

    def install(self, folder: Path) -> None:
        for name, content in self.files.items():
            (folder / name).write_text(content)
        (entry,) = re.findall(r"^\[project.entry-points.pegbox\]\n(.+)$", self.files["pyproject.toml"], flags=re.M)
        info = folder / f"{self.module}-0.1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {self.module}\nVersion: 0.1\n")
        (info / "entry_points.txt").write_text("[pegbox]\n" + entry.replace('"', "") + "\n")


RUNNER, MODEL = Page("write-a-runner.md"), Page("write-a-cost-model.md")


@pytest.fixture
def installed(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """Return the view of a process that has the page's package and no other."""
    page: Page = request.param
    page.install(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (distribution,) = metadata.distributions(path=[str(tmp_path)])
    entries = distribution.entry_points
    yield Registry(loader=lambda table: PluginLoader(table, builtins={}, entry_points=lambda: entries))
    for name in (page.module, page.test):
        sys.modules.pop(name, None)


def contract(page: Page) -> Any:
    """An object of the page's test class."""
    (made,) = (kind for name, kind in vars(importlib.import_module(page.test)).items() if name.startswith("Test"))
    return made()


@pytest.mark.parametrize("page", [RUNNER, MODEL], ids=["runner", "cost model"])
def test_the_page_goes_from_files_to_use(page: Page) -> None:
    assert set(page.files) == {"pyproject.toml", f"{page.module}.py", f"{page.test}.py"}
    assert f'py-modules = ["{page.module}"]' in page.files["pyproject.toml"]
    assert page.commands[:3] == ["pip install -e .", f"python -m pytest {page.test}.py", "pegbox plugins"]
    for command in page.commands[3:]:
        parser = argparse.ArgumentParser()
        registry.get("cli_command", command.split()[1])(parser)
        parser.parse_intermixed_args(command.split()[2:])


@pytest.mark.parametrize("installed", [RUNNER], indirect=True)
def test_the_runner_is_found_and_keeps_the_contract(installed: Registry) -> None:
    assert installed.names("runner") == ["patient"]
    assert issubclass(installed.get("runner", "patient"), RunnerWrapper)  # says what results are compared with
    suite = contract(RUNNER)
    suite.setup_method()
    try:
        suite.test_a_wrong_element_is_a_wrong_result()
    finally:
        suite.teardown_class()


@pytest.mark.parametrize("installed", [RUNNER], indirect=True)
def test_the_runner_times_again_what_is_unsteady(installed: Registry) -> None:
    class Recorded:
        def __init__(self, *results: Any) -> None:
            self.results = list(results)

        def run(self, program: Any, *, best: float) -> Any:
            return self.results.pop(0)

    unsteady, steady, failed = Ok((1.0, 2.0)), Ok((1.0, 1.01)), Failed(FailureKind.CRASH, "died")
    runner = installed.get("runner", "patient").__new__(installed.get("runner", "patient"))
    runner.spread, runner.tries = 0.1, 3
    for answers, chosen, left in (
        ((steady, unsteady), steady, 1),
        ((unsteady, Ok((1.0, 1.5)), unsteady, steady), Ok((1.0, 1.5)), 1),
        ((unsteady, failed, steady), failed, 1),
    ):
        runner.inner = Recorded(*answers)
        assert runner.run(None) == chosen
        assert len(runner.inner.results) == left


@pytest.mark.parametrize("installed", [MODEL], indirect=True)
def test_the_cost_model_is_found_and_keeps_the_contract(installed: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    assert installed.names("cost_model") == ["nearest"]
    suite = contract(MODEL)
    for name in dir(suite):
        if name.startswith("test_") and "another_process" not in name:
            getattr(suite, name)()
    monkeypatch.setattr("pegbox.hooks.registry.resolve", installed.resolve)
    written = parse_spec(MODEL.commands[3].rpartition(" ")[2]).options["cost_model"]
    assert parse_nested(written).options == {"neighbors": "4"}
    assert make_cost_model(written).neighbors == 4  # type: ignore[attr-defined]
