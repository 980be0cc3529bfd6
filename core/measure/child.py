"""The process of a worker, as its client sees it: through a supervisor, which the fork server forks if there can be
one."""

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
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pegbox.codegen.targets.cores import affinity_mask
from pegbox.descendants import MARK, state_of
from pegbox.errors import MeasureError
from pegbox.measure.channel import ChannelTimeout, write_request
from pegbox.measure.supervisor import BORN, ENDED, Birth, Standing, kill_group
from pegbox.watchdog import new_mark

# The path comes as arguments: importing anything before it is set would look in the working folder first.
_BOOT = "import sys; sys.path[:] = sys.argv[2:]; from pegbox.measure.{module} import main; main()"
_LOOK_SECONDS = 0.5
_END_SECONDS = 5.0
_TAIL_BYTES = 2000
# What programs and libraries read once, when they start: a server that has started with other values is of no use.
_READ_AT_START = ("LD_", "PYTHON", "OPENBLAS_", "OMP_", "NPY_", "MALLOC_", "GLIBC_")


class NotStarted(MeasureError):
    """A process did not start. `explained` says that another one would not start either, for the reason in the text."""

    def __init__(self, reason: str, *, explained: bool = False) -> None:
        super().__init__(reason)
        self.explained = explained


def start(setting: dict[str, Any], *, mark: str, standard: Sequence[int], deadline: float) -> Child:
    """Begin a process in which `pegbox.measure.worker` serves with this setting; it starts in the background.

    `standard` are its ends of the pipes of requests and replies, and its stderr. The process is in a session and a
    group of its own. Raises `OSError` if the system has no process to give.
    """
    # BLAS threads would only cost start-up time and address space: workers multiply nothing themselves.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", MARK: mark}
    link, theirs = socket.socketpair()
    link.setblocking(False)
    with theirs:
        try:
            origin = _server(environment) if _can_fork() else _Spawned(environment, theirs.fileno(), standard)
        except BaseException:
            link.close()
            raise
        child = Child(link, origin)
        try:
            if isinstance(origin, _ForkServer):
                origin.fork([theirs.fileno(), *standard])
            write_request(link.fileno(), origin.birth(setting, environment), deadline=deadline)
        except (BlockingIOError, ChannelTimeout):  # what others have asked for waits there, too
            origin.end()
            child.failure = NotStarted(f"{origin.name} did not answer in time")
        except OSError:
            child.failure = _failed(origin)
    return child


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped, as by SIGSTOP; False if the system does not say."""
    try:
        return state_of(f"/proc/{pid}") == b"T"
    except OSError:
        return False


def await_readable(descriptors: Sequence[int], *, pid: int, deadline: float) -> None:
    """Wait until one of the descriptors is readable. Raises `NotStarted` at the deadline, or if `pid` is stopped."""
    poller = select.poll()
    for descriptor in descriptors:
        poller.register(descriptor, select.POLLIN)
    while not poller.poll(max(0.0, min(_LOOK_SECONDS, deadline - time.monotonic())) * 1000):
        if is_stopped(pid):
            raise NotStarted("it was stopped")
        if time.monotonic() >= deadline:
            raise NotStarted("it did not answer in time")


class Child:
    """A worker's process, which its supervisor has started, or is about to start."""

    def __init__(self, link: socket.socket, origin: _Origin) -> None:
        self._link, self._origin = link, origin
        self._supervisor = self._pid = 0
        self._given_up = False
        self.failure: NotStarted | None = None
        """Why it will never be born, if that is known."""

    def fileno(self) -> int:
        """Return a descriptor that is readable once the process has ended, or was given up; not before `born`."""
        return self._link.fileno()

    @property
    def pid(self) -> int:
        """Its number, which belongs to no other until `close`; 0 until `born` returns."""
        return self._pid

    def born(self, deadline: float) -> None:
        """Wait until the process exists. Raises `NotStarted` if it never will."""
        if self.failure is not None:
            raise self.failure
        if self._pid:
            return
        try:
            await_readable([self._link.fileno()], pid=self._origin.pid, deadline=deadline)
        except NotStarted as error:
            self._origin.end()
            raise NotStarted(f"{self._origin.name}: {error}") from None
        if self._given_up:
            raise NotStarted("it was given up")
        message = self._receive(BORN.size)
        if not message:
            raise _failed(self._origin)
        self._supervisor, self._pid = BORN.unpack(message)

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, or was given up, or has lost its supervisor."""
        return self._given_up or (bool(self._pid) and _is_ready(self._link, select.POLLIN, 0.0))

    def end(self) -> None:
        """Kill the process and its group. It may have ended already, and it may not be born yet."""
        self._given_up = True
        if not self._pid:
            with contextlib.suppress(OSError):  # wakes `born`; the supervisor sees it and kills what it starts
                self._link.shutdown(socket.SHUT_RDWR)
        elif not self._is_lost():
            kill_group(self._pid)

    def await_end(self) -> None:
        """Wait until it is known that it has ended, for some seconds at most."""
        self._resume_supervisor()
        _is_ready(self._link, select.POLLIN, _END_SECONDS)

    def status(self) -> int | None:
        """Return its exit status as of `subprocess.Popen` when it ends, or None if nothing is known within seconds."""
        if not self._pid:
            return None
        self.await_end()
        message = self._receive(ENDED.size, socket.MSG_PEEK)  # others may wait for it, too
        return ENDED.unpack(message)[0] if message else None

    def close(self) -> None:
        """Release it. The supervisor ends the process if it still runs."""
        if self._link.fileno() >= 0:
            self._resume_supervisor()
            self._link.close()
            self._origin.release()

    def _resume_supervisor(self) -> None:
        """Let the supervisor go on: a candidate may have stopped it."""
        if self._pid and not self._is_lost():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self._supervisor, signal.SIGCONT)

    def _is_lost(self) -> bool:
        """Whether the supervisor has ended, so that its numbers may belong to others."""
        return self._link.fileno() < 0 or _is_ready(self._link, 0, 0.0)

    def _receive(self, size: int, flags: int = 0) -> bytes:
        with contextlib.suppress(OSError):
            return self._link.recv(size, socket.MSG_WAITALL | flags)
        return b""


def _is_ready(link: socket.socket, events: int, seconds: float) -> bool:
    """Whether one of the events has come, or the other side is gone."""
    poller = select.poll()
    poller.register(link, events)
    return bool(poller.poll(seconds * 1000))


def _failed(origin: _Origin) -> NotStarted:
    """Why what `origin` should have started is not there."""
    status, said = origin.how_ended()
    if status is None:
        return NotStarted(f"{origin.name} lost it")
    return NotStarted(f"{origin.name} {how_it_ended(status)}" + (f": {said}" if said else ""), explained=status > 0)


class _Origin(Protocol):
    """What starts a supervisor."""

    name: str

    @property
    def pid(self) -> int: ...

    def birth(self, setting: dict[str, Any], environment: Mapping[str, str]) -> Birth:
        """Return what the supervisor has to know."""
        ...

    def how_ended(self) -> tuple[int | None, str]:
        """Return its exit status, if it has ended or is about to, and what it wrote to stderr."""
        ...

    def end(self) -> None:
        """Kill it."""
        ...

    def release(self) -> None:
        """Take note that a worker's link has been closed."""
        ...


