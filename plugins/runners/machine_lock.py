"""The lock of a machine, by which its processes separate timings and builds.

All users of the machine share it, so its files are among the temporary files, where everyone may create files.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import errno
import fcntl
import os
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

from pegbox.errors import MeasureError
from pegbox.workers import GivenUp

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""Flags against following a link, and against waiting for the other end of a FIFO."""

_LOOK_SECONDS = 0.1
"""The interval in seconds between checks for a wait that was given up."""

_PATIENCE_SECONDS = 300.0
"""The shortest wait for the lock after which it counts as stuck."""

_TURNS = 30
"""The number of candidates with full timeouts for which a process waits before the lock counts as stuck."""

_REMEDY = "set TMPDIR=DIR to another folder for all processes that measure on this machine"


def alone(given_up: Callable[[], bool] = bool, *, timeout: float = 0.0) -> contextlib.AbstractContextManager[None]:
    """Run the body while no other process of this machine is in such a body, which would disturb timings.

    Args:
        given_up: a function that ends the wait by returning True.
        timeout: the limit of one candidate in seconds, which lengthens the wait after which the lock counts as stuck.

    Raises:
        GivenUp: `given_up()` became true before the body could begin.
        MeasureError: the lock is stuck, or its file cannot be locked.
    """
    return _locked(fcntl.LOCK_EX, given_up, timeout)


def building(given_up: Callable[[], bool] = bool, *, timeout: float = 0.0) -> contextlib.AbstractContextManager[None]:
    """Run the body while no process of this machine is in the body of `alone`; several may be in this one.

    The arguments and errors are those of `alone`.
    """
    return _locked(fcntl.LOCK_SH, given_up, timeout)


@contextlib.contextmanager
def _locked(how: int, given_up: Callable[[], bool], timeout: float) -> Iterator[None]:
    """Hold the lock in the order of requests: builds that overtake a timing would never let it begin."""
    patience = max(_PATIENCE_SECONDS, _TURNS * timeout)
    with contextlib.ExitStack() as queue:
        _lock(queue, "measuring-queue", fcntl.LOCK_EX, given_up, patience)
        with contextlib.ExitStack() as held:
            _lock(held, "measuring", how, given_up, patience)
            queue.close()
            yield


def _lock(stack: contextlib.ExitStack, name: str, how: int, given_up: Callable[[], bool], patience: float) -> None:
    path = Path(tempfile.gettempdir()) / f"pegbox-{name}.lock"
    descriptor = _checked(path)
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        if not _wait(descriptor, how, given_up, patience):
            raise MeasureError(
                f"the lock of this machine, {str(path)!r}, has not been free for {patience:.0f} seconds; end the "
                f"process that holds it (lslocks shows it), or {_REMEDY}"
            ) from None
    except BaseException:
        os.close(descriptor)
        raise
    stack.callback(os.close, descriptor)


def _wait(descriptor: int, how: int, given_up: Callable[[], bool], patience: float) -> bool:
    """Wait for the lock; return False if it did not come in time. Then, or with `GivenUp`, close the file.

    The wait runs on a thread, since it cannot be interrupted otherwise; polling at short intervals would delay each
    trial, and disturb the one being timed.
    """
    granted: Future[None] = Future()
    threading.Thread(target=_take, args=(descriptor, how, granted), name="pegbox-lock", daemon=True).start()
    end = time.monotonic() + patience
    while not (over := given_up()) and time.monotonic() < end:
        with contextlib.suppress(concurrent.futures.TimeoutError):
            granted.result(_LOOK_SECONDS)
            return True
    if not granted.cancel():  # granted at the last moment
        return True
    if over:
        raise GivenUp
    return False


def _take(descriptor: int, how: int, granted: Future[None]) -> None:
    """Take the lock, unless it was given up meanwhile."""
    try:
        fcntl.flock(descriptor, how)
    except OSError as error:
        os.close(descriptor)
        if granted.set_running_or_notify_cancel():
            granted.set_exception(error)
        return
    if granted.set_running_or_notify_cancel():
        granted.set_result(None)
    else:
        os.close(descriptor)


def _checked(path: Path) -> int:
    """Open the file of a lock; raise `MeasureError` unless it is a regular file that can be opened."""
    try:
        descriptor = _opened(path)
    except OSError as error:
        why = "it is a link" if error.errno == errno.ELOOP else error.strerror
    else:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
        why = "it is not a regular file"
    raise MeasureError(f"the lock of this machine, {str(path)!r}, cannot be taken: {why}; remove it, or {_REMEDY}")


def _opened(path: Path) -> int:
    """Open a file that all users of this machine may lock.

    Linux refuses to create another user's file in such a folder, unless the call says that it must be new.
    """
    with contextlib.suppress(FileNotFoundError):
        return os.open(path, _READ)
    with contextlib.suppress(FileExistsError):  # another process was faster
        descriptor = os.open(path, _READ | os.O_CREAT | os.O_EXCL, 0o666)
        os.fchmod(descriptor, 0o666)
        return descriptor
    return os.open(path, _READ)
