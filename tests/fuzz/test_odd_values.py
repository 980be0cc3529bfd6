"""Public names called with odd values: pegbox refuses them with an error of its own, or returns.

A run of the tests makes some thousands of calls, the same ones each time; PEGBOX_FUZZ=1 makes all that there are.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from odd.calls import call, fault, is_exempt, valid_arguments
from odd.given import World
from odd.names import ROOMS, Name, public_names
from odd.values import ODD

ALL = bool(int(os.environ.get("PEGBOX_FUZZ", "0")))
EACH = 3
"""Odd values that a run of the tests tries for each argument."""
SLOW = {
    "pegbox.Comparison.plot", "pegbox.Comparison.to_html", "pegbox.Comparison.write_paper",
    "pegbox.build", "pegbox.compare", "pegbox.export",
    "pegbox.search.TuneResult.plot", "pegbox.search.TuneResult.to_html", "pegbox.search.compare", "pegbox.sweep",
    "pegbox.codegen.write_shared_library", "pegbox.tune_model",
}  # fmt: skip
"""Names whose valid calls take long, and are tried with all values only."""

_watched: list[str] = []
_watching = False


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching and event == "open" and isinstance(arguments[0], str | bytes):
        path, mode, flags = os.fsdecode(arguments[0]), arguments[1], arguments[2]
        writes = set(mode or "") & set("wax+") or (isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR))
        if writes:
            _watched.append(os.path.abspath(path))


sys.addaudithook(_watch)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to call in; files written elsewhere fail the test."""
    global _watching
    monkeypatch.chdir(tmp_path)
    _watched.clear()
    _watching = True
    yield tmp_path
    _watching = False
    allowed = (tempfile.gettempdir(), str(tmp_path), "/dev", "/proc")
    outside = {path for path in _watched if not path.startswith(allowed) and "__pycache__" not in path}
    assert not outside, f"written: {sorted(outside)}"


def names_of(room: str) -> list[Name]:
    """The callables of a package that are called in this run."""
    named = [name for name in public_names() if name.room == room]
    return [name for name in named if not is_exempt(name) and (ALL or str(name) not in SLOW)]


def tried(name: Name, parameter: str) -> list[str]:
    """The odd values that an argument gets in this run."""
    if ALL:
        return list(ODD)
    return random.Random(f"{name} {parameter}").sample(list(ODD), EACH)


@pytest.mark.parametrize("room", ROOMS)
def test_valid_calls_end_well(room: str, world: Path) -> None:
    """Each public name has a valid call, in which an odd value can replace an argument."""
    for name in names_of(room):
        here = World(world)
        arguments = valid_arguments(name, here)
        assert not (wrong := fault(lambda: call(name, here, arguments))), f"{name}: {wrong}"  # noqa: B023


@pytest.mark.parametrize("room", ROOMS)
def test_an_odd_value_is_refused_with_an_error_of_pegbox_or_accepted(room: str, world: Path) -> None:
    wrong: list[str] = []
    for name in names_of(room):
        for parameter in name.parameters:
            for label in tried(name, parameter):
                here = World(world)
                arguments = {**valid_arguments(name, here), parameter: ODD[label]()}
                if found := fault(lambda: call(name, here, arguments)):  # noqa: B023
                    wrong.append(f"{name}, {parameter} = {label}: {found}")
    assert not wrong, "\n".join(wrong)
