"""A worker's supervisor: the process that starts the worker, reports how it ends, and ends it when its client is gone.

It is the parent of one worker, so that a candidate that stops or kills its parent reaches no other process. It computes
nothing, runs one thread, and needs neither the fork server nor an answer of the client.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from pegbox.workers.affinity import pin
from pegbox.workers.channel import read_request
from pegbox.workers.descendants import MARK, resume_when_orphaned
from pegbox.workers.serve import serve

BORN = struct.Struct("<ii")
"""The first message to the client: the numbers of the supervisor and of the worker."""

ENDED = struct.Struct("<i")
"""The second and last message to the client: the worker's exit status as in `subprocess.Popen`."""

_LIMITS = sorted({number for name, number in vars(resource).items() if name.startswith("RLIMIT_")})


class ProcessLimits(NamedTuple):
    """A process's limits by number, each soft and hard, its mask of permissions, and its priority."""

    limits: dict[int, tuple[int, int]]
    umask: int
    nice: int

    @classmethod
    def own(cls) -> ProcessLimits:
        """Read those of this process. The mask comes from /proc, because the call that returns it also sets it."""
        masks: list[int] = []
        with contextlib.suppress(OSError), open("/proc/self/status") as file:
            masks = [int(line.split()[1], 8) for line in file if line.startswith("Umask:")]
        limits = {number: resource.getrlimit(number) for number in _LIMITS}
        return cls(limits, masks[0] if masks else -1, os.getpriority(os.PRIO_PROCESS, 0))

    def apply(self) -> None:
        """Set these limits for this process, as far as allowed: rights that it has given up cannot be restored."""
        if self.umask >= 0:
            os.umask(self.umask)
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, self.nice)
        for number, limit in self.limits.items():
            with contextlib.suppress(OSError, ValueError):
                if limit != resource.getrlimit(number):
                    resource.setrlimit(number, limit)


class SpawnRequest(NamedTuple):
    """The setting of a worker, and the state that it would have inherited from its client."""

    setting: dict[str, Any]
    path: list[str]
    cores: tuple[int, ...]
    environment: dict[str, str | None]
    """The variables that differ from the supervisor's; None for missing ones."""
    limits: ProcessLimits


def supervise(link: int, descriptors: Sequence[int]) -> NoReturn:
    """Start the worker whose `SpawnRequest` comes through `link`; stay until it has ended and the client has read the
    report.

    The descriptors are the pipes of requests and replies, the file for stderr, and the working folder.
    """
    try:
        os.dup2(descriptors[2], 2)
        resume_when_orphaned()
        os.setsid()
        with _Ends() as ends:
            request = read_request(link)
            pid = os.fork()
            if pid == 0:
                os.close(link)
                ends.__exit__()
                _become_worker(descriptors, request)
            for descriptor in descriptors:
                os.close(descriptor)
            _report(link, pid, ends)
    except (EOFError, BrokenPipeError, ConnectionError):
        pass
    except BaseException:
        _print_traceback()
    os._exit(0)


class _Ends:
    """The ends of child processes, visible as a descriptor that becomes readable."""

    def __enter__(self) -> _Ends:
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._theirs.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(self._theirs.fileno(), warn_on_full_buffer=False)
        return self

    def __exit__(self, *error: object) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._ours.close()
        self._theirs.close()

    def wait(self, link: int) -> bool:
        """Wait for the end of a child, or of the link; return whether the link still holds."""
        ready, _, _ = select.select([self._ours.fileno(), link], [], [])
        with contextlib.suppress(BlockingIOError):
            self._ours.recv(100)
        return link not in ready


def _report(link: int, pid: int, ends: _Ends) -> None:
    """Report the worker and its end to the client. The worker keeps its number until the client closes the link."""
    try:
        os.write(link, BORN.pack(os.getpid(), pid))
        while (status := _status(pid)) is None and ends.wait(link):
            pass
        if status is not None:
            os.write(link, ENDED.pack(status))
            os.read(link, 1)
    finally:
        kill_group(pid)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _status(pid: int) -> int | None:
    """Return the exit status of a child; None while it runs."""
    if not hasattr(os, "waitid"):  # on macOS
        found, status = os.waitpid(pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if found else None
    result = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if result is None:
        return None
    return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status


def kill_group(pid: int) -> None:
    """Kill a worker with its group; it may have ended already."""
    for kill in (os.killpg, os.kill):  # the worker may not lead a group yet
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def _become_worker(descriptors: Sequence[int], request: SpawnRequest) -> NoReturn:
    try:
        os.setsid()
        os.fchdir(descriptors[-1])
        for standard, descriptor in enumerate(descriptors[:-1]):
            os.dup2(descriptor, standard)
        for descriptor in descriptors:
            os.close(descriptor)
        _inherit(request)
        serve(request.setting)
    except BaseException:
        _print_traceback()
    finally:
        os._exit(1)


def _print_traceback() -> None:
    traceback.print_exc()
    sys.stderr.flush()


def _inherit(request: SpawnRequest) -> None:
    """Take over the client's state.

    The mark is also written into the memory of the program's initial environment, which the system shows for this
    process and its forks; a change of `os.environ` only reaches programs started later.
    """
    request.limits.apply()
    pin(request.cores)
    sys.path[:] = request.path
    if mark := request.environment.get(MARK):
        getenv = ctypes.CDLL(None).getenv
        getenv.restype = ctypes.c_void_p
        ctypes.memmove(getenv(MARK.encode()), mark.encode(), len(mark))
    for name, value in request.environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
