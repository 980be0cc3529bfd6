"""What answers at the address of a Dask scheduler: asked before a client is made, which would wait for it for ever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

from pegbox.errors import MeasureError

_START = "start one with 'dask scheduler', and give the address that it prints"


def check_scheduler(address: str, *, seconds: float) -> None:
    """Raise `MeasureError` unless a scheduler answers at the address within so many seconds."""
    found = _run(_identity(address, seconds))
    if isinstance(found, Exception):
        why, remedy = _reason(found, address, seconds)
        raise MeasureError(f"scheduler={address!r}: no Dask scheduler answers there ({why}); {remedy}") from found
    if found != "Scheduler":
        raise MeasureError(
            f"scheduler={address!r}: a Dask {found.lower()} answers there, not a scheduler; give the address that "
            "'dask scheduler' prints"
        )


def _reason(error: Exception, address: str, seconds: float) -> tuple[str, str]:
    """Why nothing is known, and the remedy."""
    if isinstance(error, asyncio.TimeoutError):
        return f"something listens, but says nothing within {seconds:g} s", _START
    if isinstance(error, MemoryError):  # the first bytes of another protocol, read as a length
        return "another program listens on that port", _START
    if address.startswith("tls:"):
        return str(error), (
            "give the certificates in Dask's configuration (distributed.comm.tls), or a distributed.Client with its "
            "security"
        )
    return str(error) or type(error).__name__, _START


async def _identity(address: str, seconds: float) -> str | Exception:
    """What kind of server it is, in Dask's word, or why that is not known."""
    try:
        return await asyncio.wait_for(_asked(address, seconds), seconds + 1)
    except Exception as error:  # of the network, of TLS, or of reading what is no message of Dask's
        return error


async def _asked(address: str, seconds: float) -> str:
    from distributed.comm import connect, resolve_address
    from distributed.core import send_recv
    from distributed.security import Security

    resolve_address(address)  # a name that means nothing would be tried again and again
    comm = await connect(address, timeout=seconds, **Security().get_connection_args("client"))
    try:
        answer: dict[str, Any] = await send_recv(comm, op="identity")
        return str(answer["type"])
    finally:
        comm.abort()


def _run(question: Coroutine[Any, Any, str | Exception]) -> str | Exception:
    """The answer, from a thread of its own: in a notebook, this one has a loop that runs."""
    answers: list[str | Exception] = []
    thread = threading.Thread(target=lambda: answers.append(asyncio.run(question)), name="pegbox-identity")
    thread.start()
    thread.join()
    return answers[0]
