"""The process that computes most on this machine, other than this one and its workers."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import NamedTuple

PROC = "/proc"

LEAST_LOAD = 0.15
"""The share of a core that another program must use to disturb timings."""

_SECONDS = 0.2


class _Process(NamedTuple):
    name: str
    parent: int
    ticks: int


def busiest_process(sleep: Callable[[float], None] = time.sleep) -> str:
    """Return the busiest process and its load, "python (process 4711, 98% of a core)"; empty if none is visible.

    It looks twice, with a fifth of a second between.
    """
    before, began = _processes(), time.perf_counter()
    if not before:
        return ""
    sleep(_SECONDS)
    after, passed = _processes(), max(time.perf_counter() - began, _SECONDS)
    used = {pid: now.ticks - before[pid].ticks for pid, now in after.items() if pid in before and not _ours(pid, after)}
    pid = max(used, key=lambda pid: used[pid], default=0)
    load = used.get(pid, 0) / os.sysconf("SC_CLK_TCK") / passed
    return f"{after[pid].name} (process {pid}, {load:.0%} of a core)" if load >= LEAST_LOAD else ""


def _ours(pid: int, known: dict[int, _Process]) -> bool:
    """Decide if a process is this one, or was started by it."""
    for _ in range(len(known)):
        if pid == os.getpid():
            return True
        if pid not in known:
            return False
        pid = known[pid].parent
    return False


def _processes() -> dict[int, _Process]:
    """List the visible processes by number; none without /proc."""
    found: dict[int, _Process] = {}
    with contextlib.suppress(OSError):
        for entry in os.listdir(PROC):
            if entry.isdecimal():
                with contextlib.suppress(OSError, ValueError, IndexError):
                    found[int(entry)] = _read(f"{PROC}/{entry}/stat")
    return found


def _read(path: str) -> _Process:
    # The name is in parentheses and may contain any character; only numbers follow the last parenthesis.
    with open(path, "rb") as file:
        head, _, tail = file.read().rpartition(b") ")
    fields = tail.split()
    return _Process(
        head.partition(b" (")[2].decode(errors="replace"), int(fields[1]), int(fields[11]) + int(fields[12])
    )
