"""The fork servers of this process, as their client sees them."""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from pegbox.workers.affinity import affinity_mask
from pegbox.workers.channel import is_ready
from pegbox.workers.descendants import MARK, is_stopped
from pegbox.workers.supervisor import ProcessLimits, SpawnRequest
from pegbox.workers.watchdog import new_mark

# The path comes as arguments: importing anything before it is set would look in the working folder first.
_BOOT = "import sys; sys.path[:] = sys.argv[2:]; from pegbox.workers.fork_server import main; main(sys.argv[1])"
# On macOS some frameworks do not survive the fork of a process that has loaded them.
_WARMS_UP = sys.platform == "linux"
_END_SECONDS = 5.0
_TAIL_BYTES = 2000
# What programs and libraries read once, when they start: a server that has started with other values is of no use.
_READ_AT_START = ("LD_", "PYTHON", "OPENBLAS_", "OMP_", "NPY_", "MALLOC_", "GLIBC_")


class ForkServer:
    """The fork server, as its client sees it.

    It has this process's environment and path as they were when it started. What differs for a worker goes with the
    worker's `SpawnRequest`. `warm` is a module whose `warm_up` it calls before the first fork; "" for none.
    """

    name = "the fork server"

    def __init__(self, environment: Mapping[str, str], warm: str) -> None:
        self._environment = {**environment, MARK: new_mark()}
        self.warm, self._key = warm, _read_at_start(environment)
        self._workers = 0
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        # Workers that wait for a server read it after the server has been replaced for another one's sake.
        weakref.finalize(self, self._said.close)
        self._socket, theirs = socket.socketpair()
        self._socket.setblocking(False)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _BOOT, warm if _WARMS_UP else "", *sys.path],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                env=self._environment,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def fits(self, environment: Mapping[str, str], warm: str) -> bool:
        """Return whether it can fork a worker for this environment."""
        return self.warm == warm and self._key == _read_at_start(environment) and self._process.poll() is None

    def fork(self, descriptors: Sequence[int]) -> None:
        """Have it fork a supervisor with these descriptors and the working folder; it does so later, if it lives."""
        with _lock:
            self._workers += 1
        folder = os.open(".", os.O_RDONLY)
        try:
            socket.send_fds(self._socket, [b"f"], [*descriptors, folder])
        finally:
            os.close(folder)

    def request(self, setting: dict[str, Any], environment: Mapping[str, str]) -> SpawnRequest:
        """Describe a worker: its setting, and this process's state that it inherits."""
        old = self._environment
        changes: dict[str, str | None] = {name: value for name, value in environment.items() if old.get(name) != value}
        changes |= dict.fromkeys(old.keys() - environment.keys())
        return SpawnRequest(setting, list(sys.path), affinity_mask(), changes, ProcessLimits.own())

    def how_ended(self) -> tuple[int | None, str]:
        # Its end of the socket is closed before it has ended.
        ends = self._socket.fileno() < 0 or is_ready(self._socket, select.POLLIN, 0.0)
        status = _wait(self._process) if ends else None
        size = os.fstat(self._said.fileno()).st_size
        return status, os.pread(self._said.fileno(), _TAIL_BYTES, max(0, size - _TAIL_BYTES)).decode(errors="replace")

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def release(self) -> None:
        with _lock:
            self._workers -= 1

    def retire(self) -> bool:
        """Let it end when its last worker has ended; return whether it has ended."""
        self._socket.close()
        return self._process.poll() is not None

    def close(self) -> None:
        """End it; if all its workers are closed, after their supervisors. Others go on: they have supervisors."""
        self.retire()
        if not self._workers and not is_stopped(self.pid):
            _wait(self._process)
        self.end()

    def disown(self) -> None:
        """Leave it to the process that this one was forked from."""
        self._process.returncode = 0
        self._socket.close()


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(_END_SECONDS)
    return None


_lock = threading.Lock()
_servers: list[ForkServer] = []  # the last one of each kind forks; the others still have workers


def server_for(environment: Mapping[str, str], warm: str) -> ForkServer:
    """Return the server that forks workers for this environment; start one if there is none."""
    with _lock:
        alike = [server for server in _servers if server.warm == warm]
        if alike and alike[-1].fits(environment, warm):
            return alike[-1]
        for server in alike:
            if server.retire():
                server.close()
                _servers.remove(server)
        _servers.append(ForkServer(environment, warm))
        return _servers[-1]


def _read_at_start(environment: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    return sys.executable, {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


@atexit.register
def _end() -> None:
    while _servers:
        _servers.pop().close()


def _forget() -> None:
    """Leave the servers to the process that this one was forked from."""
    global _lock
    _lock = threading.Lock()
    for server in _servers:
        server.disown()
    _servers.clear()


os.register_at_fork(after_in_child=_forget)
