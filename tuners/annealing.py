"""Parallel simulated annealing over whole arrays of configurations.

Kirkpatrick, Gelatt and Vecchi, "Optimization by Simulated Annealing" (Science 220, 1983); many chains at once, guided
by a cost model instead of measurements, as in Chen et al., "Learning to Optimize Tensor Programs" (NeurIPS 2018).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from pegbox.checks import check_float, check_int
from pegbox.search import Floats
from pegbox.space import ConfigSpace
from pegbox.tuners.rows import Digits

Score: TypeAlias = Callable[[Digits], Floats]
"""Scores of rows of digits, shape (n,): the higher, the better."""


@dataclass(frozen=True)
class AnnealingResult:
    """Everything that the chains looked at: `rows` of shape (n, knobs) with their `scores` of shape (n,).

    Rows may repeat. `ends` are where the chains stand now; a later search may go on from there.
    """

    rows: Digits
    scores: Floats
    ends: Digits


@dataclass(frozen=True)
class Annealing:
    """The settings of a search: how many steps each chain takes and how hot it starts.

    The temperature falls linearly to zero. It counts in standard deviations of the scores of the starting points, so
    that it means the same whatever numbers a cost model gives.
    """

    steps: int = 40
    temperature: float = 0.5

    def __post_init__(self) -> None:
        check_int("sa_steps", self.steps, minimum=0)
        check_float("sa_temperature", self.temperature)

    def maximise(self, score: Score, starts: Digits, space: ConfigSpace, rng: np.random.Generator) -> AnnealingResult:
        """Walk from each row of `starts`, always taking better neighbours and sometimes worse ones."""
        here, scores = starts, score(starts)
        seen_rows, seen_scores = [here], [scores]
        scale = self.temperature * float(scores.std())
        for step in range(self.steps):
            there = space.neighbors(here, rng)
            moved = score(there)
            seen_rows.append(there)
            seen_scores.append(moved)
            accepted = _accepts(moved - scores, scale * (1.0 - step / self.steps), rng)
            here = np.where(accepted[:, None], there, here)
            scores = np.where(accepted, moved, scores)
        return AnnealingResult(np.concatenate(seen_rows), np.concatenate(seen_scores), here)


def _accepts(gain: Floats, temperature: float, rng: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """The Metropolis rule: a gain always, a loss with probability exp(gain / temperature)."""
    # Drawn at any temperature: the generator must advance alike whatever the scores are.
    luck = rng.random(len(gain))
    if temperature <= 0:
        better: np.ndarray[tuple[int], np.dtype[np.bool_]] = gain >= 0
        return better
    accepted: np.ndarray[tuple[int], np.dtype[np.bool_]] = luck < np.exp(np.minimum(gain, 0.0) / temperature)
    return accepted
