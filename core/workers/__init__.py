"""Worker processes that run jobs: starting, checked channels, watching, killing, and pools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.exports import on_demand

if TYPE_CHECKING:
    from pegbox.workers.channel import BrokenReply
    from pegbox.workers.pool import IdleTimer, Pool
    from pegbox.workers.process import GivenUp, JobError, Worker, WorkerDied, WorkerTimeout

__all__ = [
    "BrokenReply", "GivenUp", "IdleTimer", "JobError", "Pool", "Worker", "WorkerDied", "WorkerTimeout",
]  # fmt: skip

__getattr__ = on_demand(__name__)


def __dir__() -> list[str]:
    return __all__
