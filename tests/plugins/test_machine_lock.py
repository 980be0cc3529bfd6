"""The lock of a machine, in a folder where all its users may make files."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pegbox.errors import MeasureError
from pegbox.plugins.runners import machine_lock

TAKEN: dict[str, Callable[[Path], object]] = {
    "a FIFO": os.mkfifo,
    "a folder": Path.mkdir,
    "a link to nowhere": lambda path: path.symlink_to("nowhere"),
    "a link to a file": lambda path: path.symlink_to(__file__),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(machine_lock.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", ["pegbox-measuring.lock", "pegbox-measuring-queue.lock"])
@pytest.mark.parametrize("how", [machine_lock.alone, machine_lock.building])
@pytest.mark.parametrize("take", TAKEN.values(), ids=TAKEN)
def test_what_is_no_file_in_the_place_of_a_lock_is_named(
    folder: Path, name: str, how: Any, take: Callable[[Path], object]
) -> None:
    take(folder / name)
    remedy = f"{re.escape(repr(str(folder / name)))}, cannot be taken: .*; remove it, or set TMPDIR=DIR"
    with pytest.raises(MeasureError, match=remedy), how():
        pass


@pytest.mark.parametrize("name", ["pegbox-measuring.lock", "pegbox-measuring-queue.lock"])
@pytest.mark.parametrize("how", [machine_lock.alone, machine_lock.building])
def test_a_lock_that_is_never_free_is_an_error_and_may_be_taken_later(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, how: Any
) -> None:
    monkeypatch.setattr(machine_lock, "_PATIENCE_SECONDS", 0.05)
    files = len(os.listdir("/proc/self/fd"))
    with open(folder / name, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(MeasureError, match=f"{name}', has not been free for 0 seconds; end the process"), how():
            pass
        # A candidate that may take longer is waited for longer.
        looks = iter([False] * 3 + [True])
        with pytest.raises(machine_lock.GivenUp), how(lambda: next(looks), timeout=100.0):
            pass
    with how():
        pass
    for _ in range(100):
        if len(os.listdir("/proc/self/fd")) == files:
            break
        machine_lock.time.sleep(0.05)
    assert len(os.listdir("/proc/self/fd")) == files


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_a_lock_that_may_not_be_read_is_named(folder: Path) -> None:
    (folder / "pegbox-measuring-queue.lock").touch(mode=0)
    with pytest.raises(MeasureError, match="cannot be taken: Permission denied"), machine_lock.alone():
        pass
