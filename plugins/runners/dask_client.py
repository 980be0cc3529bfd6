"""A client of a Dask scheduler: a given one, one for an address, or one for a cluster on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from pegbox.errors import ArgumentError, MeasureError

if TYPE_CHECKING:
    from distributed import Client

_CONNECT_SECONDS = 10.0
_JOIN_SECONDS = 10.0
_LEAST_SECONDS = 0.01
"""The shortest wait in seconds: with zero, Dask waits forever."""

START = "dask worker {address} --nthreads 1 --resources pegbox=1"
"""The command that starts a measuring worker."""


def address_of(client: Client) -> str:
    """Return the address of a client's scheduler, for messages."""
    scheduler = client.scheduler
    return str(scheduler.address if scheduler is not None else "its address")


def dashboard_of(client: Client) -> str:
    """Return the address of the page that shows the cluster at work; empty if there is none, as without bokeh."""

    def serves(dask_scheduler: Any) -> bool:  # sent as code, since a scheduler needs no pegbox
        return bool(dask_scheduler.http_application.applications)

    with contextlib.suppress(Exception):  # the page is optional
        if client.run_on_scheduler(serves):
            return str(client.dashboard_link or "")
    return ""


def await_worker(client: Client, *, patience: float, start: str) -> None:
    """Wait for a first worker, no longer than `patience`. Raises `MeasureError` with the command to `start` one."""
    from distributed import TimeoutError

    try:
        client.wait_for_workers(1, timeout=max(_LEAST_SECONDS, min(_JOIN_SECONDS, patience)))
    except TimeoutError:
        raise MeasureError(f"the scheduler at {address_of(client)} has no worker; {start}") from None


def check_versions(versions: Mapping[str, str]) -> None:
    """Check that all have this process's version of distributed, since versions do not understand each other; the keys
    name the processes.

    Raises `MeasureError` with a list of the others.
    """
    here = version("distributed")
    if other := {place: there for place, there in versions.items() if there != here}:
        listed = "".join(f"\n  {place}: {there}" for place, there in other.items())
        raise MeasureError(
            f"the cluster has other versions of distributed than this process ({here}); install the same there, or "
            f"theirs here (pip install dask==VERSION distributed==VERSION):{listed}"
        )


def connected(scheduler: Any) -> contextlib.AbstractContextManager[Client]:
    """Yield a client of the scheduler, and close it at the end; a given one stays open.

    Raises `MeasureError` if distributed is missing, or no scheduler answers.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise MeasureError(f"the runner 'dask' needs distributed: pip install 'pegbox[dask]' ({error})") from error
    if scheduler is None:
        return _local_client()
    if isinstance(scheduler, str):
        return _remote_client(scheduler)
    if not isinstance(scheduler, Client):
        raise ArgumentError(
            f"scheduler={scheduler!r}: give its address, such as 'tcp://host:8786', or a distributed.Client"
        )
    if scheduler.asynchronous:
        raise ArgumentError(f"{scheduler!r} is asynchronous; make it with Client(..., asynchronous=False)")
    if scheduler.status != "running":
        raise MeasureError(f"{scheduler!r} is {scheduler.status}; make another one, or give the scheduler's address")
    return contextlib.nullcontext(scheduler)


@contextlib.contextmanager
def _local_client() -> Iterator[Client]:
    from pegbox.plugins.runners.dask_local import local_client

    with _quiet(), local_client() as client:
        yield client


@contextlib.contextmanager
def _remote_client(address: str) -> Iterator[Client]:
    from distributed import Client

    with _quiet(), contextlib.ExitStack() as stack:
        start = "start one with 'dask scheduler', and give the address that it prints"
        try:
            # A client without a scheduler is slow to end. In a notebook, this thread has a running loop.
            with ThreadPoolExecutor(1) as thread:
                kind, there = thread.submit(asyncio.run, _identity(address)).result()
            if kind == "Scheduler":
                check_versions({f"scheduler at {address}": there})
                client = stack.enter_context(Client(address, timeout=_CONNECT_SECONDS, set_as_default=False))
        except MeasureError:
            raise
        except Exception as error:  # errors of the network, of TLS, or of another protocol
            why = str(error) or type(error).__name__
            if isinstance(error, asyncio.TimeoutError):
                why = f"a program listens there, but did not reply within {_CONNECT_SECONDS:g} s"
            elif isinstance(error, MemoryError):  # another protocol's first bytes, read as a length
                why = "another program listens on that port"
            elif address.startswith("tls:"):
                start = (
                    "give the certificates in Dask's configuration (distributed.comm.tls), or a distributed.Client "
                    "with its security"
                )
            raise MeasureError(f"scheduler={address!r}: no Dask scheduler answers there ({why}); {start}") from error
        if kind != "Scheduler":
            raise MeasureError(
                f"scheduler={address!r}: a Dask {kind.lower()} answers there, not a scheduler; give the address that "
                "'dask scheduler' prints"
            )
        yield client


async def _identity(address: str) -> tuple[str, str]:
    """Ask the server at the address for its kind, in Dask's word, and its version of distributed."""
    from distributed.comm import connect, resolve_address
    from distributed.core import send_recv
    from distributed.security import Security

    async def ask() -> tuple[str, str]:
        resolve_address(address)  # an unknown name would be tried again and again
        comm = await connect(address, timeout=_CONNECT_SECONDS, **Security().get_connection_args("client"))
        try:
            kind: str = (await send_recv(comm, op="identity"))["type"]
            versions: dict[str, Any] = await send_recv(comm, op="versions") if kind == "Scheduler" else {}
            return kind, str(versions.get("packages", {}).get("distributed"))
        finally:
            comm.abort()

    return await asyncio.wait_for(ask(), _CONNECT_SECONDS + 1)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask's tracebacks of lost connections off the terminal: pegbox's errors explain their effects."""
    loggers = [logging.getLogger(f"distributed.{name}") for name in ("client", "comm", "core", "utils")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
