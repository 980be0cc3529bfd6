"""What answers at the address of a Dask scheduler: asked before a client is made, which would wait for it for ever.

Also the versions of distributed: its parts understand each other in one version only, and break in many ways else.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from importlib.metadata import version
from typing import Any

from pegbox.errors import MeasureError

Answer = tuple[str, str] | Exception

_START = "start one with 'dask scheduler', and give the address that it prints"


def check_scheduler(address: str, *, seconds: float) -> None:
    """Raise `MeasureError` unless a scheduler answers at the address within so many seconds."""
    found = _run(_identity(address, seconds))
    if isinstance(found, Exception):
        why, remedy = _reason(found, address, seconds)
        raise MeasureError(f"scheduler={address!r}: no Dask scheduler answers there ({why}); {remedy}") from found
    kind, there = found
    if kind != "Scheduler":
        raise MeasureError(
            f"scheduler={address!r}: a Dask {kind.lower()} answers there, not a scheduler; give the address that "
            "'dask scheduler' prints"
        )
    check_versions({f"scheduler at {address}": there})


def check_versions(found: Mapping[str, str]) -> None:
    """Raise `MeasureError`, with a list, unless all have this process's version of distributed, by who has it."""
    here = version("distributed")
    if other := {who: there for who, there in found.items() if there != here}:
        listed = "".join(f"\n  {who}: {there}" for who, there in other.items())
        raise MeasureError(
            f"the cluster has other versions of distributed than this process ({here}); install the same there, or "
            f"theirs here (pip install dask==VERSION distributed==VERSION):{listed}"
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


async def _identity(address: str, seconds: float) -> Answer:
    """Ask the server for its kind, in Dask's word, and its version; or say why they are not known."""
    try:
        return await asyncio.wait_for(_asked(address, seconds), seconds + 1)
    except Exception as error:  # of the network, of TLS, or of reading what is no message of Dask's
        return error


async def _asked(address: str, seconds: float) -> tuple[str, str]:
    from distributed.comm import connect, resolve_address
    from distributed.core import send_recv
    from distributed.security import Security

    resolve_address(address)  # a name that means nothing would be tried again and again
    comm = await connect(address, timeout=seconds, **Security().get_connection_args("client"))
    try:
        identity: dict[str, Any] = await send_recv(comm, op="identity")
        versions: dict[str, Any] = await send_recv(comm, op="versions") if identity["type"] == "Scheduler" else {}
        return str(identity["type"]), str(versions.get("packages", {}).get("distributed"))
    finally:
        comm.abort()


def _run(question: Coroutine[Any, Any, Answer]) -> Answer:
    """The answer, from a thread of its own: in a notebook, this one has a loop that runs."""
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(asyncio.run(question)), name="pegbox-identity")
    thread.start()
    thread.join()
    return answers[0]
