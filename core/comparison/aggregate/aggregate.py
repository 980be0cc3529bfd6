"""`Aggregate`: the results of a comparison over all its spaces."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pegbox.checks import check_int
from pegbox.comparison.aggregate.features import Split, splits
from pegbox.comparison.aggregate.performance import mean_of_spaces, performance, performance_in_time
from pegbox.comparison.aggregate.ranks import Ranking, ranking
from pegbox.comparison.aggregate.signed_ranks import SignedRanks, signed_ranks
from pegbox.comparison.aggregate.suspicion import Suspicion, suspicion
from pegbox.comparison.aggregate.targets import expected_runtime, reached
from pegbox.comparison.runs import Run, TaskInfo
from pegbox.comparison.statistics import median, superiority
from pegbox.comparison.verdicts import TARGET, Question, judge
from pegbox.errors import ArgumentError
from pegbox.shown import value_text

if TYPE_CHECKING:
    from pegbox.comparison.report import Comparison

RESAMPLES = 2_000


@dataclass(frozen=True)
class SpaceScore:
    """A tuner's score on a space: the mean performance up to the cutoff, over trials and over time, of all seeds.

    `runs` are the scores of the single runs, `expected_runtime` is the expected number of trials to 95% of the best
    speed.
    """

    space: str
    score: float
    in_time: float
    expected_runtime: float
    runs: tuple[float, ...]


@dataclass(frozen=True)
class Score:
    """A tuner's score over all spaces.

    Attributes:
        score, interval: the mean of its scores on the spaces, and the 95% bootstrap interval over the seeds.
        in_time: the same over time.
        reached: the share of pairs of a space and a target that it finally reached.
        rank: its mean rank by the median of the best costs.
        spaces: its scores on spaces with a finished run.
        broken: the number of runs without a result.
        overhead: its own seconds for each trial, median over the spaces.
    """

    tuner: str
    score: float
    interval: tuple[float, float]
    in_time: float
    reached: float
    rank: float
    spaces: tuple[SpaceScore, ...]
    broken: int
    overhead: float


@dataclass(frozen=True)
class Pair:
    """Two tuners over all spaces. The first beats the second on `wins` spaces and loses on `losses`.

    `effect` is the mean of Vargha and Delaney's A12: the probability that a run of the first is the better one;
    `differ` is True if Nemenyi's test distinguishes them. `ranks` are the probabilities of the Bayesian signed-rank
    test, by the scores on their common spaces.
    """

    first: str
    second: str
    wins: int
    losses: int
    effect: float
    differ: bool
    ranks: SignedRanks


@dataclass(frozen=True)
class Aggregate:
    """A comparison over its spaces at a budget of `trials`; `scores` are in descending order.

    `ranking` has the tuners in the order of `scores`. `splits` compare spaces by their features.
    """

    trials: int
    tasks: tuple[TaskInfo, ...]
    scores: tuple[Score, ...]
    ranking: Ranking
    pairs: tuple[Pair, ...]
    splits: tuple[Split, ...]
    suspicions: tuple[Suspicion, ...]

    @property
    def tuners(self) -> tuple[str, ...]:
        """The tuners, best first."""
        return tuple(score.tuner for score in self.scores)

    def score_of(self, tuner: str) -> Score:
        """Find the score of a tuner. Raises `ArgumentError` for one that has none."""
        for score in self.scores:
            if isinstance(tuner, str) and score.tuner == tuner:
                return score
        known = ", ".join(self.tuners)
        raise ArgumentError(f"no tuner is called {value_text(tuner)} in this comparison; its tuners are {known}")

    def table(self) -> str:
        """Write the aggregate as plain text."""
        from pegbox.comparison.aggregate.text import aggregate_text

        return aggregate_text(self)

    def to_latex(self) -> str:
        """Write the table of tuners for LaTeX, with `booktabs`."""
        from pegbox.comparison.aggregate.export import latex_table

        return latex_table(self)

    def to_csv(self) -> str:
        """Write a line for each tuner and space."""
        from pegbox.comparison.aggregate.export import csv_lines

        return csv_lines(self)

    def __str__(self) -> str:
        return self.table()


def aggregate(report: Comparison, trials: int | None = None) -> Aggregate:
    """Aggregate a comparison over its spaces with completely known costs.

    Args:
        trials: the budget, at most that of the comparison.

    Raises `ArgumentError` for a comparison without such a space.
    """
    budget = report.trials if trials is None else check_int("trials", trials, maximum=report.trials)
    tasks = tuple(task for task in report.tasks if task.landscape is not None)
    if not tasks:
        raise ArgumentError(
            "aggregate: random search is calculated from all costs of a space, and no space of this comparison has "
            "them; compare on recorded spaces, or on a suite"
        )
    runs = {task.name: report.runs_of(task.name) for task in tasks}
    tuners = [tuner for tuner in report.setup.tuners if any(tuner in some for some in runs.values())]
    finals = [[_median_best(runs[task.name].get(tuner, ()), budget) for tuner in tuners] for task in tasks]
    ranked = dict(zip(tuners, ranking(finals).ranks, strict=True))
    scores = [_score(report, tuner, tasks, runs, budget, ranked[tuner]) for tuner in tuners]
    scores.sort(key=lambda score: (-score.score if math.isfinite(score.score) else math.inf, score.rank))
    order = [tuners.index(score.tuner) for score in scores]
    ordered = ranking([[row[place] for place in order] for row in finals])
    names = [score.tuner for score in scores]
    suspicions = [
        suspicion(tuner, [(task, run) for task in tasks for run in runs[task.name].get(tuner, ())], report.setup.start)
        for tuner in names
    ]
    return Aggregate(
        trials=budget,
        tasks=tasks,
        scores=tuple(scores),
        ranking=ordered,
        pairs=tuple(_pairs(scores, tasks, runs, ordered, budget, report)),
        splits=tuple(splits(tasks, {s.tuner: {one.space: one.score for one in s.spaces} for s in scores})),
        suspicions=tuple(each for each in suspicions if each is not None),
    )


def performance_curve(report: Comparison, tuner: str, trials: int) -> NDArray[np.float64]:
    """Compute the mean performance over the spaces, at hundredths of the way to each cutoff."""
    curves = []
    for task in report.tasks:
        some = report.runs_of(task.name).get(tuner)
        if some and task.landscape is not None:
            curve = performance(some, task.landscape, trials).mean(axis=0)
            curves.append(np.interp(np.linspace(0, 1, 101), np.linspace(0, 1, len(curve)), curve))
    return np.mean(curves, axis=0) if curves else np.full(101, math.nan)


def arrival_curve(report: Comparison, tuner: str, trials: int) -> NDArray[np.float64]:
    """Compute, after each trial, the share of pairs of a space and a target that a tuner has reached."""
    shares = [
        reached(some, report.best_known(task.name), trials)
        for task in report.tasks
        if (some := report.runs_of(task.name).get(tuner))
    ]
    return np.sum(shares, axis=0) / len(report.tasks) if shares else np.zeros(trials)


def _median_best(runs: Sequence[Run], trials: int) -> float:
    return median([run.best_after(trials) for run in runs]) if runs else math.inf


def _score(
    report: Comparison,
    tuner: str,
    tasks: Sequence[TaskInfo],
    runs: Mapping[str, Mapping[str, Sequence[Run]]],
    trials: int,
    rank: float,
) -> Score:
    spaces = [_space_score(task, runs[task.name][tuner], trials) for task in tasks if tuner in runs[task.name]]
    own = [median([run.tuner_seconds / max(len(run.curve), 1) for run in runs[space.space][tuner]]) for space in spaces]
    return Score(
        tuner=tuner,
        score=mean_of_spaces([space.score for space in spaces]),
        interval=_interval(spaces),
        in_time=mean_of_spaces([space.in_time for space in spaces]),
        reached=float(arrival_curve(report, tuner, trials)[-1]),
        rank=rank,
        spaces=tuple(spaces),
        broken=sum(run.tuner == tuner for run in report.broken),
        overhead=median(own),
    )


def _space_score(task: TaskInfo, runs: Sequence[Run], trials: int) -> SpaceScore:
    assert task.landscape is not None
    each = performance(runs, task.landscape, trials).mean(axis=1)
    in_time = performance_in_time(runs, task.landscape, trials).mean(axis=1)
    return SpaceScore(
        space=task.name,
        score=float(each.mean()),
        in_time=float(in_time.mean()),
        expected_runtime=expected_runtime(runs, task.landscape.optimum / TARGET, trials),
        runs=tuple(each.tolist()),
    )


def _interval(spaces: Sequence[SpaceScore]) -> tuple[float, float]:
    """Compute the bootstrap interval of the mean over spaces: the seeds of each space are drawn again."""
    rng = np.random.default_rng(0)
    means = [
        np.array(space.runs)[rng.integers(len(space.runs), size=(RESAMPLES, len(space.runs)))].mean(axis=1)
        for space in spaces
    ]
    low, high = np.quantile(np.mean(means, axis=0), [0.025, 0.975])
    return float(low), float(high)


def _pairs(
    scores: Sequence[Score],
    tasks: Sequence[TaskInfo],
    runs: Mapping[str, Mapping[str, Sequence[Run]]],
    ranked: Ranking,
    trials: int,
    report: Comparison,
) -> list[Pair]:
    tuners = [score.tuner for score in scores]
    known = {score.tuner: {space.space: space.score for space in score.spaces} for score in scores}
    wins: dict[tuple[str, str], int] = {}
    effects: dict[tuple[str, str], list[float]] = {}
    for task in tasks:
        some = {tuner: runs[task.name][tuner] for tuner in tuners if len(runs[task.name].get(tuner, ())) > 1}
        best = report.best_known(task.name)
        for verdict in judge(task.name, Question("budget", trials), some, trials=report.trials, best_known=best):
            if verdict.decided:
                wins[verdict.better, verdict.worse] = wins.get((verdict.better, verdict.worse), 0) + 1
        ends = {tuner: [run.best_after(trials) for run in each] for tuner, each in some.items()}
        for one in ends:
            for other in ends:
                effects.setdefault((one, other), []).append(superiority(ends[one], ends[other]))
    return [
        Pair(
            first=one,
            second=other,
            wins=wins.get((one, other), 0),
            losses=wins.get((other, one), 0),
            effect=mean_of_spaces(effects.get((one, other), [])),
            differ=ranked.differ(place, later),
            ranks=_signed(known[one], known[other]),
        )
        for place, one in enumerate(tuners)
        for later, other in enumerate(tuners)
        if place < later
    ]


def _signed(one: Mapping[str, float], other: Mapping[str, float]) -> SignedRanks:
    both = sorted(one.keys() & other.keys())
    return signed_ranks([one[space] for space in both], [other[space] for space in both])
