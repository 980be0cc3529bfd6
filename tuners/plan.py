"""`PlanTuner`: plans of batches by a learned cost model, the base of `xgb` and `evolution`.

Chen et al., "Learning to Optimize Tensor Programs" (NeurIPS 2018), adapted to short runs: the model is fitted anew
after every small plan. How the configurations that it likes are found is left to the tuners.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pegbox.checks import check_float, check_int
from pegbox.hooks import bind_options
from pegbox.measure import Result
from pegbox.search import CHOOSING, LEARNING, BaseTuner, CostModel, FeatureSource, Floats, ModelReport, Prior, Transfer
from pegbox.space import Config, ConfigSpace
from pegbox.tuners.batches import pick_diverse
from pegbox.tuners.choices import Choices, choice_columns
from pegbox.tuners.features import FeatureTable
from pegbox.tuners.learner import Learner
from pegbox.tuners.rows import Digits, rows_of, whole
from pegbox.tuners.trial_history import TrialHistory

SHORTLIST = 8
"""The batch is picked from this many times as many of the best-scored candidates."""

GROWTH = 4
"""Where more are asked for than `plan_size`, plans grow with what is known: one for so many that were measured. What is
learned from each result is most when there are few."""

UNTESTED = 0.33
"""The random share of plans that are made on the word of other shapes alone."""

WHOLE = 8192
"""A space of so few configurations is scored whole: a search would look at as many, and miss some."""

SAMPLE = 256
"""So many random configurations of a larger space tell how often a value of a choice occurs."""


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """The options that tuners share which plan by a cost model.

    Attributes:
        plan_size: how many configurations are planned each time the model is fitted. Where more are asked for, a plan
            has up to a quarter as many as were measured.
        num_warmup: the number of random trials before the first plan.
        cost_model: a name with options ("xgboost:rounds=100;max_depth=6"), or an object with fit and predict.
        features: the model's inputs: "knobs", "program", or "both".
        epsilon: the share of a plan that is random.
        neglected: the share of a plan with the values of choices that were tried least (see `Choices`).
        diversity: the weight of the differences among the rest of a plan.
        transfer_weight: the number of trials for which measurements of other shapes (`transfer`) count.
        use_experience: whether programs of other workloads (`experience`) are a feature, where `transfer` is empty.
    """

    plan_size: int = 12
    num_warmup: int = 8
    cost_model: str | CostModel = "xgboost"
    features: str = "both"
    epsilon: float = 0.05
    neglected: float = 0.2
    diversity: float = 0.2
    transfer_weight: int = 32
    use_experience: bool = True

    def __post_init__(self) -> None:
        check_int("plan_size", self.plan_size)
        check_int("num_warmup", self.num_warmup, minimum=2)
        check_float("epsilon", self.epsilon, maximum=1.0)
        check_float("neglected", self.neglected, maximum=1.0)
        check_float("diversity", self.diversity)
        check_int("transfer_weight", self.transfer_weight, minimum=0)

    @property
    def model_options(self) -> dict[str, object]:
        """The options that are handed on to the cost model."""
        return {}


class PlanTuner(BaseTuner, ABC):
    """Proposes what a cost model expects to be fast; a tuner adds `search`, which finds such configurations."""

    Options: ClassVar[type[PlanOptions]] = PlanOptions

    def __init__(
        self,
        space: ConfigSpace,
        *,
        seed: int = 0,
        program: FeatureSource | None = None,
        transfer: Sequence[Transfer] = (),
        experience: Prior | None = None,
        **options: Any,
    ) -> None:
        self._options = known = self.Options(**bind_options(type(self).__name__, self.Options, options, leading=0))
        self._space = space
        self._rng = np.random.default_rng(seed)
        self._history = TrialHistory(space)
        self.batch_size = known.plan_size
        self._neglected = known.neglected if choice_columns(space) else 0.0
        priors = [experience] if experience and known.use_experience else []
        table = FeatureTable(space, program, known.features, priors)
        self.experienced = table.prior_columns.start < table.prior_columns.stop
        self._learner = Learner(
            table,
            known.cost_model,
            seed=seed,
            options=known.model_options,
            transfer=transfer,
            weight=known.transfer_weight,
        )
        self._plan: list[Config] = []
        self._all = whole(space, WHOLE)
        self._choices: Choices | None = None
        self.prepare()

    def prepare(self) -> None:
        """Make what `search` needs, once the space and the options are known."""

    @abstractmethod
    def search(self) -> tuple[Digits, Floats]:
        """Rows that the model likes and their scores, in any order; they may repeat, and may be visited already."""

    @property
    def activity(self) -> str:
        """The tuner's next activity, in words."""
        return LEARNING if self._learner.ready and not len(self._history) else CHOOSING

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
        """Compare the model's scores with the costs that were measured afterwards;

        None before the first plan of its making.
        """
        return self._history.predictions.report()

    def score(self, configs: Sequence[Config]) -> Floats:
        """The scores of configurations, (n,), by the model that made the last plan: the higher, the faster.

        Raises `ArgumentError` before there is one.
        """
        return self._learner.score(rows_of(configs))

    def best_measured(self, n: int) -> Digits:
        """Give at most `n` of the rows that ran, the fastest first."""
        order = np.argsort(self._history.costs, kind="stable")[:n]
        best: Digits = self._history.rows[order[np.isfinite(self._history.costs[order])]]
        return best

    def _make_plan(self, n: int) -> list[Config]:
        missing = self._options.num_warmup - len(self._history)
        # Where nothing ran so far, a model could only learn that everything fails alike.
        if missing <= 0 and np.isfinite(self._history.costs).any():
            self._learner.fit(self._history.rows, self._history.costs)
        elif not self._learner.ready:
            # Uniformly random: a first batch spread as far apart as can be was tried and is worse, because the
            # farthest points of a space are its corners, and the corners of split knobs are bad schedules.
            return self._history.visited.configs(self._history.visited.sample(max(n, missing), self._rng))
        rows = self._planned(max(self.batch_size, min(n, len(self._history) // GROWTH)))
        plan = self._history.visited.configs(rows)
        if plan:
            self._history.predictions.expect(plan, self._learner.score(rows))
        return plan

    def _planned(self, n: int) -> Digits:
        """The best of what the model likes, with a share of values that it saw little of, and a random one."""
        rows, scores = (self._all, self._learner.score(self._all)) if self._all is not None else self.search()
        # What other shapes taught may be wrong here, and a model needs to see bad configurations, too.
        epsilon = self._options.epsilon if self._learner.fitted else max(self._options.epsilon, UNTESTED)
        planned = n - int(self._rng.binomial(n, epsilon))
        seldom = int(self._rng.binomial(planned, self._neglected)) if self._neglected and self._learner.fitted else 0
        best, likely = self._best(rows, scores, n * SHORTLIST)
        chosen = best[pick_diverse(best, likely, planned - seldom, weight=self._options.diversity)]
        if seldom:
            tried = np.concatenate([self._history.visited.rows, chosen])
            chosen = np.concatenate([chosen, self._known_choices().neglected(tried, rows, scores, seldom)])
        return self._history.visited.filled(chosen, n, self._rng)

    def _best(self, rows: Digits, scores: Floats, n: int) -> tuple[Digits, Floats]:
        """The `n` best-scored new ones of the rows, each once, the best first."""
        order = np.argsort(-scores, kind="stable")
        best = order[self._history.visited.fresh(rows[order], limit=n)]
        return rows[best], scores[best]

    def _known_choices(self) -> Choices:
        if self._choices is None:
            sample = self._space.sample(SAMPLE, self._rng) if self._all is None else self._all
            self._choices = Choices(self._space, sample)
        return self._choices
