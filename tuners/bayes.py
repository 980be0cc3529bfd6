"""The tuner `bayes`: Bayesian optimisation with a Gaussian process over knobs and programs, and experience.

Snoek et al., "Practical Bayesian Optimization of Machine Learning Algorithms" (NeurIPS 2012); for compilers' spaces of
mixed knobs with constraints, Hellsten et al., "BaCO: A Fast and Portable Bayesian Compiler Optimization Framework"
(ASPLOS 2023), from which the logarithms of costs, the priors of length scales and the local candidates are taken.
Functions of numbers have their own targets and climb the acquisition.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pegbox.checks import check_float, check_int
from pegbox.errors import ArgumentError
from pegbox.measure import Result
from pegbox.search import (
    CHOOSING,
    EXPERIENCE_MODEL,
    LEARNING,
    FeatureSource,
    Floats,
    Prior,
    Transfer,
    standardised_logs,
)
from pegbox.space import Config
from pegbox.tuners.candidates import CandidatePool
from pegbox.tuners.features import FeatureTable
from pegbox.tuners.learned_tuner import LearnedTuner
from pegbox.tuners.learner import experience_of
from pegbox.tuners.rows import Digits, Places, keys_of, rows_of
from pegbox.tuners.surrogates.design import informative_places
from pegbox.tuners.surrogates.gaussian_process import (
    DIGITS,
    EXACT,
    LENGTH,
    NOISE,
    GaussianProcess,
    Posterior,
    one_thread,
)
from pegbox.tuners.surrogates.inputs import Inputs
from pegbox.tuners.surrogates.power_transform import standardised_powers

UNTESTED = 0.2
"""The random share of the first `num_warmup` trials if experience replaces them, as it may be wrong here.

In a space with choices, their neglected values serve that purpose better.
"""

TUNING_STEPS = 12
"""The number of steps on the process's parameters for each batch, starting from the last parameters."""

SMALLEST, GROWTH = 3, 4
"""The smallest batch of programs, and the measured trials for each member of a larger one.

Programs are compiled in parallel, but the first results teach most.
"""

KNOBS_GROWTH = 8
"""The same number without programs: then batches save no time, so that the first ones have a single member."""

IMPROVING = 64
"""The number of trials up to which the expected improvement chooses batches.

They have too few members for careful and bold ones. Later batches have both kinds, as do all batches with experience or
a range.
"""

PROGRAM_LENGTH = 1.0
"""The prior's median of length scales with programs and without experience.

It spreads the first trials further. Searches of recorded spaces lose less speed meanwhile; those of functions without
programs would lose more.
"""

SHORTLIST = 1024
"""The largest number of candidates, those with the best means, whose variance is computed; it costs a hundred means."""

BEGIN = 96
"""The number of random candidates for experience's first batch.

Measuring waits for their features, and each of a convolution's hundreds of classes of programs takes milliseconds.
"""

CLASS_KNOBS, FEWEST_CLASSES = 200, 4
"""The default of `classes` times the knobs of the space, and its smallest value.

The features of a class take up to 20 ms in large spaces of sketches, where nearly each configuration has its own class.
"""

CLIMBERS, STEPS = 24, 4
"""The number of promising candidates whose neighbours are candidates, too, and the neighbours of each.

They climb one step, because the cost of features is mostly that of a call, and the next batch continues from the
results of this one.
"""

NUMBERS_ROUNDS, NUMBERS_STEPS, NUMBERS_GROWTH = 3, 6, 12
"""The rounds of neighbours, `STEPS` and `GROWTH`, with ranges and without programs.

The optimum is as fine as the numbers, so that the search climbs the acquisition further, and a trial teaches where to
place the next one. A round takes about the same time for a few more neighbours.
"""

CAREFUL = 0.33
"""The share of these batches, with one or two members at first, that have a careful one."""


@dataclass(frozen=True, kw_only=True)
class BayesOptions:
    """The options of `bayes`.

    Attributes:
        batch_size: the largest number of configurations in a proposal.
        num_warmup: the number of first trials spread over the space, unless experience or `transfer` replaces them.
        candidates, relatives: the numbers of random configurations, and of neighbours of the best measured, to choose a
            batch from.
        boldness: the weight of the deviation against the mean.
        classes: the number of classes of programs that the relatives add to a batch (see docs/features.md), with half
            as many each for the random ones and the neighbours; None: fewer for spaces with more knobs.
        neglected: the share of a batch with the least tried values of choices (see `Choices`).
        memory: the number of trials that the process learns from, the best and the latest.
        use_experience: use experience with the programs of other workloads.
    """

    batch_size: int = 8
    num_warmup: int = 6
    candidates: int = 256
    relatives: int = 144
    classes: int | None = None
    boldness: float = 2.0
    neglected: float = 0.2
    memory: int = 300
    use_experience: bool = True

    def __post_init__(self) -> None:
        check_int("batch_size", self.batch_size)
        check_int("num_warmup", self.num_warmup)
        check_int("candidates", self.candidates)
        check_int("relatives", self.relatives, minimum=0)
        if self.classes is not None:
            check_int("classes", self.classes)
        check_float("boldness", self.boldness)
        check_float("neglected", self.neglected, maximum=1.0)
        check_int("memory", self.memory, minimum=2)


