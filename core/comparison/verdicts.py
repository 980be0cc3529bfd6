"""Verdicts: tests for each pair of tuners at fixed budgets and fixed targets.

Both views are those of the COCO platform (Hansen et al., "COCO: a platform for comparing continuous optimizers in a
black-box setting", 2021): the quality after n trials, and the number of trials to a quality. A run that never reached
the target would have needed more trials than it had: it ranks behind all that did, and ties with others like it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pegbox.comparison.runs import Run
from pegbox.comparison.statistics import holm, mann_whitney, median, superiority

LEVEL = 0.05
"""The level below which p means a significant difference."""

TARGET = 0.95
"""The share of the best known speed that is the target of tuners."""


@dataclass(frozen=True)
class Question:
    """A question: the best cost after `at` trials (`budget`), or the trials to a share `at` of the best known speed."""

    kind: Literal["budget", "target"]
    at: float

    def values(self, runs: Sequence[Run], *, trials: int, best_known: float) -> list[float]:
        """Compute each run's answer; lower is better. After all trials, the final measurements count."""
        if self.kind == "target":
            return [run.trials_to(best_known / self.at) for run in runs]
        return [run.final_cost if self.at >= trials else run.best_after(int(self.at)) for run in runs]


@dataclass(frozen=True)
class Verdict:
    """The answer to a question about a pair on a task. `better` is the tuner with the lower ranks, `worse` the other.

    `p` is the two-sided p of the Mann-Whitney test, `corrected` by Holm over all pairs of the question. `superiority`
    is the share of pairs in which a run of `better` beats one of `worse`. `ratio` is the worse median divided by the
    better one: infinite if only one found anything, 1 if neither did.
    """

    task: str
    question: Question
    better: str
    worse: str
    p: float
    corrected: float
    superiority: float
    ratio: float

    @property
    def decided(self) -> bool:
        """True if the difference between the two is significant."""
        return self.corrected < LEVEL


def questions(trials: int, start: int) -> list[Question]:
    """List the questions: a quarter, half (after the common start) and all of the budget, and the target."""
    earlier = {count for count in (trials // 4, trials // 2) if start < count < trials}
    budgets = [Question("budget", count) for count in sorted({*earlier, trials})]
    return [*budgets, Question("target", TARGET)]


def judge(
    task: str, question: Question, runs: Mapping[str, Sequence[Run]], *, trials: int, best_known: float
) -> list[Verdict]:
    """Judge each pair of tuners; `runs` by tuner."""
    values = {name: question.values(some, trials=trials, best_known=best_known) for name, some in runs.items()}
    pairs = [
        (one, other) if superiority(values[one], values[other]) >= 0.5 else (other, one)
        for one, other in itertools.combinations(values, 2)
    ]
    ps = [mann_whitney(values[better], values[worse]) for better, worse in pairs]
    return [
        Verdict(
            task=task,
            question=question,
            better=better,
            worse=worse,
            p=p,
            corrected=corrected,
            superiority=superiority(values[better], values[worse]),
            ratio=_ratio(median(values[worse]), median(values[better])),
        )
        for (better, worse), p, corrected in zip(pairs, ps, holm(ps), strict=True)
    ]


def _ratio(worse: float, better: float) -> float:
    return 1.0 if worse == better else worse / better
