"""Delays Ctrl-C while a result is written to the records."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def defer_interrupt() -> Iterator[None]:
    """Hold Ctrl-C back until the block is done; then `KeyboardInterrupt` is raised as usual.

    Only the main thread receives signals, and a handler that is not Python's own belongs to somebody else:
    in both cases nothing is changed.
    """
    if not _may_defer():
        yield
        return
    pending: list[int] = []

    def remember(number: int, frame: FrameType | None) -> None:
        pending.append(number)

    previous = signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
    if pending:
        raise KeyboardInterrupt


def clear_interrupt() -> None:
    """Make CPython forget a `KeyboardInterrupt` that was caught and dealt with.

    One that left an `exec` of text, as dataclasses and named tuples use when a module is imported, is kept in mind
    until the next such `exec`; at its end the process would kill itself by SIGINT, whatever its exit status.
    """
    exec("")


def _may_defer() -> bool:
    if threading.current_thread() is not threading.main_thread():
        return False
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler
