"""The influence of the knobs on the costs of a search."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pegbox.search.loop.trial import Trial
    from pegbox.space import Config

FEWEST = 2
"""The smallest average number of trials for each value; with fewer, a value nearly identifies its trial."""


@dataclass(frozen=True)
class Influence:
    """The influence of a `knob` with its `values` among the trials that ran.

    `share` is epsilon squared, the share of the variance of the logarithm of the cost that lies between the values,
    corrected for chance (Kelley, "An unbiased correlation ratio measure", 1935); None with too few trials. `best` is
    the lowest cost of each value, in seconds, fastest first.
    """

    knob: str
    values: int
    share: float | None
    best: tuple[tuple[str, float], ...]


def influences(trials: Sequence[Trial]) -> list[Influence]:
    """Compute the influence of each knob that had several values, the greatest first.

    Trials that failed are left out.
    """
    ran = [trial for trial in trials if trial.ok]
    columns: dict[str, list[Hashable]] = {}
    for trial in ran:
        for name, value in _values(trial.config).items():
            columns.setdefault(name, []).append(value)
    costs = [trial.cost for trial in ran]
    found = [_influence(name, values, costs) for name, values in columns.items() if len(values) == len(ran)]
    several = [one for one in found if one.values > 1]
    return sorted(several, key=lambda one: -math.inf if one.share is None else one.share, reverse=True)


def _values(config: Config) -> dict[str, Hashable]:
    """Write each knob's value, "absent" if it does not exist; for a split, each factor but the outermost."""
    found: dict[str, Hashable] = {}
    chosen = dict(config.items())
    for name in config.space.knobs:
        entity = chosen.get(name)
        sizes = getattr(entity, "size", None)
        if isinstance(sizes, list):
            found.update({f"{name}[{place}]": size for place, size in enumerate(sizes) if place})
        else:
            found[name] = str(entity) if entity is not None else "absent"
    return found


def _influence(knob: str, values: Sequence[Hashable], costs: Sequence[float]) -> Influence:
    best: dict[Hashable, float] = {}
    for value, cost in zip(values, costs, strict=True):
        best[value] = min(cost, best.get(value, math.inf))
    ranked = sorted(best.items(), key=lambda item: item[1])
    return Influence(knob, len(best), _epsilon_squared(values, costs), tuple((str(v), cost) for v, cost in ranked))


def _epsilon_squared(values: Sequence[Hashable], costs: Sequence[float]) -> float | None:
    groups = list(dict.fromkeys(values))
    count, free = len(costs), len(costs) - len(groups)
    if count < FEWEST * len(groups):
        return None
    logs = np.log(costs)
    total = float(((logs - logs.mean()) ** 2).sum())
    if total == 0.0:
        return 0.0
    members = [logs[[value == group for value in values]] for group in groups]
    within = sum(float(((own - own.mean()) ** 2).sum()) for own in members)
    return max(0.0, 1.0 - within / free * (count - 1) / total)


MATTERS = 0.05
"""The smallest share of the variance that a knob must explain to matter."""


def main_knobs(trials: Sequence[Trial], most: int) -> list[str]:
    """Name at most `most` knobs that matter, the greatest influence first; a split has that of its most influential
    factor.

    Empty with too few trials.
    """
    shares = [(one.knob.partition("[")[0], one.share or 0.0) for one in influences(trials)]
    return list(dict.fromkeys(name for name, share in shares if share >= MATTERS))[:most]
