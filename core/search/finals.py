"""The end of a run: measure the best few again, so that the winner is not just the luckiest.

The minimum of many noisy measurements is biased low (the winner's curse); MetaSchedule's winners came out 5-12% slower
when measured again. The finalists are measured side by side by the measurer, interleaved, and only those numbers count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pegbox.measure.result import Ok
from pegbox.search.outcome import Trial

NOISE_MARGIN = 0.12


def pick_finalists(trials: Iterable[Trial], limit: int, *, margin: float = NOISE_MARGIN) -> list[Trial]:
    """The fastest `limit` trials that noise alone may have kept from being the best, the fastest first.

    A trial slower than the best by more than `margin` (a fraction) is none, nor one dropped after its first run.
    """
    ranked = sorted((t for t in trials if isinstance(t.result, Ok) and not t.result.partial), key=lambda t: t.cost)
    if not ranked:
        return []
    bound = ranked[0].cost * (1.0 + margin)
    return [trial for trial in ranked[:limit] if trial.cost <= bound]


def winner_of(finals: Sequence[Trial]) -> Trial | None:
    """The fastest of the finalists measured again; None if none of them ran."""
    return min((trial for trial in finals if trial.ok), key=lambda trial: trial.cost, default=None)
