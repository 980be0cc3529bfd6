"""The process of a worker, as its parent sees it: forked by the fork server where there can be one, else spawned."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Protocol

from pegbox.codegen.targets.cores import affinity_mask
from pegbox.errors import MeasureError
from pegbox.measure.channel import READY, BrokenReply, ChannelTimeout, read_reply, write_request
from pegbox.measure.descendants import MARK
from pegbox.measure.fork_server import COLLECT, FORK, IDLE, NUMBER, UNMARKED, Birth, Standing

# The path comes as arguments: importing anything before it is set would look in the working folder first.
_BOOT = "import sys; sys.path[:] = sys.argv[2:]; from pegbox.measure.{module} import main; main()"
_START_SECONDS = 60.0
_END_SECONDS = 0.2
# What programs and libraries read once, when they start: a server that has started with other values is of no use.
_READ_AT_START = ("LD_", "PYTHON", "OPENBLAS_", "OMP_", "NPY_", "MALLOC_", "GLIBC_")


class Child(Protocol):
    """A process that this one has started, directly or not. It is in a session and a group of its own."""

    @property
    def pid(self) -> int:
        """Its number, which belongs to no other until `wait`. Raises as `read_reply` where the process never began."""
        ...

    @property
    def ended(self) -> int | None:
        """A descriptor that becomes readable when it ends; None where the system has none."""
        ...

    @property
    def alive(self) -> bool:
        """Whether it runs. One that has ended is left for `wait` to collect."""
        ...

    def wait(self) -> int | None:
        """Its exit status as of `subprocess.Popen`, once it has ended; None where nobody knows it."""
        ...

    def close(self) -> None:
        """Release what belongs to it; it has been waited for."""
        ...


def start(setting: dict[str, Any], *, mark: str, standard: Sequence[int], heard: int) -> Child:
    """A process in which `pegbox.measure.worker` serves with this setting, started at once and in the background.

    `standard` are its ends of the pipes of requests and replies, and its stderr; `heard` is the parent's end of the
    replies.
    """
    # BLAS threads would only cost start-up time and address space: workers multiply nothing themselves.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", MARK: mark}
    if _can_fork():
        return _server(environment, standard[-1]).fork(setting, environment, standard, heard)
    return _Spawned(setting, environment, standard)


@cache
def _can_fork() -> bool:
    """Does the system have what the server needs? On macOS a fork does not survive some of its frameworks."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return sys.platform == "linux"


class _Spawned:
    """An interpreter of its own."""

    def __init__(self, setting: dict[str, Any], environment: Mapping[str, str], standard: Sequence[int]) -> None:
        requests, replies, stderr = standard
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BOOT.format(module="worker"), json.dumps(setting), *sys.path],
            stdin=requests,
            stdout=replies,
            stderr=stderr,
            env=environment,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self.ended = _end_descriptor(self.pid)

    @property
    def alive(self) -> bool:
        if self._process.returncode is not None:
            return False
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:  # collected by somebody else, as where SIGCHLD is ignored
            return self._process.poll() is None

    def wait(self) -> int | None:
        return self._process.wait()

    def close(self) -> None:
        if self.ended is not None:
            os.close(self.ended)
            self.ended = None


