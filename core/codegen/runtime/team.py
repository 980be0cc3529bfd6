"""Teams: the threads of parallel kernels, each on its own core if a team takes all cores.

A kernel's threads sleep while they wait. Two threads that the system has put on one core take turns there. As they are
never both ready to run, the system sees nothing to balance, and wakes each thread where it slept (to Linux, a virtual
machine's idle cores look busy). So a kernel may run on one core for seconds while other cores idle.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING, Any

from pegbox.codegen.runtime import openmp
from pegbox.codegen.runtime.interpreter import latest_team as latest
from pegbox.workers.affinity import affinity_mask, confined, pin

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

SETTINGS = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY")
"""The environment variables with which users place threads, or leave them to the system (OMP_PROC_BIND=false)."""

_LOOK_SECONDS = 0.01
"""The seconds between two checks of the caller's affinity mask, each of which takes a microsecond."""


class _Team:
    """The threads that run a caller's parallel loops, each with its own core if the team takes all cores.

    The threads of a smaller team are left to the system, on the cores of the caller's mask: they may have to share
    cores with other programs, but have other cores to move to.

    Args:
        size: the number of threads, including the caller.
        moved: the threads' masks may differ from the caller's and are set to it.
    """

    def __init__(self, size: int, *, moved: bool = False) -> None:
        self.size = size
        self.cores = affinity_mask()
        self._home = self._seen_on = _current_core()
        self._looked = time.monotonic()
        self._threads: dict[int, int] = {}
        if any(name in os.environ for name in SETTINGS):
            return
        if size == len(self.cores):
            others = [core for core in self.cores if core != self._home]
            self._threads = dict(zip(others, self._place([[core] for core in others]), strict=True))
        elif moved:
            self._place([self.cores] * (size - 1))

    def has_moved(self) -> bool:
        """Decide, checking only now and then, if the caller's mask has changed since the team was made."""
        now, here = time.monotonic(), _current_core()
        if now - self._looked < _LOOK_SECONDS and here == self._seen_on:
            return False
        self._looked, self._seen_on = now, here
        return affinity_mask() != self.cores

    def follow(self) -> int:
        """Move the thread on the caller's new core to the caller's previous core; return the caller's core."""
        here = _current_core()
        if (thread := self._threads.pop(here, None)) is not None:
            self._threads[self._home] = thread
            pin([self._home], thread=thread)
            self._home = here
        return here

    def publish(self, core: int) -> None:
        """Let machine code run the team without a check, as long as the caller stays on that core."""
        latest.clear()  # other threads read between these lines
        latest.size, latest.core, latest.until = self.size, core, int((self._looked + _LOOK_SECONDS) * 1e9)
        latest.thread = _thread_id()

    def hold(self) -> AbstractContextManager[None]:
        """Keep the caller on its core in the body, since a thread that wakes the caller may draw it to another core."""
        here = self.follow()
        return confined([here]) if self._threads else contextlib.nullcontext()

    def release(self) -> None:
        """Leave the threads to the system; the next team may get them."""
        for thread in self._threads.values():
            pin(affinity_mask(), thread=thread)
        self._threads.clear()

    def _place(self, cores: Sequence[Sequence[int]]) -> list[int]:
        """Confine each of the other threads to its entry in `cores`; return the threads in this order."""
        number = ctypes.CFUNCTYPE(ctypes.c_int)(openmp.addresses()["omp_get_thread_num"])
        threads = [0] * len(cores)

        def place(_: int | None) -> None:
            if (own := number()) > 0:
                threads[own - 1] = threading.get_native_id()
                pin(cores[own - 1])

        body = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(place)
        parallel = ctypes.CFUNCTYPE(None, type(body), ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
        parallel(openmp.addresses()["GOMP_parallel"])(body, None, self.size, 0)
        return threads


class _Local(threading.local):
    team: _Team | None = None
    """The calling thread's latest team. The runtime keeps one per thread, and makes a new one for another size."""

    moved = False
    """True if the calling thread's mask has changed since the runtime's threads inherited it."""

    stand_in: ThreadPoolExecutor | None = None
    """A thread that runs teams for a forked one, where the runtime would wait for threads that only the parent has."""


_local = _Local()
_libc = ctypes.PyDLL(None)


def _leave_to_parent() -> None:
    latest.clear()
    if _local.team is not None or _local.stand_in is not None:
        from concurrent.futures import ThreadPoolExecutor  # slow to import

        _local.team, _local.stand_in = None, ThreadPoolExecutor(1, thread_name_prefix="pegbox-forked")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


def on_cores(function: Callable[..., Any], threads: int, *, hold: bool = False) -> Callable[..., Any]:
    """Wrap a function that runs teams of `threads` threads, to keep them on their cores; `hold` also holds the caller.

    Holding takes microseconds, and is only for timings: following the caller between calls costs a team less.
    """
    if not hasattr(_libc, "sched_getcpu"):
        return function

    def called(*arguments: Any) -> Any:
        if _local.stand_in is not None:
            return _local.stand_in.submit(called, *arguments).result()
        team = _team(threads)
        if not hold:
            team.publish(team.follow())
            return function(*arguments)
        with team.hold():
            return function(*arguments)

    return called


def _team(threads: int) -> _Team:
    team = _local.team
    moved = team is not None and team.has_moved()
    if team is None or team.size != threads or moved:
        latest.clear()
        _local.moved |= moved
        if team is not None:
            team.release()
        team = _local.team = _Team(threads, moved=_local.moved)
    return team


def _thread_id() -> int:
    """Return CPython's number for the thread, which is never reused."""
    if sys.implementation.name != "cpython":
        return -1
    state, number = _thread_functions()
    return int(number(state()))


@cache
def _thread_functions() -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    state = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyThreadState_Get", ctypes.pythonapi))
    number = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(("PyThreadState_GetID", ctypes.pythonapi))
    return state, number


def _current_core() -> int:
    return int(_libc.sched_getcpu())
