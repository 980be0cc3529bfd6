"""A tuner guided by a learned cost model: anneal on the model, measure a varied batch of the best, learn, repeat.

Chen et al., "Learning to Optimize Tensor Programs" (NeurIPS 2018), the method of AutoTVM, adapted to short runs: the
model is fitted anew after every small plan, and the chains start from the best measured so far and around it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pegbox.checks import check_float, check_int
from pegbox.measure.result import Result
from pegbox.search.factory.base import BaseTuner
from pegbox.search.models.report import ModelReport
from pegbox.search.protocols import CostModel, FeatureSource, Floats, Prior, Transfer
from pegbox.space import Config, ConfigSpace
from pegbox.tuners.annealing import Annealing
from pegbox.tuners.batches import pick_diverse
from pegbox.tuners.features import FeatureTable
from pegbox.tuners.learner import Learner
from pegbox.tuners.trial_history import TrialHistory
from pegbox.tuners.visited_set import Digits, rows_of, whole

SHORTLIST = 8
"""The batch is picked from this many times as many of the best-scored candidates."""

UNTESTED = 0.33
"""The random share of plans that are made on the word of other shapes alone."""

WHOLE = 8192
"""A space of so few configurations is scored whole: annealing would look at as many, and miss some."""


class XGBTuner(BaseTuner):
    """Proposes what a cost model expects to be fast.

    `plan_size` configurations are planned each time the model is fitted. The first `num_warmup` are random. Then each
    plan comes from simulated annealing on the model (`sa_chains` chains of `sa_steps` steps from
    `sa_temperature`), started from the best measured, from where the last one ended, and from random ones; a share of
    `epsilon` is random, and `diversity` weighs how much the rest of a plan should differ.

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
        diversity: float = 0.2,
        transfer_weight: int = 32,
    ) -> None:
        self._space = space
        self._rng = np.random.default_rng(seed)
        self._history = TrialHistory(space)
        self.batch_size = check_int("plan_size", plan_size)
        self._num_warmup = check_int("num_warmup", num_warmup, minimum=2)
        self._chains = check_int("sa_chains", sa_chains)
        self._annealing = Annealing(sa_steps, sa_temperature)
        self._epsilon = check_float("epsilon", epsilon, maximum=1.0)
        self._diversity = check_float("diversity", diversity)
        self._learner = Learner(
            FeatureTable(space, program, features, [experience] if experience and use_experience else []),
            cost_model,
            seed=seed,
            options={} if loss_type is None else {"loss_type": loss_type},
            transfer=transfer,
            weight=check_int("transfer_weight", transfer_weight, minimum=0),
        )
        self._plan: list[Config] = []
        self._all = whole(space, WHOLE)
        self._ends: Digits = self._history.rows

    def ask(self, n: int) -> list[Config]:
        if not self._plan:
            self._plan = self._make_plan(n)
        proposed, self._plan = self._plan[:n], self._plan[n:]
        return proposed

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        self._history.add(configs, results)
        # TrialHistory through history in the meantime: no longer new.
        told = set(configs)
        self._plan = [config for config in self._plan if config not in told]

    def model_report(self) -> ModelReport | None:
        """How the model's scores agree with what was measured afterwards; None before the first plan of its making."""
        return self._history.predictions.report()

    def score(self, configs: Sequence[Config]) -> Floats:
        """The scores of configurations, (n,), by the model that made the last plan: the higher, the faster.

        Raises `ArgumentError` before there is one.
        """
        return self._learner.score(rows_of(configs))

    def _make_plan(self, n: int) -> list[Config]:
        missing = self._num_warmup - len(self._history)
        # Where nothing ran so far, a model could only learn that everything fails alike.
        if missing <= 0 and np.isfinite(self._history.costs).any():
            self._learner.fit(self._history.rows, self._history.costs)
        elif not self._learner.ready:
            # Uniformly random: a first batch spread as far apart as can be was tried and is worse, because the
            # farthest points of a space are its corners, and the corners of split knobs are bad schedules.
            return self._history.visited.configs(self._history.visited.sample(max(n, missing), self._rng))
        rows = self._planned(self.batch_size)
        plan = self._history.visited.configs(rows)
        if plan:
            self._history.predictions.expect(plan, self._learner.score(rows))
        return plan

    def _planned(self, n: int) -> Digits:
        """The best of what the model likes, with a random share."""
        rows, scores = self._candidates(n * SHORTLIST)
        # What other shapes taught may be wrong here, and a model needs to see bad configurations, too.
        epsilon = self._epsilon if self._learner.fitted else max(self._epsilon, UNTESTED)
        greedy = n - int(self._rng.binomial(n, epsilon))
        chosen = rows[pick_diverse(rows, scores, greedy, weight=self._diversity)]
        return self._history.visited.filled(chosen, n, self._rng)

    def _candidates(self, n: int) -> tuple[Digits, Floats]:
        """The `n` best-scored new rows that were found, each once, the best first."""
        if self._all is not None:
            rows, scores = self._all, self._learner.score(self._all)
        else:
            found = self._annealing.maximise(self._learner.score, self._starts(), self._space, self._rng)
            rows, scores = found.rows, found.scores
            self._ends = self._rng.permutation(found.ends)
        order = np.argsort(-scores, kind="stable")
        best = order[self._history.visited.fresh(rows[order], limit=n)]
        return rows[best], scores[best]

    def _starts(self) -> Digits:
        """Half the chains start around the best measured, the better the more of them; a quarter go on from where
        the last search ended; the others start anywhere."""
        order = np.argsort(self._history.costs, kind="stable")[: math.ceil(self._chains / 8)]
        order = order[np.isfinite(self._history.costs[order])]
        places = self._rng.geometric(0.2, self._chains // 2) - 1
        near = self._history.rows[order[np.minimum(places, len(order) - 1)]] if len(order) else self._history.rows[:0]
        further = self._ends[: self._chains // 4]
        anywhere = self._space.sample(self._chains - len(near) - len(further), self._rng)
        return np.concatenate([near, further, anywhere])
