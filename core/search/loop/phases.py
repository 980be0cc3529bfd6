"""Adding up where the time of a run goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class PhaseClock:
    """Wall-clock seconds by phase. Phases do not nest: they are what the loop waits on, one after the other."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the block's time towards `name`, whatever way it is left."""
        began = self._clock()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + self._clock() - began
