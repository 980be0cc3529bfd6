"""Ctrl-C: held back while a record is written; the first one ends a search, a second one ends a loop of searches."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

TWICE_SECONDS = 5.0
"""The longest time in seconds between two Ctrl-C that end a loop of searches."""

_absorbed = -math.inf


@contextmanager
def defer_interrupt() -> Iterator[None]:
    """Hold Ctrl-C back until the block is done; then `KeyboardInterrupt` is raised as usual.

    Only the main thread receives signals, and a handler other than Python's belongs to the user's program: elsewhere,
    and with another handler, this changes nothing.
    """
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
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


def absorb_interrupt() -> bool:
    """Note a caught `KeyboardInterrupt`; return whether it is a second one, soon after the first.

    The user then wants to leave a loop of searches, so the caller must raise another. After the first one, CPython is
    made to forget it. If an interrupt leaves an `exec` of text, such as dataclasses and named tuples use when a module
    is imported, CPython remembers it until the next such `exec`, and the process would finally kill itself by SIGINT,
    whatever its exit status.
    """
    global _absorbed
    exec("")
    now = time.monotonic()
    again, _absorbed = now - _absorbed < TWICE_SECONDS, now
    return again
