"""Evolutionary search on a learned cost model, the method of Ansor.

Zheng et al., "Ansor: Generating High-Performance Tensor Programs for Deep Learning" (OSDI 2020), section 5.1: a
population of random configurations and of the best measured ones evolves for some generations by mutation and
crossover, with the scores of the model as fitness. A batch takes the best of all that was scored, and a random share.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pegbox.checks import check_float, check_int
from pegbox.search import Floats
from pegbox.space import ConfigSpace
from pegbox.tuners.annealing import Score
from pegbox.tuners.mutation import Mutation
from pegbox.tuners.plan import PlanOptions, PlanTuner
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
        self._generations = generations
        self._share = mutation
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


@dataclass(frozen=True, kw_only=True)
class EvolutionOptions(PlanOptions):
    """The options of `evolution`: those of a plan, with defaults of its own, and these.

    Attributes:
        population: the number of members of a generation.
        generations: the number of generations after the first.
        mutation: the probability with which a member is a mutant of one parent rather than a child of two.
        measured: the share of the first generation that is the best measured; the others are random, and most of them
            stay from plan to plan.
    """

    num_warmup: int = 16
    epsilon: float = 0.2
    diversity: float = 0.5
    population: int = 160
    generations: int = 3
    mutation: float = 0.85
    measured: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_int("population", self.population, minimum=2)
        check_int("generations", self.generations, minimum=0)
        check_float("mutation", self.mutation, maximum=1.0)
        check_float("measured", self.measured, maximum=1.0)


class EvolutionTuner(PlanTuner):
    """Proposes what a cost model expects to be fast, found by evolution on the model's scores."""

    Options = EvolutionOptions
    _options: EvolutionOptions

    def prepare(self) -> None:
        options = self._options
        self._evolution = Evolution(self._space, generations=options.generations, mutation=options.mutation)
        self._anywhere: Digits = self._history.rows

    def search(self) -> tuple[Digits, Floats]:
        best = self.best_measured(round(self._options.measured * self._options.population))
        wanted = self._options.population - len(best)
        kept = self._anywhere[: int(KEPT * wanted)]
        self._anywhere = np.concatenate([self._space.sample(wanted - len(kept), self._rng), kept])
        return self._evolution.maximise(self._learner.score, np.concatenate([best, self._anywhere]), self._rng)
