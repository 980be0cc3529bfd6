"""Processes started by candidates: found by a mark in their environment, and killed."""

from __future__ import annotations

import contextlib
import os
import signal
import time

MARK = "PEGBOX_WORKER"
"""The variable that holds a worker's mark."""

_PASSES = 5
_PAUSE = 0.002  # seconds


def kill_marked(mark: str) -> None:
    """Kill the processes of this user that carry the mark, whatever group and session they are in.

    Where there is no /proc, none is found. One that has cleared its environment is not found either.
    """
    for _ in range(_PASSES):  # one may start another between the look and the kill
        found, unread = _look(f"{MARK}={mark}".encode())
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found and not unread:
            return
        if not found:
            time.sleep(_PAUSE)


def _look(entry: bytes) -> tuple[list[int], bool]:
    """The processes that have the entry in their environment; is there one that has none to read yet?

    While a process executes another program, its environment is empty for a moment.
    """
    found, unread, user = [], False, os.getuid()
    with contextlib.suppress(OSError), os.scandir("/proc") as processes:
        for process in processes:
            with contextlib.suppress(OSError):
                if process.name.isdecimal() and process.stat().st_uid == user:
                    environment = _read(f"{process.path}/environ")
                    if entry in environment.split(b"\0"):
                        found.append(int(process.name))
                    unread = unread or (not environment and not _has_ended(process.path))
    return found, unread


def _has_ended(path: str) -> bool:
    """Is there no program in a process any more (or never was: threads of the kernel)?"""
    return _read(f"{path}/stat").rpartition(b") ")[2][:1] in b"ZX" or not os.path.lexists(f"{path}/exe")


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
