"""Pickled messages over pipes: eight bytes of length, then the pickle."""

from __future__ import annotations

import os
import pickle
import select
import struct
import time
from typing import Any

_HEADER = struct.Struct("<Q")
_CHUNK = 1 << 20


class ChannelTimeout(Exception):
    """No whole message arrived before the deadline."""


def write_message(fd: int, message: object) -> None:
    """Write one message; raises `BrokenPipeError` when the other side is gone."""
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    _write_all(fd, _HEADER.pack(len(body)) + body)


def read_message(fd: int, *, deadline: float | None = None) -> Any:
    """Read one message.

    `deadline` is a value of `time.monotonic()`; None waits for ever. Raises `EOFError` when the other side closed the
    pipe, also in the middle of a message, and `ChannelTimeout` at the deadline.
    """
    (length,) = _HEADER.unpack(_read_exactly(fd, _HEADER.size, deadline))
    return pickle.loads(_read_exactly(fd, length, deadline))


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _read_exactly(fd: int, count: int, deadline: float | None) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        _wait_readable(fd, deadline)
        part = os.read(fd, min(_CHUNK, count - len(parts)))
        if not part:
            raise EOFError("the other side closed the pipe")
        parts += part
    return bytes(parts)


def _wait_readable(fd: int, deadline: float | None) -> None:
    if deadline is None:
        return
    # poll, not select: select refuses file numbers past 1023, which a large program may well have.
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise ChannelTimeout
        if poller.poll(left * 1000):
            return
