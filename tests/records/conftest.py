from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pegbox.measure import Failed, FailureKind, Ok, Result
from pegbox.records import Journal, Record
from pegbox.space import ConfigSpace


def tiling_space(length: int = 64) -> ConfigSpace:
    space = ConfigSpace()
    space.define_split("tile", length, num_outputs=2)
    space.define_knob("unroll", [0, 64, 512])
    return space


@dataclass
class FakeTask:
    """The part of a task that records need."""

    name: str = "matmul"
    args: tuple[Any, ...] = (64, (1, 2), 64)
    kwargs: dict[str, Any] = field(default_factory=lambda: {"dtype": "float32"})
    target: str = "llvm -mcpu=znver4 -num-cores 1"
    space: ConfigSpace = field(default_factory=tiling_space)
    code: str = ""

    @property
    def workload(self) -> tuple[Any, ...]:
        return (self.name, {"N": self.args[0], "shape": self.args[1:], **self.kwargs})

    @property
    def fingerprint(self) -> str:
        return self.space.fingerprint

    def record(self, index: int, result: Result | float = 1e-3, **options: Any) -> Record:
        """The record of the config at `index`; a number stands for an Ok of that cost."""
        if not isinstance(result, Ok | Failed):
            result = Ok((result,), 0.25, 1700000000.0, {"build": 0.04})
        return Record.of(self, self.space.get(index), result, **options)  # type: ignore[arg-type]


CRASH = Failed(FailureKind.CRASH, "killed by SIGSEGV", 0.1, 1700000001.0, {"build": 0.03})


@pytest.fixture
def task() -> FakeTask:
    return FakeTask()


@pytest.fixture
def other_task() -> FakeTask:
    return FakeTask(args=(32, (1, 2), 32))


@pytest.fixture
def crash() -> Failed:
    return CRASH


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "records.jsonl")
