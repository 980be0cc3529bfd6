"""Runs the command line in this process, over an API that answers at once and noise how it was called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pegbox as pb
from pegbox.plugins.cli import main


@dataclass
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture
def pegbox(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """`pegbox("tune", "matmul", 64)`, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> Ran:
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


class Space:
    """Six configurations, of which only the odd ones are valid."""

    def __str__(self) -> str:
        return "the space"

    def get(self, index: int) -> str:
        if index >= 6:
            raise pb.errors.SpaceError(f"index {index} is outside of the space of 6")
        return f"config {index}"

    def iterate(self) -> Any:
        return iter([self.get(index) for index in (1, 3, 5)])


@dataclass
class Api:
    """The calls of the API that the commands made."""

    calls: dict[str, dict[str, Any]] = field(default_factory=dict)
    best: Any = "the best"
    stopped_because: str = "trials"
    space: Any = field(default_factory=Space)
    first_failed: Any = None
    emulated: bool = False
    goes_on: bool = False
    noise: tuple[str, ...] = ()

    def create_task(self, template: Any, **options: Any) -> Any:
        self.calls["create_task"] = {"template": template, **options}
        return SimpleNamespace(
            name="fake",
            space=self.space,
            show_schedule=lambda config: f"schedule of {config}",
            show_ir=lambda config: f"loops of {config}",
        )

    def tune(self, task: Any, **options: Any) -> Any:
        self.calls["tune"] = options
        return _Result(
            self.best,
            self.stopped_because,
            first_failed=self.first_failed,
            emulated=self.emulated,
            goes_on=self.goes_on,
            noise=self.noise,
            task=SimpleNamespace(target=SimpleNamespace(num_cores=2)) if self.noise else None,
        )

    def build(self, task: Any, *, config: Any) -> Any:
        return SimpleNamespace(source=lambda kind: f"{kind} of {config}")

    def export(self, task: Any, config: Any, path: Path, *, header: bool) -> None:
        self.calls["export"] = {"config": config, "path": path, "header": header}


@dataclass
class _Result:
    best: Any
    stopped_because: str
    all_trials: tuple[int, ...] = (1, 2, 3)
    first_failed: Any = None
    emulated: bool = False
    goes_on: bool = False
    noise: tuple[str, ...] = ()
    task: Any = None

    def __str__(self) -> str:
        return "the table"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    fake = Api()
    for name in ("create_task", "tune", "build", "export"):
        monkeypatch.setattr(pb, name, getattr(fake, name), raising=False)
    return fake