class _Spawned:
    """A supervisor that is an interpreter of its own. What it writes to stderr is in the worker's file."""

    name = "its supervisor"

    def __init__(self, environment: Mapping[str, str], link: int, standard: Sequence[int]) -> None:
        requests, replies, stderr = standard
        self._environment = {**environment, MARK: new_mark()}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BOOT.format(module="supervisor"), f"{requests},{replies}", *sys.path],
            stdin=link,
            stdout=stderr,
            stderr=stderr,
            pass_fds=(requests, replies),
            env=self._environment,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def birth(self, setting: dict[str, Any], environment: Mapping[str, str]) -> Birth:
        return Birth(setting, list(sys.path), affinity_mask(), _changes(self._environment, environment), None)

    def how_ended(self) -> tuple[int | None, str]:
        return _wait(self._process), ""

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def release(self) -> None:
        if _wait(self._process) is None:
            self.end()


class _ForkServer:
    """The fork server, as its client sees it.

    It has this process's environment and path as they were when it started. What differs for a worker goes with the
    worker's `Birth`.
    """

    name = "the fork server"

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = {**environment, MARK: new_mark()}
        self._key = _read_at_start(environment)
        self._workers = 0
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        # Workers that wait for a server read it after the server has been replaced for another one's sake.
        weakref.finalize(self, self._said.close)
        self._socket, theirs = socket.socketpair()
        self._socket.setblocking(False)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _BOOT.format(module="fork_server"), "", *sys.path],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                env=self._environment,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def fits(self, environment: Mapping[str, str]) -> bool:
        """Whether it can fork a worker for this environment."""
        return self._key == _read_at_start(environment) and self._process.poll() is None

    def fork(self, descriptors: Sequence[int]) -> None:
        """Have it fork a supervisor with these descriptors and the working folder; it does so later, if it lives."""
        with _lock:
            self._workers += 1
        folder = os.open(".", os.O_PATH)
        try:
            socket.send_fds(self._socket, [b"f"], [*descriptors, folder])
        finally:
            os.close(folder)

    def birth(self, setting: dict[str, Any], environment: Mapping[str, str]) -> Birth:
        changes = _changes(self._environment, environment)
        return Birth(setting, list(sys.path), affinity_mask(), changes, Standing.own())

    def how_ended(self) -> tuple[int | None, str]:
        # Its end of the socket is closed before it has ended.
        ends = self._socket.fileno() < 0 or _is_ready(self._socket, select.POLLIN, 0.0)
        status = _wait(self._process) if ends else None
        size = os.fstat(self._said.fileno()).st_size
        return status, os.pread(self._said.fileno(), _TAIL_BYTES, max(0, size - _TAIL_BYTES)).decode(errors="replace")

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def release(self) -> None:
        with _lock:
            self._workers -= 1

    def retire(self) -> None:
        """Let it end when its last worker has ended."""
        self._socket.close()

    def close(self) -> None:
        """End it; if all its workers are closed, after their supervisors. Others go on: they have supervisors."""
        self.retire()
        if not self._workers and not is_stopped(self.pid):
            _wait(self._process)
        self.end()

    @property
    def is_over(self) -> bool:
        return self._process.poll() is not None

    def disown(self) -> None:
        """Leave it to the process that this one was forked from."""
        self._process.returncode = 0
        self._socket.close()


def how_it_ended(returncode: int | None) -> str:
    """An exit status as of `subprocess.Popen` in words."""
    if returncode is None:
        return "ended, and its exit status is lost"
    return f"was killed by {_signal_name(-returncode)}" if returncode < 0 else f"exited with status {returncode}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _can_fork() -> bool:
    """Whether a process may be forked that has libraries loaded. On macOS some frameworks do not survive it."""
    return sys.platform == "linux"


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(_END_SECONDS)
    return None


def _changes(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str | None]:
    """Return the variables that differ; None for those that are missing."""
    changed: dict[str, str | None] = {name: value for name, value in new.items() if old.get(name) != value}
    return changed | dict.fromkeys(old.keys() - new.keys())


_lock = threading.Lock()
_servers: list[_ForkServer] = []  # the last one forks; the others still have workers


def _server(environment: Mapping[str, str]) -> _ForkServer:
    with _lock:
        if not _servers or not _servers[-1].fits(environment):
            for server in _servers[:]:
                server.retire()
                if server.is_over:
                    server.close()
                    _servers.remove(server)
            _servers.append(_ForkServer(environment))
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
