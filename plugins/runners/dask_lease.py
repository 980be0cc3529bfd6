"""Worker plugins that leave the workers of a Dask cluster with the client that brought them, even if it is killed."""

from __future__ import annotations

import asyncio
import contextlib

from distributed import Client, Future, Worker, WorkerPlugin

from pegbox.errors import MeasureError
from pegbox.plugins.runners.dask_broadcast import briefly

LEASE = 15.0
"""Seconds between two questions whether the client is still there."""


class LeasedPlugin(WorkerPlugin):  # type: ignore[misc]
    """A worker plugin that asks the scheduler for its client, and leaves all workers when that is gone.

    `name` is the plugin's, and the key of a task that the client waits for: Dask forgets it with the client.
    """

    name: str
    _watch: asyncio.Task[None] | None = None

    async def setup(self, worker: Worker) -> None:
        """Called by Dask where the worker is."""
        self._watch = asyncio.create_task(self._leave_with_client(worker))

    async def teardown(self, worker: Worker) -> None:
        """Called by Dask when the client says so, and when the worker ends."""
        if self._watch is not None and self._watch is not asyncio.current_task():
            self._watch.cancel()

    async def _leave_with_client(self, worker: Worker) -> None:
        state: object = "unknown"
        while state is not None:
            await asyncio.sleep(LEASE)
            with contextlib.suppress(OSError):  # a worker whose scheduler is gone ends
                state = (await worker.scheduler.get_task_status(keys=[self.name]))[self.name]
        with contextlib.suppress(OSError, ValueError):  # the plugin of another worker may have been faster
            await worker.scheduler.unregister_worker_plugin(name=self.name)
        if self.name in worker.plugins:
            await worker.plugin_remove(name=self.name)


class Lease:
    """A plugin on all workers of a cluster, also on those that join later, until `close`.

    Raises `MeasureError` where a worker cannot take it.
    """

    def __init__(self, client: Client, plugin: LeasedPlugin) -> None:
        self._client, self._name = client, plugin.name
        # No worker has the resource. A result would keep Dask from retiring the worker that has it.
        self._wanted: Future = client.submit(_never, key=plugin.name, pure=False, resources={plugin.name: 1})
        try:
            client.register_plugin(plugin, name=plugin.name)
        except Exception as error:
            raise MeasureError(
                f"a worker of the cluster ended when it was given what its tasks need, or cannot use it "
                f"({type(error).__name__}: {error}); its log says more: its memory (dask worker --memory-limit) must "
                "hold that (the inputs and outputs, recorded spaces), and its packages must be those of this process"
            ) from error

    def close(self) -> None:
        """Take the plugin from the workers."""
        if self._client.status == "running":
            self._wanted.release()
            briefly(lambda: self._client.unregister_worker_plugin(self._name))


def _never() -> None:
    """The task that is known as long as its client is there."""
