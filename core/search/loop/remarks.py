"""Remarks on the timings of a result: effects of other programs, and contradictions with the search."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from pegbox.measure.baselines.baseline import MOST_RUN_QUEUE_WAIT, UNSTEADY
from pegbox.measure.result import Ok
from pegbox.measure.trial.timing import spread
from pegbox.task.speed_text import format_seconds

if TYPE_CHECKING:
    from pegbox.records.record import Record
    from pegbox.search.loop.best_trial import BestTrial
    from pegbox.search.loop.trial import Trial

_Measured = TypeVar("_Measured", "Trial", "Record")

MANY = 2.0
"""The smallest ratio of slow to fast timings of a configuration (`timing.spread` of measure) that shows other work.

A neighbour on the core, or on its other thread, makes it 2 to 3. On an idle machine, one configuration in a hundred
differs so much.
"""

MOVED = 1.25
"""The smallest ratio of the best's times, in the search and measured again, that is worth a remark."""

_FEWEST = 3
_SHARE = 0.25
_ENOUGH = 8  # the smallest number of trials that measured how long threads wait for cores
# The load of cores is counted in steps of 10 ms and a trial lasts 20 ms, so that their mean is less certain than that
# of finalists.
_MOST_WAIT_OF_TRIALS = 2 * MOST_RUN_QUEUE_WAIT


class SearchNoise:
    """The effects of other programs on the trials of a search, counted trial by trial.

    Args:
        threads: the target's number of threads, for kernels whose number is unknown.
    """

    def __init__(self, threads: int = 1, trials: Iterable[Trial] = ()) -> None:
        self._of_target, self._most = threads, 0
        self._shares: list[float] = []
        self._timed = 0
        self._noisy: list[Trial] = []
        for trial in trials:
            self.add(trial)

    def add(self, trial: Trial) -> None:
        """Add a trial. The times of an emulator are ignored, as they are noise anyway."""
        if trial.result.emulated:
            return
        if isinstance(trial.result, Ok):
            self._shares.append(trial.result.run_queue_wait)
            self._most = max(self._most, trial.result.threads)
        if len(_costs(trial)) >= 2:
            self._timed += 1
            if spread(_costs(trial)) > MANY:
                self._noisy.append(trial)

    @property
    def threads(self) -> int:
        """The largest number of threads of a kernel."""
        return self._most or self._of_target

    @property
    def run_queue_wait(self) -> float:
        """The share of the time in which threads waited for cores; 0 until there are enough trials."""
        return statistics.fmean(self._shares) if len(self._shares) >= _ENOUGH else 0.0

    def describe(self) -> str:
        """Describe the noise; empty if there is none.

        A few disturbed trials in a long search are interruptions.
        """
        if self.threads > 1 and self.run_queue_wait >= _MOST_WAIT_OF_TRIALS:
            return waiting(self.run_queue_wait, self.threads)
        if _are_many(len(self._noisy), self._timed):
            return _differ(self._noisy, f"{len(self._noisy)} of {self._timed} configurations", MANY)
        return ""


def _are_many(noisy: int, timed: int) -> bool:
    """Decide if so many of the timed configurations are more than a few interruptions."""
    return noisy >= max(_FEWEST, _SHARE * timed)


def waiting(share: float, threads: int) -> str:
    """Remark that threads waited for cores for this share of the time in which kernels were timed."""
    found = "other programs used this machine's cores: "
    if threads == 1:
        return (
            f"{found}the kernels spent {share:.0%} of the time waiting for their core. The measured times exclude this "
            "waiting, but not the effect of other programs on the caches"
        )
    return (
        f"{found}threads of the kernels spent {share:.0%} of the time waiting for a core. The measured times include "
        "this waiting, so the ranking partly reflects it"
    )


def _unsteady(again: Sequence[Trial]) -> str:
    """Remark that the timings of half of the finalists differ by a factor of `UNSTEADY`; empty if they do not."""
    unsteady = [trial for trial in again if spread(_costs(trial)) > UNSTEADY]
    if not unsteady or 2 * len(unsteady) < len(again):
        return ""
    return _differ(unsteady, f"{len(unsteady)} of {len(again)} finalists", UNSTEADY)


def slowed_threads(trials: Iterable[_Measured], *, above: int = 1) -> _Measured | None:
    """Find the fastest trial with more threads than `above`, if other programs slowed such trials down; else None."""
    more = [trial for trial in trials if threads_of(trial) > above and not trial.result.emulated]
    timed = [spread(_costs(trial)) for trial in more if len(_costs(trial)) >= 2]
    if _run_queue_wait(more) < _MOST_WAIT_OF_TRIALS and not _are_many(sum(each > MANY for each in timed), len(timed)):
        return None
    return min(more, key=lambda trial: trial.result.cost)


