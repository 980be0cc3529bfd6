from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import pegbox as pb
from pegbox.measure import Ok
from pegbox.records import Record
from pegbox.store.database import _said


@pytest.fixture(autouse=True)
def unsaid() -> None:
    """Each test hears the warnings that another has heard before."""
    _said.clear()


@pytest.fixture(scope="package")
def task() -> pb.Task:
    return pb.create_task("matmul", (8, 8, 16), target="llvm -num-cores 1")


@pytest.fixture
def record(task: pb.Task) -> Callable[..., Record]:
    """Make a record of the configuration at an index."""

    def made(index: int, cost: float, *, host: str = "", when: float = 1.7e9, **more: Any) -> Record:
        return Record.of(task, task.space.get(index), Ok((cost,), 0.25, when, host=host), **more)

    return made