class BayesTuner(LearnedTuner):
    """A tuner that proposes configurations that may be the fastest, by a Gaussian process.

    `experience` with the programs of other workloads, and `transfer`, measurements of other shapes, give the process a
    trend, which it follows as far as the trials confirm it. `program` has the features of the task's programs.
    """

    Options = BayesOptions
    asks_ahead = True

    def begin(
        self, seed: int, program: FeatureSource | None, transfer: Sequence[Transfer], experience: Prior | None
    ) -> None:
        self.batch_size = self._options.batch_size
        kind = "knobs" if program is None else "program"
        priors: list[Prior] = []
        if transfer:
            priors.append(experience_of(transfer, EXPERIENCE_MODEL, FeatureTable(self._space, program, kind)))
        self.experienced = experience is not None and program is not None
        if experience is not None and self.experienced:
            priors.append(experience)
        self._table = FeatureTable(self._space, program, kind, priors)
        self._has_priors = bool(priors)
        self._pool: CandidatePool | None = None
        self._inputs: Inputs | None = None
        self._process: GaussianProcess | None = None
        self._tuned = 0
        self._begun = False
        self._numbers = program is None and any(line is not None for line in self._space.structure.lines)
        self._length = LENGTH if program is None or priors else PROGRAM_LENGTH
        self._pending: set[Config] = set()

    @property
    def activity(self) -> str:
        """The tuner's next activity, in words."""
        return LEARNING if self._has_priors and self._begun and self._process is None else CHOOSING

    def ask(self, n: int) -> list[Config]:
        configs = self._asked(n)
        self._pending.update(configs)
        return configs

    def _asked(self, n: int) -> list[Config]:
        missing = self._options.num_warmup - len(self._history) - len(self._pending)
        if missing <= 0 and not self._differ:
            return self.random(n)
        if not self._begun and not len(self._history) and self._table.program_columns is not None:
            # A first random one is measured while features are computed and the model is prepared.
            self._begun = True
            self._table.prepare()
            return self.random(1)
        if missing > 0 and not self._has_priors:
            with one_thread():
                return self._spread(min(n, missing))
        n = min(n, self._batch())
        untested = int(self._rng.binomial(n, UNTESTED)) if missing > 0 and not self._neglected else 0
        with one_thread():
            rows, scores = self._plan(n - untested)
        if len(rows) < n:
            rows = self._history.visited.filled(rows, n, self._rng)
        configs = self._history.visited.configs(rows)
        self._history.predictions.expect(configs[: len(scores)], scores)
        return configs

    def _batch(self) -> int:
        """Return the largest size of the next batch."""
        if self._table.program_columns is not None:
            return max(SMALLEST, len(self._history) // GROWTH)
        return max(1, len(self._history) // (NUMBERS_GROWTH if self._numbers else KNOBS_GROWTH))

    def wait(self) -> None:
        self._table.wait()

    @property
    def _differ(self) -> bool:
        return bool(np.ptp(standardised_logs(self._history.costs)) > 0) if len(self._history) else False

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        self._pending.difference_update(configs)
        self._history.add(configs, results)

    def score(self, configs: Sequence[Config]) -> Floats:
        """Return the scores of configurations, (n,), by the model that chose the last batch; higher is faster.

        Raises `ArgumentError` before a model has chosen a batch.
        """
        if self._process is None or self._inputs is None:
            raise ArgumentError("bayes: no model yet; the first batch that is not random makes it")
        return -self._process.mean(self._inputs(rows_of(configs)))

    def sample(self) -> Digits:
        if self._pool is None:
            begin = BEGIN if self._has_priors else self._options.candidates
            self._pool = CandidatePool(
                self._history.visited,
                self._rng,
                anywhere=self._options.candidates,
                near=self._options.relatives,
                begin=begin,
                classes=self._options.classes or max(FEWEST_CLASSES, CLASS_KNOBS // max(1, len(self._space.knobs))),
                affordable=self._table.affordable,
            )
        return self._pool.sample

    def _inputs_of(self, sample: Digits) -> Inputs:
        program = self._table if self._table.program_columns is not None else None
        self._inputs = self._inputs or Inputs(self._space, program, sample)
        return self._inputs

    def _spread(self, n: int) -> list[Config]:
        """Choose `n` new configurations that tell most about the others beyond the known trials (see `design`)."""
        sample, visited = self.sample(), self._history.visited
        inputs = self._inputs_of(sample)
        tried = np.unique(visited.rows, axis=0)
        rows = np.concatenate([tried, sample[visited.fresh(sample)]])
        covariance = GaussianProcess(inputs.groups, length=self._length).covariance(inputs(rows))
        places = informative_places(covariance, n, noise=math.exp(NOISE.mean), known=len(tried))
        return visited.configs(visited.filled(rows[places], n, self._rng))

    def _plan(self, n: int) -> tuple[Digits, Floats]:
        """Choose at most `n` new rows; returns them and the model's scores."""
        inputs = self._inputs_of(self.sample())
        pool = self._pool
        assert pool is not None  # the pool made the sample
        process = self._learned(inputs)
        found = rows = pool.around(self._history.rows, self._history.costs)
        if not len(rows):
            return rows, np.empty(0)
        means = process.mean(inputs(found)) if len(found) > SHORTLIST else None
        if means is not None:
            rows = found[np.sort(np.argsort(means, kind="stable")[:SHORTLIST])]
        posterior = process.posterior(inputs(rows))
        known, steps = set(keys_of(rows)), NUMBERS_STEPS if self._numbers else STEPS
        for _ in range(NUMBERS_ROUNDS if self._numbers else 1):
            best = np.argsort(posterior.bounds(self._options.boldness), kind="stable")[:CLIMBERS]
            more = pool.neighbors(np.repeat(rows[best], steps, axis=0), but=known, cross=self._numbers)
            if not len(more):
                break
            rows = np.concatenate([rows, more])
            known.update(keys_of(more))
            posterior = posterior.join(process.posterior(inputs(more)))
        seldom = int(self._rng.binomial(n, self._neglected)) if self._neglected else 0
        chosen = self._chosen(posterior, n - seldom, process.least)
        if not seldom:
            return rows[chosen], -posterior.mean[chosen]
        # The shortlist may contain no configuration with a value that looks bad.
        scored, costs = (rows, np.round(posterior.mean, DIGITS)) if means is None else (found, means)
        batch = self.with_neglected(rows[chosen], scored, -costs, seldom)
        return batch, -np.concatenate([posterior.mean[chosen], process.mean(inputs(batch[len(chosen) :]))])

    def _chosen(self, posterior: Posterior, n: int, least: float) -> Places:
        if not self._has_priors and not self._numbers and len(self._history) < IMPROVING:
            return improving_batch(posterior, n, least)
        careful = not self._numbers or self._rng.random() < CAREFUL
        return optimistic_batch(posterior, n, self._rng, boldness=self._options.boldness, careful=careful)

    def _learned(self, inputs: Inputs) -> GaussianProcess:
        """Fit the process on the trials that it remembers, and its parameters only after a tenth more trials."""
        if self._process is None:
            noise = EXACT if self._numbers else NOISE
            self._process = GaussianProcess(inputs.groups, trends=inputs.trends, noise=noise, length=self._length)
        best = np.argsort(self._history.costs, kind="stable")[: self._options.memory // 2]
        others = np.setdiff1d(np.arange(len(self._history)), best)
        kept = np.sort(np.concatenate([best, others[-(self._options.memory - len(best)) :]]))
        due = self._differ and len(self._history) >= 1.15 * self._tuned
        self._process.fit(
            inputs(self._history.rows[kept]),
            (standardised_powers if self._numbers else standardised_logs)(self._history.costs[kept]),
            steps=TUNING_STEPS if due else 0,
        )
        self._tuned = len(self._history) if due else self._tuned
        return self._process


def optimistic_batch(
    posterior: Posterior, n: int, rng: np.random.Generator, *, boldness: float, careful: bool = True
) -> Places:
    """Choose `n` different rows, each with the lowest `mean - b * deviation` given those before it.

    In a `careful` batch, the first has the best mean, b = 0: exploring must not prevent the use of knowledge. Each
    other draws its own b, exponential with mean `boldness`, so that a batch has careful and bold members: Berk et al.,
    "Randomised Gaussian Process Upper Confidence Bound for Bayesian Optimisation" (IJCAI 2020). A chosen one is
    observed at its mean before the next is chosen, which keeps a batch from crowding in one place.
    """
    chosen: list[int] = []
    bolds = [*([0.0] if careful else []), *rng.exponential(boldness, n)]
    for bold in bolds[: min(n, len(posterior.mean))]:
        bounds = posterior.bounds(bold)
        bounds[chosen] = np.inf
        chosen.append(int(np.argmin(bounds)))
        posterior = posterior.observe(chosen[-1])
    return np.array(chosen, dtype=np.intp)


def improving_batch(posterior: Posterior, n: int, least: float) -> Places:
    """Choose `n` different rows, each with the largest expected improvement on the `least` target so far.

    Jones et al., "Efficient Global Optimization of Expensive Black-Box Functions" (Journal of Global Optimization 13,
    1998). With a single member per batch, this explores more than the lowest mean does.
    """
    chosen: list[int] = []
    for _ in range(min(n, len(posterior.mean))):
        improvements = posterior.improvements(least)
        improvements[chosen] = -np.inf
        chosen.append(int(np.argmax(improvements)))
        posterior = posterior.observe(chosen[-1])
    return np.array(chosen, dtype=np.intp)
