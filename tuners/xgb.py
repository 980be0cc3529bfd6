"""The tuner `xgb`: simulated annealing on a learned cost model, in varied batches.

Kirkpatrick, Gelatt and Vecchi, "Optimization by Simulated Annealing" (Science 220, 1983); many chains at once, guided
by a cost model instead of measurements, as in Chen et al., "Learning to Optimize Tensor Programs" (NeurIPS 2018), the
method of AutoTVM, adapted to short runs: the model is fitted anew after every small plan, and the chains start at the
best measured so far and around it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pegbox.checks import check_float, check_int
from pegbox.search import Floats
from pegbox.space import ConfigSpace
from pegbox.tuners.plan_tuner import PlanOptions, PlanTuner, Score
from pegbox.tuners.rows import Digits


class AnnealingResult(NamedTuple):
    """All `rows` that the chains visited, (n, knobs), which may repeat, their `scores`, and the chains' `ends`."""

    rows: Digits
    scores: Floats
    ends: Digits


@dataclass(frozen=True)
class Annealing:
    """Simulated annealing over whole arrays of configurations, one chain for each row.

    The temperature falls linearly to zero in so many steps. Its unit is the standard deviation of the starting points'
    scores, so that its meaning does not depend on the scale of a cost model.
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
            # The Metropolis rule. The generator advances equally for all scores.
            luck, temperature = rng.random(len(moved)), scale * (1.0 - step / self.steps)
            gain = moved - scores
            accepted = luck < np.exp(np.minimum(gain, 0.0) / temperature) if temperature > 0 else gain >= 0
            here = np.where(accepted[:, None], there, here)
            scores = np.where(accepted, moved, scores)
        return AnnealingResult(np.concatenate(seen_rows), np.concatenate(seen_scores), here)


@dataclass(frozen=True, kw_only=True)
class XGBOptions(PlanOptions):
    """The options of `xgb`: those of a plan, and these.

    Attributes:
        loss_type: an option of the cost model, "rank" or "reg"; None for the model's own default.
        sa_chains, sa_steps, sa_temperature: the number of chains, the steps of each, and the temperature at the start.
    """

    loss_type: str | None = None
    sa_chains: int = 192
    sa_steps: int = 3
    sa_temperature: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_int("sa_chains", self.sa_chains)

    @property
    def model_options(self) -> dict[str, object]:
        return {} if self.loss_type is None else {"loss_type": self.loss_type}


class XGBTuner(PlanTuner):
    """A tuner that proposes configurations that a cost model expects to be fast, found by simulated annealing.

    The chains start at the best measured, at the ends of the last ones, and at random configurations.
    """

    Options = XGBOptions
    _options: XGBOptions

    def prepare(self) -> None:
        self._annealing = Annealing(self._options.sa_steps, self._options.sa_temperature)
        self._ends: Digits = self._history.rows

    def search(self) -> tuple[Digits, Floats]:
        # Half the chains start around the best measured, more of them around better ones; a quarter continue from the
        # ends of the last search; the others start anywhere.
        chains = self._options.sa_chains
        best = self.best_measured(math.ceil(chains / 8))
        places = self._rng.geometric(0.2, chains // 2) - 1
        near = best[np.minimum(places, len(best) - 1)] if len(best) else best
        further = self._ends[: chains // 4]
        anywhere = self._space.sample(chains - len(near) - len(further), self._rng)
        starts = np.concatenate([near, further, anywhere])
        found = self._annealing.maximise(self._learner.score, starts, self._space, self._rng)
        self._ends = self._rng.permutation(found.ends)
        return found.rows, found.scores
