"""The process of a worker, as its client sees it: through a supervisor, which a fork server forks."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
from collections.abc import Sequence
from typing import Any

from pegbox.workers.channel import ChannelTimeout, NotStarted, await_readable, encode_request, is_ready, write_all
from pegbox.workers.descendants import MARK
from pegbox.workers.fork_client import ForkServer, server_for
from pegbox.workers.supervisor import BORN, ENDED, kill_group

_END_SECONDS = 5.0


def start(setting: dict[str, Any], *, mark: str, standard: Sequence[int], deadline: float, warm: str = "") -> Child:
    """Begin a process in which `pegbox.workers.serve` serves with this setting; it starts in the background.

    `standard` are its ends of the pipes of requests and replies, and its stderr. The process is in a session and a
    group of its own; the fork server that forks it has called `warm_up` of the module `warm`, if one is named. Raises
    `OSError` if the system has no process to give.
    """
    # BLAS threads would only cost start-up time and address space: workers multiply nothing themselves.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", MARK: mark}
    link, theirs = socket.socketpair()
    link.setblocking(False)
    with theirs:
        try:
            server = server_for(environment, warm)
        except BaseException:
            link.close()
            raise
        child = Child(link, server)
        try:
            server.fork([theirs.fileno(), *standard])
            write_all(link.fileno(), encode_request(server.request(setting, environment)), deadline=deadline)
        except (BlockingIOError, ChannelTimeout):  # what others have asked for waits there, too
            server.end()
            child.failure = NotStarted(f"{server.name} did not answer in time")
        except OSError:
            child.failure = _failed(server)
    return child


class Child:
    """A worker's process, which its supervisor has started, or is about to start."""

    def __init__(self, link: socket.socket, server: ForkServer) -> None:
        self._link, self._server = link, server
        self._supervisor = self._pid = 0
        self._given_up = False
        self.failure: NotStarted | None = None
        """The reason why it will never be born, if that is known."""

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
            await_readable([self._link.fileno()], pid=self._server.pid, deadline=deadline)
        except NotStarted as error:
            self._server.end()
            raise NotStarted(f"{self._server.name}: {error}") from None
        if self._given_up:
            raise NotStarted("it was given up")
        message = self._receive(BORN.size)
        if not message:
            raise _failed(self._server)
        self._supervisor, self._pid = BORN.unpack(message)

    @property
    def has_ended(self) -> bool:
        """True if it has ended, or was given up, or has lost its supervisor."""
        return self._given_up or (bool(self._pid) and is_ready(self._link, select.POLLIN, 0.0))

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
        is_ready(self._link, select.POLLIN, _END_SECONDS)

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
            self._server.release()

    def _resume_supervisor(self) -> None:
        """Let the supervisor go on: a candidate may have stopped it."""
        if self._pid and not self._is_lost():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self._supervisor, signal.SIGCONT)

    def _is_lost(self) -> bool:
        """Decide whether the supervisor has ended, so that its numbers may belong to others."""
        return self._link.fileno() < 0 or is_ready(self._link, 0, 0.0)

    def _receive(self, size: int, flags: int = 0) -> bytes:
        with contextlib.suppress(OSError):
            return self._link.recv(size, socket.MSG_WAITALL | flags)
        return b""


def _failed(server: ForkServer) -> NotStarted:
    """Explain why a process that `server` should have started does not exist."""
    status, said = server.how_ended()
    if status is None:
        return NotStarted(f"{server.name} lost it")
    return NotStarted(f"{server.name} {how_it_ended(status)}" + (f": {said}" if said else ""), explained=status > 0)


def how_it_ended(returncode: int | None) -> str:
    """Put an exit status, as of `subprocess.Popen`, into words."""
    if returncode is None:
        return "ended, and its exit status is lost"
    return f"was killed by {_signal_name(-returncode)}" if returncode < 0 else f"exited with status {returncode}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
