"""A client of a Dask scheduler: one that was given, one of an address, or one of a cluster on this machine."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pegbox.errors import ArgumentError, MeasureError
from pegbox.plugins.runners.dask_identity import check_scheduler

if TYPE_CHECKING:
    from distributed import Client

_CONNECT_SECONDS = 10.0
_JOIN_SECONDS = 10.0
_LEAST_SECONDS = 0.01
"""Without seconds, Dask waits for ever."""

START = "dask worker {address} --nthreads 1 --resources pegbox=1"
"""What starts a worker that measures."""


def address_of(client: Client) -> str:
    """The address of a client's scheduler, for messages."""
    scheduler = client.scheduler
    return str(scheduler.address if scheduler is not None else "its address")


def dashboard_of(client: Client) -> str:
    """The address of the page that shows what the cluster does, empty where there is none, as without bokeh."""

    def serves(dask_scheduler: Any) -> bool:  # it travels as code: a scheduler needs no pegbox
        return bool(dask_scheduler.http_application.applications)

    with contextlib.suppress(Exception):  # the page is no need
        if client.run_on_scheduler(serves):
            return str(client.dashboard_link or "")
    return ""


def await_worker(client: Client, *, patience: float, start: str) -> None:
    """Wait for a first worker, no longer than `patience`. Raises `MeasureError`, which says how to `start` one."""
    from distributed import TimeoutError

    try:
        client.wait_for_workers(1, timeout=max(_LEAST_SECONDS, min(_JOIN_SECONDS, patience)))
    except TimeoutError:
        raise MeasureError(f"the scheduler at {address_of(client)} has no worker; {start}") from None


def connected(scheduler: Any) -> contextlib.AbstractContextManager[Client]:
    """A client of the scheduler, which leaving the context closes; one that was given stays open.

    Raises `MeasureError` where distributed is missing, or no scheduler answers.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise MeasureError(f"the runner 'dask' needs distributed: pip install 'pegbox[dask]' ({error})") from error
    if isinstance(scheduler, Client):
        _check_usable(scheduler)
        return contextlib.nullcontext(scheduler)
    if scheduler is None:
        return _local_client()
    if not isinstance(scheduler, str):
        raise ArgumentError(
            f"scheduler={scheduler!r}: give its address, such as 'tcp://host:8786', or a distributed.Client"
        )
    return _remote_client(scheduler)


def _check_usable(client: Client) -> None:
    if client.asynchronous:
        raise ArgumentError(f"{client!r} is asynchronous; make it with Client(..., asynchronous=False)")
    if client.status != "running":
        raise MeasureError(f"{client!r} is {client.status}; make another one, or give the scheduler's address")


@contextlib.contextmanager
def _remote_client(address: str) -> Iterator[Client]:
    from distributed import Client

    with contextlib.ExitStack() as stack:
        stack.enter_context(_quiet())
        try:
            check_scheduler(address, seconds=_CONNECT_SECONDS)  # a client that was made in vain takes long to end
            client = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TypeError, ImportError) as error:
            raise MeasureError(
                f"scheduler={address!r}: no Dask scheduler answers there ({error}); start one with 'dask scheduler', "
                "and give the address that it prints"
            ) from error
        yield stack.enter_context(client)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask's tracebacks of lost connections off the terminal: what follows from them is said by errors."""
    loggers = [logging.getLogger(f"distributed.{name}") for name in ("client", "comm", "core", "utils")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextlib.contextmanager
def _local_client() -> Iterator[Client]:
    from pegbox.plugins.runners.dask_local import local_client

    with _quiet(), local_client() as client:
        yield client
