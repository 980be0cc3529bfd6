"""A watch on noise: says so when timings of one configuration differ by many times."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from pegbox.measure.result import Ok
from pegbox.measure.timing import spread
from pegbox.measure.yardstick import UNSTEADY
from pegbox.origin import users_level
from pegbox.search.loop.callbacks import Callback
from pegbox.search.loop.outcome import Trial, TuneResult, format_seconds
from pegbox.search.loop.state import SearchState

MANY = 2.0
"""How many times as long the slow timings of a configuration take as its fast ones (`pegbox.measure.timing.spread`) on
a machine that is not at rest. A neighbour on the core, or on its other thread, makes it 2 to 3. Where nothing else
runs, one configuration in a hundred differs so much."""
_FEWEST = 3
_SHARE = 0.25


class NoiseWatch(Callback):
    """Warns once (`RuntimeWarning`) when what was measured is partly noise:

    - timings differ `MANY` times in a quarter of the configurations, and in three;
    - of those measured again at the end, turns differ `UNSTEADY` times in half;
    - of those measured again, the winner, or half of them, took `UNSTEADY` times as long as in the search, or the
      search that much longer.

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
        if len(_costs(trial)) < 2:
            return
        self._timed += 1
        if spread(_costs(trial)) > MANY:
            self._noisy.append(trial)
            if len(self._noisy) >= max(_FEWEST, _SHARE * self._timed):
                self._warn(
                    f"{_range(self._noisy)}, and {len(self._noisy)} of {self._timed} configurations differ more than "
                    f"{MANY:g} times"
                )

    def on_end(self, result: TuneResult) -> None:
        again = [trial for trial in result.finalists if trial.ok]
        unsteady = [trial for trial in again if spread(_costs(trial)) > UNSTEADY]
        if unsteady and 2 * len(unsteady) >= len(again):
            self._warn(
                f"{_range(unsteady)} when measured again at the end, and {len(unsteady)} of {len(again)} "
                f"finalists differ more than {UNSTEADY:g} times"
            )
            return
        before = {trial.number: trial.cost for trial in result.trials}
        moved = [t for t in again if t.number in before and _ratio(before[t.number], t.cost) >= UNSTEADY]
        won = [t for t in moved if result.best is not None and t.number == result.best.number]
        if won or (moved and 2 * len(moved) >= len(again)):
            told = (won or moved)[0]
            self._warn(
                f"config {told.config.index} took {format_seconds(before[told.number])} in the search and "
                f"{format_seconds(told.cost)} when measured again at the end"
            )

    def _warn(self, found: str) -> None:
        if self._warned:
            return
        self._warned = True
        fewer = ", or tune for one core (-num-cores 1), where no thread waits for another" if self.threads > 1 else ""
        message = (
            f"timings of the same configuration differ: {found}. Other programs use this machine's cores, and the "
            f"search ranks their noise. End them{fewer}; docs/measuring.md says more under Noise"
        )
        warnings.warn(message, RuntimeWarning, stacklevel=users_level())


def _costs(trial: Trial) -> Sequence[float]:
    return trial.result.costs if isinstance(trial.result, Ok) else ()


def _range(trials: Sequence[Trial]) -> str:
    """What the one takes whose timings differ most."""
    worst = max(trials, key=lambda trial: spread(_costs(trial)))
    costs = _costs(worst)
    return f"config {worst.config.index} takes {format_seconds(min(costs))} to {format_seconds(max(costs))}"


def _ratio(one: float, other: float) -> float:
    return max(one, other) / min(one, other)
