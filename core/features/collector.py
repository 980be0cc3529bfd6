"""Pauses of Python's garbage collector.

Traces and schedules are many small objects that hold on to each other and live together. To look again and again
for garbage among them takes a quarter of the time that it takes to make them.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """No garbage is collected during the body, which should be short: a configuration's."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
