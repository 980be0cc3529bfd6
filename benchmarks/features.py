"""The number of candidates per second that a cost model can score by features of their programs.

    python3 benchmarks/features.py                          # matmul 512 512 512
    python3 benchmarks/features.py 128 3072 768 --rows 4000
    python3 benchmarks/features.py 1 64 56 56 128 3 3 --template conv2d

Rates are the best of a few rounds, in processor time of one thread. Features and model together should reach at least
20,000 per second for matmul. For comparison the script also measures a run of the template for each candidate, lowering
each one (the least that features of lowered programs would cost), and the encoding of the knobs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import pegbox as pb
from pegbox.features import ProgramFeatures
from pegbox.tuners.cost_models.xgboost import XGBoostCostModel


def rate(work: Callable[[], object], count: int, *, rounds: int = 5) -> float:
    """Candidates per second, in the fastest round."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return count / best


def trained(features: Any) -> XGBoostCostModel:
    """A model after 200 trials with random costs: the speed of its predictions does not depend on them."""
    model = XGBoostCostModel(seed=0)
    model.fit(features, np.random.default_rng(0).uniform(1e-3, 1e-2, len(features)))
    return model


def main(args: list[int], template: str, count: int) -> None:
    task = pb.create_task(template, args=args)
    space, features = task.space, ProgramFeatures(task)
    rows = space.sample(count, np.random.default_rng(0))
    print(
        f"{task.name}{tuple(args)}: {space.size:,} configurations, {len(rows):,} rows, {len(features.names)} features"
    )
    start = time.process_time()
    features(rows[:1000])
    print(f"the first 1,000 rows:          {time.process_time() - start:7.2f} s")
    start = time.process_time()
    features(rows)
    print(f"the others for the first time: {time.process_time() - start:7.2f} s, {features.num_classes} classes in all")
    model = trained(features(rows[:200]))
    knobs = trained(space.encode(rows[:200]))
    few = [space.config(row) for row in rows[:20]]
    table = [
        ("features", lambda: features(rows), len(rows)),
        ("features, 128 at a time", lambda: [features(rows[i : i + 128]) for i in range(0, len(rows), 128)], len(rows)),
        ("features and model", lambda: model.predict(features(rows)), len(rows)),
        ("knobs' encoding and model", lambda: knobs.predict(space.encode(rows)), len(rows)),
        ("a run for each", lambda: [features.direct(config) for config in few], len(few)),
        ("lowering each", lambda: [task.lowered(config) for config in few], len(few)),
    ]
    for name, work, number in table:
        print(f"{name:<27} {rate(work, number, rounds=5 if number > 100 else 2):10,.0f} a second")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("args", type=int, nargs="*", default=[512, 512, 512])
    parser.add_argument("--template", default="matmul")
    parser.add_argument("--rows", type=int, default=4000)
    options = parser.parse_args()
    main(options.args, options.template, options.rows)
