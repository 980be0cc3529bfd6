"""What is told to all workers of a Dask cluster."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

_BRIEF_SECONDS = 5.0


def briefly(call: Callable[[], object]) -> None:
    """Tell all workers something, without waiting for one that hangs, and without minding a cluster that is gone."""

    def told() -> None:
        with contextlib.suppress(Exception):
            call()

    thread = threading.Thread(target=told, name="pegbox-briefly", daemon=True)
    thread.start()
    thread.join(_BRIEF_SECONDS)
