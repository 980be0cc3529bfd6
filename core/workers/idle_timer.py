"""`IdleTimer`: ends what has not been used for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class IdleTimer:
    """Calls `action` on a thread of its own, `seconds` after the last `restart` unless `stop` was called since."""

    def __init__(self, seconds: float, action: Callable[[], object]) -> None:
        self._seconds, self._action = seconds, action
        self._lock = threading.Lock()
        self._end: float | None = None
        self._timer: threading.Timer | None = None

    def restart(self) -> None:
        """Count from now on. A thread that already waits goes on waiting, so that this costs next to nothing."""
        with self._lock:
            self._end = time.monotonic() + self._seconds
            if self._timer is None:
                self._wait(self._seconds)

    def stop(self) -> None:
        """Do nothing until the next `restart`."""
        with self._lock:
            self._end = None

    def _wait(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, self._look)
        self._timer.daemon = True
        self._timer.start()

    def _look(self) -> None:
        with self._lock:
            self._timer = None
            if self._end is None:
                return
            if (left := self._end - time.monotonic()) > 0:
                self._wait(left)
                return
        self._action()