def lost_threads(
    trials: Iterable[_Measured], finalists: Iterable[_Measured], best: _Measured | BestTrial | None
) -> str:
    """Name the best's number of threads, if other programs slowed down candidates with more; else return empty text."""
    known = 0 if best is None else threads_of(best)
    slowed = slowed_threads(trials, above=known) if known else None
    if slowed is None:
        return ""
    again = [
        format_seconds(trial.result.cost) for trial in finalists if trial.config == slowed.config and trial.result.ok
    ]
    return (
        f"the best has {_count(known)}. Other programs slowed down the candidates with more; the fastest of those, "
        f"with {_count(threads_of(slowed))}, took {format_seconds(slowed.result.cost)} in the search"
        f"{f' and {again[-1]} when measured again' if again else ''}"
    )


def contradiction(trials: Sequence[Trial], best: BestTrial | None, *, reason: str = "") -> str:
    """Remark that the time of the search's best, which the progress line showed, later changed by a factor of `MOVED`.

    A known `reason` replaces the likely ones.
    """
    shown = min((trial.cost for trial in trials), default=math.inf)
    if best is None or not best.remeasured or shown == math.inf or _ratio(shown, best.cost) < MOVED:
        return ""
    if not reason:
        cause = "other programs slowed the search down" if shown > best.cost else "the search's timings were lucky"
        if shown < best.cost and best.result.run_queue_wait >= MOST_RUN_QUEUE_WAIT:
            cause = "other programs slowed down the second measurement"
        reason = f"{cause}, or the clock rate changed"
    return (
        f"the best took {format_seconds(shown)} in the search and {format_seconds(best.cost)} when measured again: "
        f"{reason}; the second time counts"
    )


def remarks(
    trials: Sequence[Trial], finalists: Sequence[Trial], best: BestTrial | None, threads: int, *, uneven: str = ""
) -> list[str]:
    """Remark on the timings of a search in at most one line, because all are effects of other programs.

    Args:
        uneven: a reason why the measurer's two kinds of measurements may disagree; see `Measurer.uneven`.
    """
    if best is not None and best.result.emulated:
        return [f"an emulator ({best.result.host}) measured the times: they do not show the speed of a processor"]
    noise, again = SearchNoise(threads, trials), [trial for trial in finalists if trial.ok]
    wait = max(noise.run_queue_wait, _run_queue_wait(again))
    moved = contradiction(trials, best, reason=uneven)
    found = (
        (uneven and moved)
        or lost_threads(trials, finalists, best)
        or noise.describe()
        or (wait >= MOST_RUN_QUEUE_WAIT and waiting(wait, noise.threads))
        or _unsteady(again)
        or moved
        or _unsteady_numpy(best)
    )
    return [found] if found else []


def _unsteady_numpy(best: BestTrial | None) -> str:
    """Remark that NumPy's timings differ, if the result is compared with them."""
    known = None if best is None else best.baseline
    if known is None or known.numpy is None or known.is_call or known.is_comparable():
        return ""
    return f"the timings of NumPy differ by more than a factor of {UNSTEADY:g}: other programs used its cores"


def threads_of(trial: Trial | Record | BestTrial) -> int:
    """Return the number of threads; 0 if it is unknown."""
    return trial.result.threads if isinstance(trial.result, Ok) else 0


def _count(threads: int) -> str:
    return f"{threads} thread{'s' if threads != 1 else ''}"


def _run_queue_wait(trials: Sequence[Trial | Record]) -> float:
    return statistics.fmean(
        [t.result.run_queue_wait for t in trials if isinstance(t.result, Ok) and not t.result.emulated] or [0.0]
    )


def _differ(noisy: Sequence[Trial], share: str, factor: float) -> str:
    """Remark that the timings of so many configurations differ, and show the largest difference."""
    worst = max(noisy, key=lambda trial: spread(_costs(trial)))
    costs = _costs(worst)
    return (
        f"the timings of {share} differ by more than a factor of {factor:g}, those of config {worst.config.index} from "
        f"{format_seconds(min(costs))} to {format_seconds(max(costs))}: other programs used this machine's cores, so "
        "the ranking is partly noise"
    )


def _costs(trial: Trial | Record) -> Sequence[float]:
    return trial.result.costs if isinstance(trial.result, Ok) else ()


def _ratio(one: float, other: float) -> float:
    return max(one, other) / min(one, other)
