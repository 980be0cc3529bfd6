"""From the result of a tuning run to the run of a comparison."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from pegbox.measure.result import Failed
from pegbox.search.comparison.runs import Run, best_curve, is_cost
from pegbox.search.outcome import BestTrial, Trial, TuneResult


def winner_of(result: TuneResult) -> Trial | BestTrial | None:
    """What the run's own second look found best, or else its fastest trial; never one whose cost is none."""
    if result.best is not None and is_cost(result.best.cost):
        return result.best
    return min((trial for trial in result.trials if is_cost(trial.cost)), key=lambda trial: trial.cost, default=None)


def run_of(task: str, tuner: str, seed: int, result: TuneResult, winner: Trial | BestTrial | None) -> Run:
    costs = [trial.cost for trial in result.trials]
    return Run(
        task=task,
        tuner=tuner,
        seed=seed,
        curve=best_curve(costs),
        final_cost=math.inf if winner is None else winner.cost,
        config=None if winner is None else winner.config.to_json(),
        failures=failures_of(result.trials),
        seconds=result.elapsed,
        tuner_seconds=sum(result.phases.get(phase, 0.0) for phase in ("propose", "learn")),
        stopped_because=result.stopped_because,
        model=result.model if result.model is not None and result.model.pairs else None,
    )


def failures_of(trials: Sequence[Trial]) -> dict[str, int]:
    """How many trials gave no cost, by kind; "no cost" where a trial succeeded with NaN, infinity or nothing."""
    bad = [trial.result for trial in trials if not is_cost(trial.cost)]
    return dict(Counter(str(result.kind) if isinstance(result, Failed) else "no cost" for result in bad).most_common())
