"""Evolutionary search on a learned cost model, the method of Ansor.

Zheng et al., "Ansor: Generating High-Performance Tensor Programs for Deep Learning" (OSDI 2020), section 5.1: a
population of random configurations and of the best measured ones evolves for some generations by mutation and
crossover, with the scores of the model as fitness. A batch takes the best of all that was scored, and a random share.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pegbox.checks import check_float, check_int
from pegbox.search import CostModel, FeatureSource, Floats, Prior, Transfer
from pegbox.space import ConfigSpace
from pegbox.tuners.annealing import Score
from pegbox.tuners.mutation import Mutation
from pegbox.tuners.plan import PlanTuner
from pegbox.tuners.rows import Digits, Places

KEPT = 0.75
"""The share of a first generation's random members that the next plan's begins with, too, the newest: their features
are known already, and random programs' cost the most, because each may be of a kind of its own."""


class Evolution:
    """Generations of configurations of a space, `generations` of them after the first.

    Each member of the next one is a mutant of one parent with probability `mutation`, and else a child of two.
    """

    def __init__(self, space: ConfigSpace, *, generations: int, mutation: float) -> None:
        self._space = space
        self._generations = check_int("generations", generations, minimum=0)
        self._share = check_float("mutation", mutation, maximum=1.0)
        self._mutated = Mutation(space)

    def maximise(self, score: Score, rows: Digits, rng: np.random.Generator) -> tuple[Digits, Floats]:
        """All rows that were scored, (n, knobs), those of the first generation `rows` included, and their scores."""
        scores = score(rows)
        seen_rows, seen_scores = [rows], [scores]
        for _ in range(self._generations):
            rows = self._offspring(rows, scores, rng)
            scores = score(rows)
            seen_rows.append(rows)
            seen_scores.append(scores)
        return np.concatenate(seen_rows), np.concatenate(seen_scores)

    def _offspring(self, rows: Digits, scores: Floats, rng: np.random.Generator) -> Digits:
        n = len(rows)
        mutants = int(rng.binomial(n, self._share))
        mothers, fathers = rows[selected(scores, n, rng)], rows[selected(scores, n - mutants, rng)]
        crossed = self._space.crossover(mothers[mutants:], fathers, rng)
        return np.concatenate([self._mutated(mothers[:mutants], rng), crossed])


def selected(scores: Floats, n: int, rng: np.random.Generator) -> Places:
    """Places of `n` parents, each drawn with probability proportional to the exponential of its standardised score.

    Boltzmann selection (de la Maza and Tidor, "An Analysis of Selection Procedures", ICGA 1993): it has a meaning
    whatever numbers a cost model gives.
    """
    fitness = np.exp((scores - scores.max()) / (scores.std() or 1.0))
    chosen: Places = rng.choice(len(scores), n, p=fitness / fitness.sum()).astype(np.intp)
    return chosen


class EvolutionTuner(PlanTuner):
    """Proposes what a cost model expects to be fast, found by evolution.

    `plan_size` configurations are planned each time the model is fitted. The first `num_warmup` are random. Then each
    plan comes from an evolution of a `population` for some `generations` on the model's scores. The first generation is
    random, but for a share of `measured`, the best measured so far; most of the random ones stay from plan to plan. The
    next ones are made by `mutation` of one parent, with that probability, and else by crossover of two. A share of
    `epsilon` of a plan is random, a share of `neglected` has the values of choices that were tried least (see
    `Choices`), and `diversity` weighs how much the rest of it should differ.

    `cost_model`, `features`, `transfer_weight` and `use_experience` are those of `XGBTuner`.
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
        num_warmup: int = 16,
        cost_model: str | CostModel = "xgboost",
        features: str = "both",
        population: int = 160,
        generations: int = 3,
        mutation: float = 0.85,
        measured: float = 0.2,
        epsilon: float = 0.2,
        neglected: float = 0.2,
        diversity: float = 0.5,
        transfer_weight: int = 32,
    ) -> None:
        self._population = check_int("population", population, minimum=2)
        self._measured = check_float("measured", measured, maximum=1.0)
        super().__init__(
            space,
            seed=seed,
            program=program,
            transfer=transfer,
            experience=experience if use_experience else None,
            plan_size=plan_size,
            num_warmup=num_warmup,
            cost_model=cost_model,
            model_options={},
            features=features,
            epsilon=epsilon,
            neglected=neglected,
            diversity=diversity,
            transfer_weight=transfer_weight,
        )
        self._evolution = Evolution(space, generations=generations, mutation=mutation)
        self._anywhere: Digits = self._history.rows

    def search(self) -> tuple[Digits, Floats]:
        best = self.best_measured(round(self._measured * self._population))
        wanted = self._population - len(best)
        kept = self._anywhere[: int(KEPT * wanted)]
        self._anywhere = np.concatenate([self._space.sample(wanted - len(kept), self._rng), kept])
        return self._evolution.maximise(self._learner.score, np.concatenate([best, self._anywhere]), self._rng)
