"""The time of one candidate before it runs: apply and replay the schedule, lower, emit (Python), compile (LLVM).

    python3 benchmarks/candidates.py                   # 1024x1024x1024, 60 random configurations
    python3 benchmarks/candidates.py 1000x999x1001     # with tails on every side

The Python stages limit the speed of a search once LLVM is fast. Their sum should stay below 15 ms at the median.
"""

from __future__ import annotations

import argparse
import statistics
import time
from itertools import pairwise

import numpy as np

import pegbox as pb
from pegbox.codegen import compile_program, emit
from pegbox.loops.passes import lower_function


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", nargs="?", default="1024x1024x1024", help="M x K x N")
    parser.add_argument("--configs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    task = pb.create_task("matmul", args=tuple(map(int, options.shape.split("x"))), target="llvm -num-cores 1")
    rows = task.space.sample(options.configs, np.random.default_rng(options.seed))
    stages: dict[str, list[float]] = {"schedule": [], "lower": [], "emit": [], "Python": [], "LLVM": []}
    for config in map(task.space.config, rows):
        marks = [time.perf_counter()]
        scheduled = task.schedule(config).func
        marks.append(time.perf_counter())
        lowered = lower_function(scheduled)
        marks.append(time.perf_counter())
        program = emit(lowered, task.target)
        marks.append(time.perf_counter())
        compile_program(program)
        marks.append(time.perf_counter())
        parts = [b - a for a, b in pairwise(marks)]
        for name, seconds in zip(stages, [*parts[:3], sum(parts[:3]), parts[3]], strict=True):
            stages[name].append(seconds * 1e3)
    print(f"{options.shape}: {len(rows)} configurations, ms each")
    for name, values in stages.items():
        ninth = statistics.quantiles(values, n=10)[-1]
        print(f"{name:>10}  median {statistics.median(values):6.1f}   nine in ten below {ninth:6.1f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
