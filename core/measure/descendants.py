"""Processes started by candidates: found by a mark in their environment, and killed."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

MARK = "PEGBOX_WORKER"
"""The variable that holds a worker's mark."""

_PASSES = 5


def kill_marked(mark: str) -> None:
    """Kill the processes of this user that carry the mark, whatever group and session they are in.

    Where there is no /proc, none is found. One that has cleared its environment is not found either.
    """
    for _ in range(_PASSES):  # one may start another between the look and the kill
        found = list(_marked(f"{MARK}={mark}".encode()))
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def _marked(entry: bytes) -> Iterator[int]:
    user = os.getuid()
    with contextlib.suppress(OSError), os.scandir("/proc") as processes:
        for process in processes:
            with contextlib.suppress(OSError):
                if process.name.isdecimal() and process.stat().st_uid == user and entry in _environment(process.path):
                    yield int(process.name)


def _environment(path: str) -> list[bytes]:
    with open(f"{path}/environ", "rb") as file:
        return file.read().split(b"\0")
