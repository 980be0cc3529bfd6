"""The processes that carry a mark in their environment, which can be found and killed in any group and session.

As a program, this module is the watchdog of `pegbox.workers.watchdog`, so it imports only the standard library.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time

MARK = "PEGBOX_WORKER"
"""The variable that holds a process's mark."""

ADD, REMOVE = b"+", b"-"
"""The first bytes of messages to the watchdog; a folder's path and a zero byte follow."""

_PASSES = 5
_PAUSE = 0.002  # seconds
_ATTEMPTS = 100
_SET_PARENT_DEATH_SIGNAL = 1


def kill_marked(mark: str) -> bool:
    """Kill the processes of this user whose marks begin with `mark`. Return whether none was left.

    Without /proc, none is found; nor is one that has cleared its environment.
    """
    for _ in range(_PASSES):  # a process may start another before it is killed
        found, unread = _look(f"{MARK}={mark}".encode())
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found and not unread:
            return True
        if not found:
            time.sleep(_PAUSE)
    return False


def resume_when_orphaned() -> None:
    """Ask the system to resume this process if it is stopped when its parent ends. Only Linux can."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGCONT)


def _look(entry: bytes) -> tuple[list[int], bool]:
    """Return the processes with an environment entry that begins so, and whether one has no readable environment yet.

    While a process executes another program, its environment is empty for a moment.
    """
    found, unread, user = [], False, os.getuid()
    with contextlib.suppress(OSError), os.scandir("/proc") as processes:
        for process in processes:
            with contextlib.suppress(OSError):
                if process.name.isdecimal() and process.stat().st_uid == user:
                    environment = _read(f"{process.path}/environ")
                    if b"\0" + entry in b"\0" + environment:
                        found.append(int(process.name))
                    unread = unread or (not environment and not _has_ended(process.path))
    return found, unread


def _has_ended(path: str) -> bool:
    """Return whether a process has no program, because it has ended or is a thread of the kernel."""
    return state_of(path) in b"ZX" or not os.path.lexists(f"{path}/exe")


def state_of(path: str) -> bytes:
    """Return the letter for the state of the process with that folder in /proc: T if it is stopped. See proc(5)."""
    return _read(f"{path}/stat").rpartition(b") ")[2][:1]


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped, as by SIGSTOP; False if the system does not tell."""
    try:
        return state_of(f"/proc/{pid}") == b"T"
    except OSError:
        return False


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def main() -> None:
    """Wait until the other end of standard input is closed; then kill and remove everything that its process left.

    `sys.argv[1]` is the beginning of its workers' marks.
    """
    resume_when_orphaned()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    folders: set[bytes] = set()
    pending = b""
    while received := os.read(0, 1 << 16):
        *messages, pending = (pending + received).split(b"\0")
        for message in messages:
            (folders.add if message[:1] == ADD else folders.discard)(message[1:])
    for _ in range(_ATTEMPTS):
        if kill_marked(sys.argv[1]):
            break
        time.sleep(_PAUSE * 10)
    if folders:
        import shutil  # takes a third of this program's start
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
