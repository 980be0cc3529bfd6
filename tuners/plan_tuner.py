"""`PlanTuner`: plans of batches by a learned cost model, the base of `xgb` and `evolution`.

Chen et al., "Learning to Optimize Tensor Programs" (NeurIPS 2018), adapted to short runs: the model is fitted anew
after every small plan. The tuners decide how to find configurations that the model likes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np

from pegbox.checks import check_float, check_int
from pegbox.measure import Result
from pegbox.search import CHOOSING, LEARNING, CostModel, FeatureSource, Floats, Prior, Transfer
from pegbox.space import Config
from pegbox.tuners.features import FeatureTable
from pegbox.tuners.learned_tuner import LearnedTuner
from pegbox.tuners.learner import Learner
from pegbox.tuners.rows import Digits, Places, every_row, rows_of

Score: TypeAlias = Callable[[Digits], Floats]
"""A function that scores rows of digits, shape (n,); higher is better."""

SHORTLIST = 8
"""The number of best-scored candidates for each member of a batch."""

GROWTH = 4
"""The number of measured trials for each member of a plan larger than `plan_size`, as the first results teach most."""

UNTESTED = 0.33
"""The random share of plans that rely only on other shapes."""

PARTS = 16
"""The number of parts of a line; values in one part count as alike for the diversity of a plan."""

SAMPLE = 256
"""The number of random configurations of a large space that show how often a value of a choice occurs."""


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """The options of all tuners that plan by a cost model.

    Attributes:
        plan_size: the number of configurations to plan each time the model is fitted. If more are requested, a plan has
            up to a quarter as many as were measured.
        num_warmup: the number of random trials before the first plan.
        cost_model: a name with options ("xgboost:rounds=100;max_depth=6"), or an object with fit and predict.
        features: the model's inputs: "knobs", "program", or "both".
        epsilon: the share of a plan that is random.
        neglected: the share of a plan with the least tried values of choices (see `Choices`).
        diversity: the weight of differences among the rest of a plan.
        transfer_weight: the number of trials for which measurements of other shapes (`transfer`) count.
        use_experience: use experience with other workloads' programs (`experience`) as a feature, if `transfer` is
            empty.
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
        """The options to pass to the cost model."""
        return {}


class PlanTuner(LearnedTuner):
    """A base of tuners that propose the configurations that a cost model likes; subclasses add `search`."""

    Options: ClassVar[type[PlanOptions]] = PlanOptions

    def begin(
        self, seed: int, program: FeatureSource | None, transfer: Sequence[Transfer], experience: Prior | None
    ) -> None:
        known: PlanOptions = self._options
        self.batch_size = known.plan_size
        table = FeatureTable(self._space, program, known.features, [experience] if experience else [])
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
        self._all = every_row(self._space)
        self.prepare()

    def prepare(self) -> None:
        """Prepare `search`, once the space and the options are known."""

    @abstractmethod
    def search(self) -> tuple[Digits, Floats]:
        """Find rows that the model likes, and their scores, in any order; they may repeat, or be visited."""

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
        # A planned configuration may have been reported meanwhile, and is then no longer new.
        measured = set(configs)
        self._plan = [config for config in self._plan if config not in measured]

    def score(self, configs: Sequence[Config]) -> Floats:
        """Return the scores of configurations, (n,), by the model that made the last plan; higher is faster.

        Raises `ArgumentError` before there is one.
        """
        return self._learner.score(rows_of(configs))

    def best_measured(self, n: int) -> Digits:
        """Return at most `n` of the rows that ran, fastest first."""
        order = np.argsort(self._history.costs, kind="stable")[:n]
        best: Digits = self._history.rows[order[np.isfinite(self._history.costs[order])]]
        return best

    def _make_plan(self, n: int) -> list[Config]:
        missing = self._options.num_warmup - len(self._history)
        # If nothing has run so far, a model could only learn that everything fails.
        if missing <= 0 and np.isfinite(self._history.costs).any():
            self._learner.fit(self._history.rows, self._history.costs)
        elif not self._learner.ready:
            # Uniformly random: a first batch spread as far apart as can be was tried and is worse, because the
            # farthest points of a space are its corners, and the corners of split knobs are bad schedules.
            return self.random(max(n, missing))
        rows = self._planned(max(self.batch_size, min(n, len(self._history) // GROWTH)))
        plan = self._history.visited.configs(rows)
        if plan:
            self._history.predictions.expect(plan, self._learner.score(rows))
        return plan

    def _planned(self, n: int) -> Digits:
        """Return the best by the model's scores, with a share of rarely tried values, and a random share."""
        rows, scores = (self._all, self._learner.score(self._all)) if self._all is not None else self.search()
        # Experience from other shapes may be wrong here, and a model also needs bad configurations.
        epsilon = self._options.epsilon if self._learner.fitted else max(self._options.epsilon, UNTESTED)
        planned = n - int(self._rng.binomial(n, epsilon))
        seldom = int(self._rng.binomial(planned, self._neglected)) if self._neglected and self._learner.fitted else 0
        order = np.argsort(-scores, kind="stable")
        best = order[self._history.visited.fresh(rows[order], limit=n * SHORTLIST)]
        values = self._in_parts(rows[best])
        diverse = pick_diverse(values, scores[best], planned - seldom, weight=self._options.diversity)
        chosen = rows[best][diverse]
        if seldom:
            chosen = self.with_neglected(chosen, rows, scores, seldom)
        return self._history.visited.filled(chosen, n, self._rng)

    def _in_parts(self, rows: Digits) -> Digits:
        """Replace each value of a range in the rows by the number of its part of the line."""
        parts: Digits = rows.copy()
        for column, line in enumerate(self._space.structure.lines):
            if line is not None:
                parts[:, column] = line.shares(rows[:, column]) * PARTS
        return parts

    def sample(self) -> Digits:
        return self._space.sample(SAMPLE, self._rng) if self._all is None else self._all


def pick_diverse(rows: Digits, scores: Floats, n: int, *, weight: float) -> Places:
    """Choose the indices of `n` good and diverse rows, the best first.

    A batch of near duplicates teaches a model little more than one of them. So this maximises the sum of scores plus
    `weight` times the number of distinct knob values covered, greedily, which is within 1 - 1/e of the best because the
    objective is submodular: Chen et al., "Learning to Optimize Tensor Programs" (NeurIPS 2018), section 5. Scores are
    relative to the spread of `scores`; covering a new value of every knob counts as much as that whole spread.
    """
    spread = float(np.ptp(scores)) if len(scores) else 0.0
    gains = (scores - scores.min(initial=np.inf)) / spread if spread > 0 else np.zeros(len(scores))
    uncovered = np.ones(rows.shape, dtype=bool)
    chosen: list[int] = []
    left = np.ones(len(rows), dtype=bool)
    for _ in range(min(n, len(rows))):
        total = gains + weight * uncovered.sum(axis=1) / max(1, rows.shape[1])
        place = int(np.argmax(np.where(left, total, -np.inf)))
        chosen.append(place)
        left[place] = False
        uncovered &= rows != rows[place]
    return np.array(chosen, dtype=np.intp)
