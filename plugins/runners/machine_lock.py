"""The lock of a machine, by which its processes keep timings and builds apart."""

from __future__ import annotations

import concurrent.futures
import contextlib
import fcntl
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

from pegbox.measure.runner import GivenUp

_READ = os.O_RDONLY | os.O_CLOEXEC

_LOOK_SECONDS = 0.1
"""How often those who wait look whether they are given up."""


def _never() -> bool:
    return False


@contextlib.contextmanager
def alone(given_up: Callable[[], bool] = _never) -> Iterator[None]:
    """Run the body while no other process of this machine is in such a body: two would disturb each other's timings.

    Raises `GivenUp` where `given_up()` becomes true before it may begin.
    """
    with _locked("measuring", fcntl.LOCK_EX, given_up):
        yield


@contextlib.contextmanager
def building(given_up: Callable[[], bool] = _never) -> Iterator[None]:
    """Run the body while no process of this machine is in the body of `alone`; others may be in one of these.

    Raises as `alone` does.
    """
    with _locked("measuring", fcntl.LOCK_SH, given_up):
        yield


@contextlib.contextmanager
def _locked(name: str, how: int, given_up: Callable[[], bool]) -> Iterator[None]:
    """Hold a lock of this machine. Who waits for it lets nobody in before him: builds would never let anyone time."""
    with contextlib.ExitStack() as queue:
        _lock(queue, f"{name}-queue", fcntl.LOCK_EX, given_up)
        with contextlib.ExitStack() as held:
            _lock(held, name, how, given_up)
            queue.close()
            yield


def _lock(stack: contextlib.ExitStack, name: str, how: int, given_up: Callable[[], bool]) -> None:
    descriptor = _opened(Path(tempfile.gettempdir()) / f"pegbox-{name}.lock")
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        _wait(descriptor, how, given_up)
    except BaseException:
        os.close(descriptor)
        raise
    stack.callback(os.close, descriptor)


def _wait(descriptor: int, how: int, given_up: Callable[[], bool]) -> None:
    """Wait for the lock on a thread, because nothing else ends the wait: looks at short intervals would come late for
    each trial, and disturb the one that is timed. Raises `GivenUp`, and closes the file then."""
    granted: Future[None] = Future()
    threading.Thread(target=_take, args=(descriptor, how, granted), name="pegbox-lock", daemon=True).start()
    while not given_up():
        with contextlib.suppress(concurrent.futures.TimeoutError):
            return granted.result(_LOOK_SECONDS)
    if granted.cancel():  # else it came at the last moment
        raise GivenUp


def _take(descriptor: int, how: int, granted: Future[None]) -> None:
    """Take the lock; who gave it up meanwhile does not get it."""
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


def _opened(path: Path) -> int:
    """A file that all users of this machine may lock. Linux lets nobody "create" what another has in such a folder,
    but for those who say that it is new."""
    with contextlib.suppress(FileNotFoundError):
        return os.open(path, _READ)
    with contextlib.suppress(FileExistsError):  # another process was faster
        descriptor = os.open(path, _READ | os.O_CREAT | os.O_EXCL, 0o666)
        os.fchmod(descriptor, 0o666)
        return descriptor
    return os.open(path, _READ)
