"""The client side of worker processes: their fork servers, and each process through its supervisor."""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from pegbox.workers.affinity import affinity_mask
from pegbox.workers.channel import ChannelTimeout, NotStarted, await_readable, encode_request, is_ready, write_all
from pegbox.workers.descendants import MARK, is_stopped, kill_marked
from pegbox.workers.supervisor import BORN, ENDED, ProcessLimits, SpawnRequest, kill_group
from pegbox.workers.watchdog import new_mark

# The path comes as arguments, because an import before it is set would look in the working folder first.
_BOOT = "import sys; sys.path[:] = sys.argv[2:]; from pegbox.workers.fork_server import main; main(sys.argv[1])"
# On macOS some frameworks do not survive the fork of a process that has loaded them.
_WARMS_UP = sys.platform == "linux"
_END_SECONDS = 5.0
_TAIL_BYTES = 2000
# Variables that programs and libraries read once, at their start: a server started with other values is useless.
_READ_AT_START = ("LD_", "PYTHON", "OPENBLAS_", "OMP_", "NPY_", "MALLOC_", "GLIBC_")


class ForkServer:
    """A fork server, from the client's side.

    It has this process's environment and path at its start. Differences for a worker go with the worker's
    `SpawnRequest`. `warm` is a module whose `warm_up` it calls before the first fork; "" for none.
    """

    name = "the fork server"

    def __init__(self, environment: Mapping[str, str], warm: str) -> None:
        self._environment = {**environment, MARK: new_mark()}
        self.warm, self._key = warm, _read_at_start(environment)
        self._workers = 0
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        # Workers that wait for a server read it even after another worker has replaced the server.
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
        """Ask it to fork a supervisor with these descriptors and the working folder, later, and if it is alive."""
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

    def failure(self) -> NotStarted:
        """Explain why a process that it should have started does not exist."""
        # Its end of the socket closes before the process has ended.
        ends = self._socket.fileno() < 0 or is_ready(self._socket, select.POLLIN, 0.0)
        if (status := _wait(self._process) if ends else None) is None:
            return NotStarted(f"{self.name} lost it")
        size = os.fstat(self._said.fileno()).st_size
        said = os.pread(self._said.fileno(), _TAIL_BYTES, max(0, size - _TAIL_BYTES)).decode(errors="replace")
        return NotStarted(f"{self.name} {how_it_ended(status)}" + (f": {said}" if said else ""), explained=status > 0)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def release(self) -> None:
        with _lock:
            self._workers -= 1

    def retire(self) -> bool:
        """Let it end after its last worker; return whether it has ended."""
        self._socket.close()
        return self._process.poll() is not None

    def close(self) -> None:
        """End it, after its supervisors if all its workers are closed.

        Other workers continue under their supervisors.
        """
        self.retire()
        if not self._workers and not is_stopped(self.pid):
            _wait(self._process)
        self.end()


