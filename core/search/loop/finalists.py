"""Finalists: the best few, measured again at the end because the fastest single measurement is partly luck.

The minimum of many noisy measurements is biased low (the winner's curse); MetaSchedule's winners came out 5-12% slower
when measured again. The measurer interleaves the finalists, and only these measurements count. If all of them
disappoint, the trials that they had beaten get a chance in a second and a third round.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from pegbox.measure.result import Ok
from pegbox.search.loop.trial import Trial

if TYPE_CHECKING:
    from pegbox.space import Config

NOISE_MARGIN = 0.12
MAX_ROUNDS = 3


def pick_finalists(
    trials: Iterable[Trial], limit: int, *, known: Sequence[Trial] = (), always: Collection[Config] = ()
) -> list[Trial]:
    """Pick the fastest `limit` trials that noise alone may have kept from being the best, the fastest first.

    If none are measured yet, a trial must come within `NOISE_MARGIN` of the best, at least with its fastest repeat;
    otherwise it must have been faster than the best of the measured finalists is now. A trial dropped after its first
    run is not a finalist.

    Args:
        known: finalists measured already.
        always: configurations whose trials are also finalists, however slow they are.
    """
    done = {trial.config for trial in known}
    full = [t for t in trials if isinstance(t.result, Ok) and not t.result.partial and t.config not in done]
    ranked = sorted(full, key=lambda trial: trial.cost)
    if not ranked:
        return []
    if known:
        winner = winner_of(known)
        bound = math.inf if winner is None else winner.cost
        return [trial for trial in ranked if trial.cost < bound][:limit]
    bound = ranked[0].cost * (1.0 + NOISE_MARGIN)
    near = [trial for trial in ranked if isinstance(trial.result, Ok) and min(trial.result.costs) <= bound][:limit]
    return [*near, *(trial for trial in ranked if limit and trial.config in always and trial not in near)]


def winner_of(finalists: Sequence[Trial]) -> Trial | None:
    """Find the fastest remeasured finalist; None if none of them ran."""
    return min((trial for trial in finalists if trial.ok), key=lambda trial: trial.cost, default=None)
