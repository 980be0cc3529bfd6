"""The tuner `xgb`: simulated annealing on a learned cost model, in varied batches.

Chen et al., "Learning to Optimize Tensor Programs" (NeurIPS 2018), the method of AutoTVM, adapted to short runs: the
model is fitted anew after every small plan, and the chains start from the best measured so far and around it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pegbox.checks import check_int
from pegbox.search import CostModel, FeatureSource, Floats, Prior, Transfer
from pegbox.space import ConfigSpace
from pegbox.tuners.annealing import Annealing
from pegbox.tuners.plan import PlanTuner
from pegbox.tuners.rows import Digits


class XGBTuner(PlanTuner):
    """Proposes what a cost model expects to be fast.

    `plan_size` configurations are planned each time the model is fitted. The first `num_warmup` are random. Then each
    plan comes from simulated annealing on the model (`sa_chains` chains of `sa_steps` steps from
    `sa_temperature`), started from the best measured, from where the last one ended, and from random ones; a share of
    `epsilon` is random, a share of `neglected` has the values of choices that were tried least (see `Choices`), and
    `diversity` weighs how much the rest of a plan should differ.

    `cost_model` is a name with options ("xgboost:rounds=100;max_depth=6"), or an object with fit and predict;
    `loss_type` ("rank" or "reg") is handed to it when given. It learns from `features`: of the "knobs", of the
    "program", or of "both". Measurements of other shapes (`transfer`) take the place of the random ones; they count
    as much as `transfer_weight` trials, so that they fade as trials are added. Where there are none, `experience` with
    the programs of other workloads does, which is a feature besides, unless `use_experience` is off.
    """

    def __init__(
        self,
        space: ConfigSpace,
        *,
        seed: int = 0,
        program: FeatureSource | None = None,
        transfer: Sequence[Transfer] = (),
        experience: Prior | None = None,
        use_experience: bool = True,
        plan_size: int = 12,
        num_warmup: int = 8,
        loss_type: str | None = None,
        cost_model: str | CostModel = "xgboost",
        features: str = "both",
        sa_chains: int = 192,
        sa_steps: int = 3,
        sa_temperature: float = 0.5,
        epsilon: float = 0.05,
        neglected: float = 0.2,
        diversity: float = 0.2,
        transfer_weight: int = 32,
    ) -> None:
        self._chains = check_int("sa_chains", sa_chains)
        self._annealing = Annealing(sa_steps, sa_temperature)
        super().__init__(
            space,
            seed=seed,
            program=program,
            transfer=transfer,
            experience=experience if use_experience else None,
            plan_size=plan_size,
            num_warmup=num_warmup,
            cost_model=cost_model,
            model_options={} if loss_type is None else {"loss_type": loss_type},
            features=features,
            epsilon=epsilon,
            neglected=neglected,
            diversity=diversity,
            transfer_weight=transfer_weight,
        )
        self._ends: Digits = self._history.rows

    def search(self) -> tuple[Digits, Floats]:
        found = self._annealing.maximise(self._learner.score, self._starts(), self._space, self._rng)
        self._ends = self._rng.permutation(found.ends)
        return found.rows, found.scores

    def _starts(self) -> Digits:
        """Half the chains start around the best measured, the better the more of them; a quarter go on from where
        the last search ended; the others start anywhere."""
        best = self.best_measured(math.ceil(self._chains / 8))
        places = self._rng.geometric(0.2, self._chains // 2) - 1
        near = best[np.minimum(places, len(best) - 1)] if len(best) else best
        further = self._ends[: self._chains // 4]
        anywhere = self._space.sample(self._chains - len(near) - len(further), self._rng)
        return np.concatenate([near, further, anywhere])
