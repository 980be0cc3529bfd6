"""A watch on noise: warns when other programs take the cores on which kernels are timed."""

from __future__ import annotations

import warnings

from pegbox.measure.machine.busiest import busiest_process
from pegbox.origin import users_level
from pegbox.search.loop.callbacks import Callback
from pegbox.search.loop.outcome import Trial, TuneResult
from pegbox.search.loop.remarks import SearchNoise, finalists_noise
from pegbox.search.loop.state import SearchState


class NoiseWatch(Callback):
    """A callback that warns once (`RuntimeWarning`) when timings are partly noise:

    - threads of kernels waited for cores for a tenth of the time, of trials or of finalists, which only Linux counts;
    - timings differ `remarks.MANY` times in a quarter of the configurations, and in three;
    - of those measured again at the end, turns differ `UNSTEADY` times in half;
    - of those measured again, the winner, or half of them, took `UNSTEADY` times as long as in the search, or the
      search that much longer.

    A few such configurations in a long search are interruptions, which the search gets over. `TuneResult.notes` says
    the same afterwards.

    Args:
        threads: of each kernel, for the remedy.
    """

    def __init__(self, threads: int = 1) -> None:
        self.threads = threads
        self._noise = SearchNoise(threads)
        self._warned = False

    def on_trial(self, trial: Trial, state: SearchState) -> None:
        if not self._warned:
            self._noise.add(trial)
            self._warn(self._noise.describe())

    def on_end(self, result: TuneResult) -> None:
        self._warn(finalists_noise(result.finalists, result.trials, result.best, self.threads))

    def _warn(self, found: str) -> None:
        if self._warned or not found:
            return
        self._warned = True
        seen = busiest_process()
        busiest = f" The busiest is {seen}." if seen else ""
        fewer = ", or tune for one core (-num-cores 1), where no thread waits for another" if self.threads > 1 else ""
        message = f"{found}.{busiest} End them or wait{fewer}; docs/measuring.md says more under Noise"
        warnings.warn(message, RuntimeWarning, stacklevel=users_level())