class Child:
    """A process in which `pegbox.workers.serve` serves with a setting; its supervisor starts it, in the background.

    `standard` are its ends of the pipes for requests and replies, and its stderr. The process has its own session and
    group; the fork server that forks it has called `warm_up` of the module `warm`, if one is named. Raises `OSError` if
    the system cannot create a process.
    """

    def __init__(self, setting: dict[str, Any], *, standard: Sequence[int], deadline: float, warm: str) -> None:
        self._supervisor = self._pid = 0
        self._given_up = self._ended = False
        self._status: int | None = None
        self._mark = new_mark()
        self._failure: NotStarted | None = None
        # BLAS threads would only cost start-up time and address space, because workers do not use BLAS.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", MARK: self._mark}
        self._link, theirs = socket.socketpair()
        self._link.setblocking(False)
        try:
            self._server = server = server_for(environment, warm)
        except BaseException:
            self._link.close()
            theirs.close()
            raise
        try:
            with theirs:
                server.fork([theirs.fileno(), *standard])
                write_all(self._link.fileno(), encode_request(server.request(setting, environment)), deadline=deadline)
        except (BlockingIOError, ChannelTimeout):  # the requests of other workers wait there, too
            server.end()
            self._failure = NotStarted(f"{server.name} did not answer in time")
        except OSError:
            self._failure = server.failure()

    def fileno(self) -> int:
        """Return a descriptor that is readable once the process has ended, or was given up; call `born` first."""
        return self._link.fileno()

    @property
    def pid(self) -> int:
        """The process's number, which no other gets until `close`; 0 until `born` returns."""
        return self._pid

    def born(self, deadline: float) -> None:
        """Wait until the process exists. Raises `NotStarted` if it never will."""
        if self._failure is not None:
            raise self._failure
        if self._pid:
            return
        try:
            await_readable([self._link.fileno()], pid=self._server.pid, deadline=deadline)
        except NotStarted as error:
            self._server.end()
            raise NotStarted(f"{self._server.name}: {error}") from None
        if self._given_up:
            raise NotStarted("it was given up")
        message = self._receive(BORN.size)
        if not message:
            raise self._server.failure()
        self._supervisor, self._pid = BORN.unpack(message)

    @property
    def has_ended(self) -> bool:
        """True if it has ended, was given up, or has lost its supervisor."""
        return self._given_up or (bool(self._pid) and is_ready(self._link, select.POLLIN, 0.0))

    def end(self, *, marked: bool) -> int | None:
        """Kill the process and its group; return its exit status as in `subprocess.Popen`, or None if unknown.

        It may have ended already, or not be born yet. Processes with its mark are killed, too, if `marked` or if its
        supervisor is lost.
        """
        self._given_up = True
        if self._ended:
            return self._status
        if not self._pid:
            # This wakes `born`; the supervisor notices it and kills the worker that it starts.
            with contextlib.suppress(OSError):
                self._link.shutdown(socket.SHUT_RDWR)
        else:
            if not self._is_lost():
                kill_group(self._pid)
            self.await_end()
            message = self._receive(ENDED.size, socket.MSG_PEEK)  # others may wait for it, too
            self._status = ENDED.unpack(message)[0] if message else None
        if marked or self._status is None:
            kill_marked(self._mark)
        self._ended = True
        return self._status

    def await_end(self) -> None:
        """Wait at most a few seconds until its end is known."""
        self._resume_supervisor()
        is_ready(self._link, select.POLLIN, _END_SECONDS)

    def close(self) -> None:
        """Release it. The supervisor ends the process if it still runs."""
        if self._link.fileno() >= 0:
            self._resume_supervisor()
            self._link.close()
            self._server.release()

    def _resume_supervisor(self) -> None:
        """Resume the supervisor, which a candidate may have stopped."""
        if self._pid and not self._is_lost():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self._supervisor, signal.SIGCONT)

    def _is_lost(self) -> bool:
        """Decide if the supervisor has ended, so that its numbers may belong to others."""
        return self._link.fileno() < 0 or is_ready(self._link, 0, 0.0)

    def _receive(self, size: int, flags: int = 0) -> bytes:
        with contextlib.suppress(OSError):
            return self._link.recv(size, socket.MSG_WAITALL | flags)
        return b""


def how_it_ended(returncode: int | None) -> str:
    """Describe an exit status, as in `subprocess.Popen`, in words."""
    if returncode is None:
        return "ended, and its exit status is lost"
    if returncode >= 0:
        return f"exited with status {returncode}"
    try:
        return f"was killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"was killed by signal {-returncode}"


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(_END_SECONDS)
    return None


_lock = threading.Lock()
_servers: list[ForkServer] = []  # the last one of each kind forks workers; older ones still have some


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
    """Leave the servers to the process from which this one was forked."""
    global _lock
    _lock = threading.Lock()
    for server in _servers:
        server._process.returncode = 0  # not a child of this process
        server._socket.close()
    _servers.clear()


os.register_at_fork(after_in_child=_forget)
