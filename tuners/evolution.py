"""Evolutionary search on a learned cost model, the method of Ansor.

Zheng et al., "Ansor: Generating High-Performance Tensor Programs for Deep Learning" (OSDI 2020), section 5.1: a
population of random configurations and of the best measured ones evolves for some generations by mutation and
crossover, with the scores of the model as fitness. A batch takes the best of all scored configurations, and a random
share.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from pegbox.checks import check_float, check_int
from pegbox.search import Floats
from pegbox.space import ConfigSpace, SplitKnob, divisors, inferred_outer, powers_of_two, revive
from pegbox.tuners.plan_tuner import PlanOptions, PlanTuner, Score
from pegbox.tuners.rows import Digits, Places

KEPT = 0.75
"""The share of a first generation's random members, the newest, that the next plan reuses.

Their features are known, and those of random programs cost most, since each may have its own class.
"""

NEAR = 0.75
"""The share of mutations of a number that are steps on its line."""

MANY = 1024
"""The number of values beyond which a range is not mutated more often."""

TRIES = 8
"""The number of draws after a mutation that the space excludes, before the space provides a neighbour."""


class Mutation:
    """A mutation of rows of digits: in each, one existing knob changes, with a probability that grows with its number
    of values.

    A split moves a factor (`factor_moves`), a number of a range mostly moves on its line, and every other knob takes
    another value. Knobs that begin to exist get random values.
    """

    def __init__(self, space: ConfigSpace) -> None:
        self._space = space
        structure = space.structure
        lengths = zip(structure.lengths, structure.lines, strict=True)
        most = [length if line is None else min(length, MANY) for length, line in lengths]
        self._weights = np.log2(np.maximum(most, 1))
        self._moves: dict[tuple[int, int], list[int]] = {}

    def __call__(self, rows: Digits, rng: np.random.Generator) -> Digits:
        """Return a mutant of each valid canonical row (n, knobs): valid, canonical, and different if possible."""
        mutants: Digits = rows.copy()
        pending = np.arange(len(rows))
        for _ in range(TRIES):
            moved = self._moved(rows[pending], rng)
            good = self._space.is_valid(moved) & (moved != rows[pending]).any(axis=1)
            mutants[pending[good]] = moved[good]
            pending = pending[~good]
            if not len(pending):
                return mutants
        mutants[pending] = self._space.neighbors(rows[pending], rng)
        return mutants

    def _moved(self, rows: Digits, rng: np.random.Generator) -> Digits:
        weights = np.where(self._space.structure.active(rows), self._weights, 0.0)
        # Of exponential waiting times with the weights as rates, each is the first with its weight's probability.
        with np.errstate(divide="ignore"):
            chosen = (rng.exponential(size=rows.shape) / weights).argmin(axis=1)
        moved = rows.copy()
        for column in np.unique(chosen[weights.any(axis=1)]).tolist():
            group = np.flatnonzero(chosen == column)
            moved[group, column] = self._step(column, rows[group, column], rng)
        return revive(self._space.structure, rows, moved, rng)

    def _step(self, column: int, digits: Digits, rng: np.random.Generator) -> Digits:
        """Choose another digit of the knob for each row."""
        knob = self._space.structure.knobs[column]
        others = rng.integers(0, len(knob) - 1, len(digits), dtype=np.int64)
        others += others >= digits
        if knob.line is not None:
            return np.where(rng.random(len(digits)) < NEAR, knob.line.near(digits, rng), others)
        if isinstance(knob, SplitKnob):
            for place, (digit, luck) in enumerate(zip(digits.tolist(), rng.random(len(digits)).tolist(), strict=True)):
                if (column, digit) not in self._moves:
                    self._moves[column, digit] = factor_moves(knob, digit)
                if moves := self._moves[column, digit]:
                    others[place] = moves[int(luck * len(moves))]
        return others


def factor_moves(knob: SplitKnob, digit: int) -> list[int]:
    """Return the digits of the splits made from this one by moving one factor from a level to another.

    A move keeps the product of the extents, so that the tiles of the other levels change as little as possible. The
    extent of the outermost level is rounded up if the split does not divide; it gives away its divisors, and powers of
    two.
    """
    inner = knob.entities[digit].sizes[1:]
    sizes = (inferred_outer(knob.extent, inner), *inner)
    factors = [divisors(size) for size in sizes]
    factors[0] = sorted({*factors[0], *powers_of_two(sizes[0])})
    found: set[int] = set()
    for source, goal in itertools.permutations(range(len(sizes)), 2):
        for factor in factors[source][1:]:
            moved = list(sizes)
            moved[source] //= factor
            moved[goal] *= factor
            found.add(knob.digits_by_key.get(tuple(moved[1:]), digit))
    return sorted(found - {digit})


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
        """Return all scored rows, (n, knobs), including the first generation `rows`, and their scores."""
        scores = score(rows)
        seen_rows, seen_scores = [rows], [scores]
        for _ in range(self._generations):
            mutants = int(rng.binomial(len(rows), self._share))
            mothers = rows[selected(scores, len(rows), rng)]
            fathers = rows[selected(scores, len(rows) - mutants, rng)]
            crossed = self._space.crossover(mothers[mutants:], fathers, rng)
            rows = np.concatenate([self._mutated(mothers[:mutants], rng), crossed])
            scores = score(rows)
            seen_rows.append(rows)
            seen_scores.append(scores)
        return np.concatenate(seen_rows), np.concatenate(seen_scores)


def selected(scores: Floats, n: int, rng: np.random.Generator) -> Places:
    """Draw `n` parents, each with probability proportional to the exponential of its standardised score.

    Boltzmann selection (de la Maza and Tidor, "An Analysis of Selection Procedures", ICGA 1993): it works for any scale
    of scores.
    """
    fitness = np.exp((scores - scores.max()) / (scores.std() or 1.0))
    chosen: Places = rng.choice(len(scores), n, p=fitness / fitness.sum()).astype(np.intp)
    return chosen


@dataclass(frozen=True, kw_only=True)
class EvolutionOptions(PlanOptions):
    """The options of `evolution`: those of a plan, with other defaults, and these.

    Attributes:
        population: the number of members of a generation.
        generations: the number of generations after the first.
        mutation: the probability with which a member is a mutant of one parent rather than a child of two.
        measured: the share of the best measured in the first generation; the others are random, and most of them stay
            from plan to plan.
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
    """A tuner that proposes configurations that a cost model expects to be fast, found by evolution on its scores."""

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
