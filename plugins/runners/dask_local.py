"""A Dask cluster of one worker on this machine, which starts and ends with its client.

The worker's nanny is in a process of its own, not of `multiprocessing`: that would run the user's script once more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import IO

import dask.config
from distributed import Client, LocalCluster, Nanny, TimeoutError

from pegbox.errors import MeasureError

# The path comes as arguments: importing anything before it is set would look in the working folder first.
_BOOT = "import sys; sys.path[:] = sys.argv[2:]; from pegbox.plugins.runners.dask_local import main; main()"
_START_SECONDS = 60.0
_END_SECONDS = 10.0
_TAIL_BYTES = 2000


@contextlib.contextmanager
def local_client() -> Iterator[Client]:
    """A client of such a cluster. Raises `MeasureError` where the worker cannot start."""
    with (
        LocalCluster(
            n_workers=0,
            dashboard_address="127.0.0.1:0",  # else it tries a port that others have, and warns
            scheduler_kwargs={"dashboard": False},
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
        tempfile.TemporaryFile() as log,
        _nanny(cluster.scheduler_address, log) as nanny,
    ):
        _await_worker(client, nanny, log)
        yield client


@contextlib.contextmanager
def _nanny(address: str, log: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A nanny's process, in a session of its own: the client answers Ctrl-C. It ends with its standard input."""
    process = subprocess.Popen(
        [sys.executable, "-c", _BOOT, address, *sys.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=log,
        env={**os.environ, "DASK_INTERNAL_INHERIT_CONFIG": dask.config.serialize(dask.config.global_config)},
        start_new_session=True,
    )
    assert process.stdin is not None
    try:
        yield process
    finally:
        process.stdin.close()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _await_worker(client: Client, nanny: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        with contextlib.suppress(TimeoutError):
            client.wait_for_workers(1, timeout=1)
            return
        if nanny.poll() is not None or time.monotonic() > deadline:
            log.seek(max(0, log.tell() - _TAIL_BYTES))
            tail = log.read().decode(errors="replace").strip()
            raise MeasureError(f"a Dask worker cannot start on this machine: {tail or 'it says nothing'}")


def main() -> None:
    """The nanny's process: `main address path...`."""
    asyncio.run(_serve(sys.argv[1]))


async def _serve(address: str) -> None:
    """Keep a worker running until standard input ends, as it does with the process of the client."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    # Kernels run in other processes, whose memory Dask does not see.
    options = {"nthreads": 1, "resources": {"pegbox": 1}, "memory_limit": 0, "silence_logs": logging.CRITICAL}
    async with Nanny(address, dashboard=False, **options) as nanny:
        ends = {asyncio.create_task(reader.read()), asyncio.create_task(nanny.finished())}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
