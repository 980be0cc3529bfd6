"""Tuners on spaces of sketches, without measuring: a configuration costs what experience says of its program.

    python3 benchmarks/sketch_tuners.py
    python3 benchmarks/sketch_tuners.py evolution evolution:epsilon=0.05 --args "conv2d 1 64 28 28 96 3 1 1"

The tuners begin without that experience. Scores are logarithms, in standard deviations over the measurements that the
model learned from: the higher, the faster. The output shows the mean, the worst and the best over the seeds of what
each tuner has found after so many trials, beside the best of 4,000 random configurations. Experience is no machine: the
figures say how a tuner searches, not how fast kernels are.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

import pegbox as pb
from pegbox.measure.result import Ok
from pegbox.search.models.experience import Experience
from pegbox.search.models.inputs import program_features, shipped_experience, tuner_over
from pegbox.search.protocols import FeatureSource

TUNERS = ("bayes", "xgb", "evolution", "ga", "random")
LEARNERS = ("bayes", "xgb", "evolution")
ROWS = ("matmul_bias_relu 512 512 512", "matmul_bias_gelu 256 1024 1024", "conv2d 1 64 28 28 96 3 1 1")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tuners", nargs="*", default=TUNERS)
    parser.add_argument("--args", action="append", help='other rows, as "matmul 512 384 640"')
    parser.add_argument("--trials", type=int, default=96)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument(
        "--target", default="llvm -mcpu=znver5 -num-cores 1", help="for whose processor programs are made"
    )
    options = parser.parse_args()
    for row in options.args or ROWS:
        name, *words = row.split()
        task = pb.create_task(name, args=tuple(map(int, words)), space="sketch", target=options.target)
        features, experience = program_features(task), shipped_experience(task)
        if features is None or experience is None:
            raise SystemExit(f"there is no experience for {task}; give another --target")
        anywhere = experience(features(task.space.sample(4000, np.random.default_rng(0)))).max()
        print(f"{row}: best of 4,000 at random {anywhere:.2f}", flush=True)
        for tuner in options.tuners:
            found = [searched(task, features, experience, tuner, seed, options.trials) for seed in range(options.seeds)]
            print(f"  {tuner:40} {np.mean(found):5.2f}  ({min(found):.2f} to {max(found):.2f})", flush=True)
    return 0


def searched(
    task: pb.Task, features: FeatureSource, experience: Experience, tuner: str, seed: int, trials: int
) -> float:
    """The best score after that many trials."""
    own = {"use_experience": False} if tuner.split(":")[0] in LEARNERS else {}
    search = tuner_over(tuner, task, seed=seed, options=own)
    told, best = 0, -np.inf
    while told < trials:
        configs = search.ask(min(getattr(search, "batch_size", 12), trials - told))
        scores = experience(features(np.array([config.digits for config in configs])))
        search.tell(configs, [Ok(costs=(float(np.exp(-score)),)) for score in scores])
        told, best = told + len(configs), max(best, float(scores.max()))
    return float(best)


if __name__ == "__main__":
    sys.exit(main())
