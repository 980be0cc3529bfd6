"""Waits for descriptors, and looks at whether a process is stopped."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Sequence

from pegbox.errors import MeasureError
from pegbox.workers.descendants import state_of

_LOOK_SECONDS = 0.5


class NotStarted(MeasureError):
    """A process did not start. `explained` says that another one would not start either, for the reason in the text."""

    def __init__(self, reason: str, *, explained: bool = False) -> None:
        super().__init__(reason)
        self.explained = explained


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped, as by SIGSTOP; False if the system does not say."""
    try:
        return state_of(f"/proc/{pid}") == b"T"
    except OSError:
        return False


def is_ready(link: socket.socket, events: int, seconds: float) -> bool:
    """Return whether one of the events comes within so many seconds, or the other side is gone."""
    poller = select.poll()
    poller.register(link, events)
    return bool(poller.poll(seconds * 1000))


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
