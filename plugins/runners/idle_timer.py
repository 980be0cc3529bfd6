"""`IdleTimer`: ends what nobody has used for a while."""

from __future__ import annotations

import threading
from collections.abc import Callable


class IdleTimer:
    """Calls `action` on a thread of its own, `seconds` after the last `restart` unless `stop` was called since."""

    def __init__(self, seconds: float, action: Callable[[], object]) -> None:
        self._seconds, self._action = seconds, action
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def restart(self) -> None:
        with self._lock:
            self._cancel()
            self._timer = threading.Timer(self._seconds, self._action)
            self._timer.daemon = True
            self._timer.start()

    def stop(self) -> None:
        with self._lock:
            self._cancel()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
