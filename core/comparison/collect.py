"""From the result of a tuning run to the run of a comparison."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from pegbox.comparison.runs import Run
from pegbox.measure.result import Failed
from pegbox.search.loop.outcome import Trial, TuneResult


def run_of(task: str, tuner: str, seed: int, result: TuneResult) -> Run:
    """One run; its final cost is the one that it found itself."""
    return Run(
        task=task,
        tuner=tuner,
        seed=seed,
        curve=tuple(result.best_costs()),
        final_cost=math.inf if result.best is None else result.best.cost,
        config=None if result.best is None else result.best.config.to_json(),
        failures=failures_of(result.trials),
        seconds=result.elapsed,
        tuner_seconds=sum(result.phases.get(phase, 0.0) for phase in ("propose", "learn")),
        stopped_because=result.stopped_because,
        model=result.model if result.model is not None and result.model.pairs else None,
        dropped=sum(result.dropped.values()),
    )


def failures_of(trials: Sequence[Trial]) -> dict[str, int]:
    """How many trials failed, by kind; those that a simulation had no answer for are among them."""
    return dict(Counter(str(t.result.kind) for t in trials if isinstance(t.result, Failed)).most_common())
