"""Messages over pipes to worker processes: requests are pickles, replies are checked data.

A reply is a header (the token of its request, its kind, the length of its body) and a body: JSON text or bytes. Replies
come from a process that runs candidates, so that everything is checked and nothing is executed.
"""

from __future__ import annotations

import json
import os
import pickle
import select
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from pegbox.errors import MeasureError
from pegbox.workers.descendants import is_stopped

TOKEN_BYTES = 16
READY = bytes(TOKEN_BYTES)
"""The token of the message that a process has started, sent before any candidate runs."""

_LENGTH = struct.Struct("<Q")
_HEADER = struct.Struct(f"<{TOKEN_BYTES}scQ")
_DATA, _BYTES, _RAISED = b"d", b"b", b"r"
_CHUNK = 1 << 20
_LOOK_SECONDS = 0.5


class ChannelTimeout(Exception):
    """A message did not go through before the deadline."""


class BrokenReply(MeasureError):
    """A reply does not answer the request: it does not come from the worker's loop."""


class NotStarted(MeasureError):
    """A process did not start.

    `explained` means that another one would not start either, for the reason in the text.
    """

    def __init__(self, reason: str, *, explained: bool = False) -> None:
        super().__init__(reason)
        self.explained = explained


class Reply(NamedTuple):
    """The answer of a job: data (JSON values or bytes), or two texts if it raised, the error and its place."""

    value: Any
    raised: bool


def encode_request(request: object) -> bytes:
    """Encode a request for the pipe."""
    body = pickle.dumps(request, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(body)) + body


def read_request(fd: int) -> Any:
    """Read one request; raise `EOFError` if the other side closed the pipe."""
    (length,) = _LENGTH.unpack(_read_exactly(fd, _LENGTH.size, None))
    return pickle.loads(_read_exactly(fd, length, None))


def encode_reply(token: bytes, reply: Reply) -> bytes:
    """Encode a reply for the pipe; raise `TypeError` or `ValueError` for a value that is not data."""
    if isinstance(reply.value, bytes):
        return _HEADER.pack(token, _BYTES, len(reply.value)) + reply.value
    body = json.dumps(reply.value, allow_nan=False).encode()
    return _HEADER.pack(token, _RAISED if reply.raised else _DATA, len(body)) + body


def read_reply(fd: int, token: bytes, *, most: int, deadline: float | None = None, ended: int | None = None) -> Reply:
    """Read the reply to the request with this token, of at most `most` bytes.

    `deadline` is a value of `time.monotonic()`; None waits forever. `ended` is a descriptor that becomes readable when
    the other side is gone, even if the pipe is open. Raises `EOFError` when it is gone, also in the middle of a reply,
    `ChannelTimeout` at the deadline, and `BrokenReply` for anything but that reply.
    """
    found, kind, length = _HEADER.unpack(_read_exactly(fd, _HEADER.size, deadline, ended))
    if found != token:
        raise BrokenReply("it does not answer what was asked")
    if length > most:
        raise BrokenReply(f"it announces {length:,} bytes, {most:,} are allowed")
    body = _read_exactly(fd, length, deadline, ended)
    if kind == _BYTES:
        return Reply(body, raised=False)
    if kind not in (_DATA, _RAISED):
        raise BrokenReply(f"it is of the unknown kind {kind!r}")
    try:
        reply = Reply(json.loads(body.decode(), parse_constant=_refuse), raised=kind == _RAISED)
    except (ValueError, RecursionError) as error:
        raise BrokenReply(f"it is not JSON: {error}") from None
    match reply:
        case Reply(_, False) | Reply([str(), str()], True):
            return reply
    raise BrokenReply("its error is not in the form of two texts")


def write_all(fd: int, data: bytes, *, deadline: float | None = None) -> None:
    """Write an encoded message; raise `BrokenPipeError` if the other side is gone, `ChannelTimeout` at the deadline.

    With a deadline, a value of `time.monotonic()`, the descriptor must be non-blocking.
    """
    view = memoryview(data)
    while view:
        if deadline is not None:
            _wait(deadline, _poller(fd, select.POLLOUT))
        view = view[os.write(fd, view) :]


def is_ready(link: socket.socket, events: int, seconds: float) -> bool:
    """Return whether one of the events occurs within so many seconds, or the other side is gone."""
    return bool(_poller(link.fileno(), events).poll(seconds * 1000))


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


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number of JSON")


def _read_exactly(fd: int, count: int, deadline: float | None, ended: int | None = None) -> bytes:
    poller = None if deadline is None and ended is None else _poller(fd, select.POLLIN)
    if poller is not None and ended is not None:
        poller.register(ended, select.POLLIN)
    parts = bytearray()
    while len(parts) < count:
        if poller is not None and fd not in _wait(deadline, poller):
            raise EOFError("the other side is gone")
        part = os.read(fd, min(_CHUNK, count - len(parts)))
        if not part:
            raise EOFError("the other side closed the pipe")
        parts += part
    return bytes(parts)


def _poller(fd: int, events: int) -> select.poll:
    # poll, not select: select refuses file numbers past 1023, which a large program may well have.
    poller = select.poll()
    poller.register(fd, events)
    return poller


def _wait(deadline: float | None, poller: select.poll) -> set[int]:
    """Return the descriptors that are ready, at least one. Raises `ChannelTimeout`."""
    while True:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise ChannelTimeout
        if ready := poller.poll(None if left is None else left * 1000):
            return {fd for fd, _ in ready}
