"""`Counters`: the numbers of candidates that a cluster's worker has measured, by searching process."""

from __future__ import annotations

import threading
from collections.abc import Mapping

_LATEST = 3

EARLIER = "earlier ones"
"""The name that counts all processes but the latest."""


class Counters:
    """Counts for the latest three searching processes, the most recent last; several threads may add."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._earlier = 0
        self._lock = threading.Lock()

    def add(self, process: str) -> None:
        """Count a candidate of the process."""
        with self._lock:
            self._counts[process] = self._counts.pop(process, 0) + 1
            if len(self._counts) > _LATEST:
                self._earlier += self._counts.pop(next(iter(self._counts)))

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of candidates of each process."""
        with self._lock:
            return {EARLIER: self._earlier, **self._counts} if self._earlier else dict(self._counts)