def _end_descriptor(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


class _Forked:
    """A child of the fork server. Its first message, which nothing of a candidate can precede, says which one."""

    def __init__(self, server: _ForkServer, replies: int) -> None:
        self._server, self._replies = server, replies
        self._reading = threading.Lock()
        self._birth: tuple[int, int] | None = None
        self._waited = self._closed = False

    @property
    def pid(self) -> int:
        return self._born()[0]

    @property
    def ended(self) -> int:
        return self._born()[1]

    @property
    def alive(self) -> bool:
        try:
            return not self._waited and not self._has_ended(0)
        except (EOFError, ChannelTimeout, BrokenReply):
            return False

    def wait(self) -> int | None:
        self._has_ended(None)
        self._waited = True
        return self._server.collect(self.pid)

    def close(self) -> None:
        if self._birth is not None and not self._closed:
            os.close(self.ended)
        self._closed = True

    def _born(self) -> tuple[int, int]:
        """Its number, and the descriptor that tells of its end."""
        with self._reading:
            if self._birth is None:
                deadline = time.monotonic() + _START_SECONDS
                try:
                    pid = int(read_reply(self._replies, READY, most=100, deadline=deadline).value)
                except EOFError:
                    raise EOFError(self._server.end) from None
                self._birth = pid, os.pidfd_open(pid)
            return self._birth

    def _has_ended(self, milliseconds: int | None) -> bool:
        poller = select.poll()
        poller.register(self.ended, select.POLLIN)
        return bool(poller.poll(milliseconds))


class _ForkServer:
    """The fork server, as its client sees it.

    It has this process's environment and path as they were when it started. What differs for a worker goes with the
    request.
    """

    def __init__(self, environment: Mapping[str, str], stderr: int) -> None:
        self._environment = {**environment, MARK: UNMARKED}
        self._key = _read_at_start(environment)
        self._talk = threading.Lock()
        self._workers = 0
        self._used = time.monotonic()
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _BOOT.format(module="fork_server"), "", *sys.path],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env=self._environment,
                start_new_session=True,
            )

    def fits(self, environment: Mapping[str, str]) -> bool:
        """Whether it can fork a worker for this environment. One that may be about to end for lack of work cannot."""
        busy = self._workers or time.monotonic() - self._used < IDLE / 2
        return bool(busy) and self._key == _read_at_start(environment) and self._process.poll() is None

    def fork(
        self, setting: dict[str, Any], environment: Mapping[str, str], standard: Sequence[int], heard: int
    ) -> _Forked:
        changed: dict[str, str | None] = {
            name: value for name, value in environment.items() if self._environment.get(name) != value
        }
        changed |= dict.fromkeys(self._environment.keys() - environment.keys())
        birth = Birth(setting, list(sys.path), affinity_mask(), changed, Standing.own())
        folder = os.open(".", os.O_PATH)
        try:
            with self._talk:
                socket.send_fds(self._socket, [FORK], [*standard, folder])
                write_request(self._socket.fileno(), birth)
                self._workers += 1
        except OSError as error:
            raise MeasureError(f"a worker process could not be started: {self.end or error}") from error
        finally:
            os.close(folder)
        return _Forked(self, heard)

    def collect(self, pid: int) -> int | None:
        """The exit status of a worker that has ended; None where the server has ended itself."""
        with self._talk, contextlib.suppress(OSError):
            self._workers -= 1
            self._used = time.monotonic()
            self._socket.sendall(COLLECT + NUMBER.pack(pid))
            if answer := self._socket.recv(NUMBER.size, socket.MSG_WAITALL):
                return os.waitstatus_to_exitcode(*NUMBER.unpack(answer))
        return None

    @property
    def end(self) -> str:
        """How it has ended, as text; empty where it goes on."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return f"the fork server {how_it_ended(self._process.wait(_END_SECONDS))}"
        return ""

    def is_idle(self) -> bool:
        return not self._workers or self._process.poll() is not None

    def close(self) -> None:
        """End it. Its workers go on, but nobody learns how they end."""
        self._process.kill()
        self._process.wait()
        self._socket.close()

    def disown(self) -> None:
        """Leave it to the process that this one was forked from."""
        self._process.returncode = 0
        self._socket.close()


def how_it_ended(returncode: int | None) -> str:
    """An exit status as of `subprocess.Popen` in words."""
    if returncode is None:
        return "ended, and nobody knows how"
    return f"was killed by {_signal_name(-returncode)}" if returncode < 0 else f"exited with status {returncode}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


_lock = threading.Lock()
_servers: list[_ForkServer] = []  # the last one forks; the others have workers still


def _server(environment: Mapping[str, str], stderr: int) -> _ForkServer:
    with _lock:
        if not _servers or not _servers[-1].fits(environment):
            for server in [server for server in _servers if server.is_idle()]:
                server.close()
                _servers.remove(server)
            _servers.append(_ForkServer(environment, stderr))
        return _servers[-1]


def _read_at_start(environment: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    return sys.executable, {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


@atexit.register
def _end() -> None:
    while _servers:
        _servers.pop().close()


def _forget() -> None:
    """In a fork of this process: the servers are its parent's."""
    global _lock
    _lock = threading.Lock()
    for server in _servers:
        server.disown()
    _servers.clear()


os.register_at_fork(after_in_child=_forget)
