"""The watchdog: a process that notices the end of this one, however it ends, and cleans up after it.

It kills the processes that carry this process's mark, even stopped ones, and removes the folders in its care. Workers
are not its children and do not know it. If it is killed, its next use starts another.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, cast

from pegbox.workers import descendants
from pegbox.workers.descendants import ADD, MARK, REMOVE

MARK_LENGTH = 32
"""The number of characters of a mark."""

_HALF_BYTES = MARK_LENGTH // 4
_END_SECONDS = 2.0

_lock = threading.RLock()
_folders: set[str] = set()
_running: list[subprocess.Popen[bytes]] = []  # at most one
_own_mark = secrets.token_hex(_HALF_BYTES)


def new_mark() -> str:
    """Return a mark for a process that must not outlive this one. Start the watchdog if it is not running.

    The process must get it as the variable `MARK` of its environment. `kill_marked` kills it, with everything that it
    started.
    """
    with _lock:
        _ensure()
        return _own_mark + secrets.token_hex(_HALF_BYTES)


def guard(folder: str | os.PathLike[str]) -> None:
    """Let the watchdog remove a folder when this process ends."""
    path = os.path.abspath(folder)
    with _lock:
        _ensure()
        _folders.add(path)
        _send(ADD, path)


def release(folder: str | os.PathLike[str]) -> None:
    """Stop watching a folder."""
    path = os.path.abspath(folder)
    with _lock:
        _folders.discard(path)
        if _running:
            _send(REMOVE, path)


def _ensure() -> None:
    """Start the watchdog unless it lives."""
    if _running and _running[0].poll() is not None:
        _close()
    if not _running:
        with contextlib.suppress(OSError):  # no process available: the work itself will fail for the same reason
            _start()


def _start() -> None:
    # Start without `site`, which takes half of the time. A worker's own watchdog must not have the worker's mark,
    # because it outlives the worker.
    environment = {name: value for name, value in os.environ.items() if name != MARK}
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(descendants.__file__)), _own_mark],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=environment,
        start_new_session=True,
    )
    os.set_blocking(_pipe(process).fileno(), False)
    _running.append(process)
    for folder in list(_folders):
        _write(process, ADD, folder)


def _send(what: bytes, path: str) -> None:
    if not _running:
        return
    try:
        _write(_running[0], what, path)
    except OSError:  # killed, or stopped until the pipe was full
        _running[0].kill()
        _close()
        _ensure()


def _write(process: subprocess.Popen[bytes], what: bytes, path: str) -> None:
    os.write(_pipe(process).fileno(), what + os.fsencode(path) + b"\0")


def _pipe(process: subprocess.Popen[bytes]) -> IO[bytes]:
    return cast("IO[bytes]", process.stdin)


def _close() -> None:
    process = _running.pop()
    with contextlib.suppress(OSError):
        _pipe(process).close()
    process.send_signal(signal.SIGCONT)  # it may be stopped
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS)


@atexit.register
def _end() -> None:
    """Let the watchdog finish its work now, so that nothing is left after this process has ended."""
    with _lock:
        if _running:
            _close()


def _forget() -> None:
    """Leave the watchdog to the process from which this one was forked."""
    global _lock, _own_mark
    _lock = threading.RLock()
    _own_mark = secrets.token_hex(_HALF_BYTES)
    _folders.clear()
    for process in _running:
        process.returncode = 0  # not this one's child
        with contextlib.suppress(OSError):
            _pipe(process).close()
    _running.clear()


os.register_at_fork(after_in_child=_forget)
