"""A Dask cluster with one worker on this machine, which starts and ends with its client.

The worker is `dask worker` in its own process, not one of `multiprocessing`, which would run the user's script again.
"""

from __future__ import annotations

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
from distributed import Client, LocalCluster, TimeoutError

from pegbox.errors import MeasureError

# Set the path before any import, which would look in the working folder first.
_BOOT = (
    "import sys; end = sys.argv.index('--'); sys.path[:] = sys.argv[end + 1:]; del sys.argv[end:]; "
    "from distributed.cli.dask_worker import main; main()"
)
# Kernels run in other processes, whose memory Dask does not see.
_WORKER = "--nthreads 1 --resources pegbox=1 --memory-limit 0 --no-dashboard"
_START_SECONDS = 60.0
_END_SECONDS = 10.0
_TAIL_BYTES = 2000


@contextlib.contextmanager
def local_client() -> Iterator[Client]:
    """Return a client of such a cluster. Raises `MeasureError` if the worker cannot start."""
    with (
        LocalCluster(
            n_workers=0,
            dashboard_address="127.0.0.1:0",  # otherwise it tries a port in use, and warns
            scheduler_kwargs={"dashboard": False},
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
        tempfile.TemporaryFile() as log,
        _worker(cluster.scheduler_address, log) as worker,
    ):
        _await_worker(client, worker, log)
        yield client


@contextlib.contextmanager
def _worker(address: str, log: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a worker and its nanny, which end with the scheduler, in their own session: the client answers Ctrl-C."""
    process = subprocess.Popen(
        [sys.executable, "-c", _BOOT, address, *_WORKER.split(), "--", *sys.path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=log,
        env={**os.environ, "DASK_INTERNAL_INHERIT_CONFIG": dask.config.serialize(dask.config.global_config)},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _await_worker(client: Client, worker: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        with contextlib.suppress(TimeoutError):
            client.wait_for_workers(1, timeout=1)
            return
        if worker.poll() is not None or time.monotonic() > deadline:
            log.seek(max(0, log.tell() - _TAIL_BYTES))
            tail = log.read().decode(errors="replace").strip()
            raise MeasureError(f"a Dask worker cannot start on this machine: {tail or 'it says nothing'}")
