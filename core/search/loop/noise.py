"""A watch on noise: warns when other programs take the cores on which kernels are timed."""

from __future__ import annotations

import warnings

from pegbox.measure.machine.busiest import busiest_process
from pegbox.origin import users_level
from pegbox.search.loop.callbacks import Callback
from pegbox.search.loop.remarks import SearchNoise
from pegbox.search.loop.state import SearchState
from pegbox.search.loop.trial import Trial


class NoiseWatch(Callback):
    """A callback that warns once (`RuntimeWarning`), during the search, if its timings are partly noise.

    They are noise if threads of kernels waited for cores for a fifth of the time, which only Linux counts, or if the
    timings of a quarter of the configurations, and at least three, differ by a factor of `remarks.MANY`. A few such
    configurations in a long search are interruptions, which do no harm. `TuneResult.notes` describes the noise
    afterwards.

    Args:
        threads: the number of threads of each kernel, for the remedy.
    """

    def __init__(self, threads: int = 1) -> None:
        self._noise = SearchNoise(threads)
        self._warned = False

    def on_trial(self, trial: Trial, state: SearchState) -> None:
        if self._warned:
            return
        self._noise.add(trial)
        if self._noise.describe():
            self._warned = True
            warnings.warn(self._warning(), RuntimeWarning, stacklevel=users_level())

    def _warning(self) -> str:
        seen = busiest_process()
        busiest = f" (the busiest is {seen})" if seen else ""
        fewer = (
            ", or tune for one core (-num-cores 1), where no thread waits for another"
            if self._noise.threads > 1
            else ""
        )
        return f"other programs disturb the timings{busiest}; end them, or wait{fewer}: see Noise in docs/measuring.md"
