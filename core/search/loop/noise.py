"""A watch on noise: says so when timings of one configuration differ by many times."""

from __future__ import annotations

import warnings

from pegbox.measure.result import Ok
from pegbox.search.loop.callbacks import Callback
from pegbox.search.loop.outcome import Trial, format_seconds
from pegbox.search.loop.state import SearchState

MANY = 3.0
"""How many times as long the slowest timing of a configuration takes as its fastest, on a machine that is not at rest:
where nothing else runs, timings differ by some percent."""
_FEWEST = 3
_SHARE = 0.25


class NoiseWatch(Callback):
    """Warns once (`RuntimeWarning`) when timings differ `MANY` times in a quarter of the configurations, and in three.

    A few such configurations in a long search are interruptions, which the search gets over.

    Args:
        threads: of each kernel, for the remedy.
    """

    def __init__(self, threads: int = 1) -> None:
        self.threads = threads
        self._timed = 0
        self._noisy: list[Trial] = []
        self._warned = False

    def on_trial(self, trial: Trial, state: SearchState) -> None:
        if not isinstance(trial.result, Ok) or len(trial.result.costs) < 2:
            return
        self._timed += 1
        if spread(trial.result) > MANY:
            self._noisy.append(trial)
            if not self._warned and len(self._noisy) >= max(_FEWEST, _SHARE * self._timed):
                self._warned = True
                warnings.warn(self._message(), RuntimeWarning, stacklevel=2)

    on_remeasured = on_trial

    def _message(self) -> str:
        worst = max(self._noisy, key=lambda trial: spread(trial.result))
        costs = worst.result.costs if isinstance(worst.result, Ok) else ()
        fewer = ", or tune for one core (-num-cores 1), where no thread waits for another" if self.threads > 1 else ""
        return (
            f"timings of the same configuration differ: config {worst.config.index} takes "
            f"{format_seconds(min(costs))} to {format_seconds(max(costs))}, and {len(self._noisy)} of {self._timed} "
            f"configurations differ more than {MANY:g} times. Other programs use this machine's cores, and the search "
            f"ranks their noise. End them{fewer}; docs/measuring.md says more under Noise"
        )


def spread(result: object) -> float:
    """How many times as long the slowest timing takes as the fastest; 1 where there is none, or one."""
    costs = result.costs if isinstance(result, Ok) else ()
    return max(costs) / min(costs) if costs else 1.0
