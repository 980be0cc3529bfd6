"""The worth of the second half of LLVM's optimizer: random candidates compiled with and without it, timed in turns.

    python3 benchmarks/optimizer.py                          # all rows
    python3 benchmarks/optimizer.py softmax --configs 60     # those workloads
    python3 benchmarks/optimizer.py --args "max_pool2d 1 64 56 56 3 2 1"

The second half vectorizes or unrolls loops that the schedule left scalar; pegbox runs it where there are any. For the
candidates with scalar loops and for those without, the output shows how many they are; the time with the first half
divided by the time with all passes (geometric mean and extremes; above 1, the second half is worth it); LLVM's time for
each, in the same way (its share is saved without). "choice" is the time of the kernel that a search gets if it ranks
candidates by the first half and compiles the fastest with all, divided by the time of the fastest as pegbox compiles
them: above 1, to time what users get is worth it. Medians of rounds in which both take turns, on one core.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import statistics
from dataclasses import dataclass, replace

import numpy as np

import pegbox as pb
from pegbox.codegen import Program, compile_program, load
from pegbox.errors import PegboxError

SKETCHES = (
    "softmax 256 300", "softmax 1024 1024", "max_pool2d 1 16 32 32 3 2 1", "max_pool2d 1 16 32 32 2 2 0",
    "avg_pool2d 1 16 32 32 3 2 1", "layer_norm 256 1024", "matmul_bias_relu 256 256 256",
    "matmul_bias_relu 250 249 251", "matmul_bias_gelu 128 256 256", "conv2d 1 32 28 28 64 3 1 1",
    "conv2d_bn_relu 1 64 14 14 64 3 1 1", "depthwise_conv2d 1 32 28 28 3 1 1", "conv2d_winograd 1 16 28 28 32",
    "batch_matmul 4 64 64 64",
)  # fmt: skip
TEMPLATES = ("matmul 256 256 256", "matmul 250 249 251", "conv2d 1 32 28 28 64 3 3", "batch_matmul 4 64 64 64")
LONGEST_BLOCK = 1500  # instructions; longer ones compile for seconds


@dataclass(frozen=True)
class Candidate:
    """Nanoseconds per call and LLVM's seconds with the first half of the passes and with all; is one loop scalar?"""

    scalar_loops: bool
    first: float
    whole: float
    first_compiled: float
    whole_compiled: float

    @property
    def ratio(self) -> float:
        return self.first / self.whole

    @property
    def ours(self) -> float:
        return self.whole if self.scalar_loops else self.first


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", help="only the rows of these workloads")
    parser.add_argument("--args", action="append", help='other sketches, as "max_pool2d 1 64 56 56 3 2 1"')
    parser.add_argument("--configs", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--target", default="llvm -num-cores 1")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rows = [("sketch", row) for row in options.args or SKETCHES]
    rows += [] if options.args else [("template", row) for row in TEMPLATES]
    found: list[Candidate] = []
    for space, row in rows:
        if options.workloads and row.split()[0] not in options.workloads:
            continue
        candidates = measured(space, row, options)
        chosen = min(candidates, key=lambda each: each.first).whole / min(each.ours for each in candidates)
        print(f"{space} {row}: {summary(candidates)}; choice {chosen:.2f}", flush=True)
        found += candidates
    print(f"all: {summary(found)}")
    return 0


def summary(candidates: list[Candidate]) -> str:
    parts = []
    for scalar, name in ((True, "with scalar loops"), (False, "without")):
        group = [each for each in candidates if each.scalar_loops is scalar]
        if group:
            ratios = [each.ratio for each in group]
            compiled = sum(each.whole_compiled for each in group) / sum(each.first_compiled for each in group)
            span = f"{statistics.geometric_mean(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            parts.append(f"{len(group)} {name}: {span}, LLVM's time {compiled:.2f}")
    return "; ".join(parts)


def measured(space: str, row: str, options: argparse.Namespace) -> list[Candidate]:
    name, *words = row.split()
    more = {"space": "sketch"} if space == "sketch" else {}
    task = pb.create_task(name, args=tuple(map(int, words)), target=options.target, **more)
    rng = np.random.default_rng(options.seed)
    arrays = [rng.uniform(-1, 1, spec.shape).astype(spec.dtype) for spec in task.arguments()]
    programs = []
    for config in map(task.space.config, task.space.sample(options.configs, rng)):
        try:
            program = task.lower(config)
        except PegboxError:
            continue
        if program.longest_block <= LONGEST_BLOCK:
            programs.append(program)
    return [compared(program, arrays, options.rounds) for program in programs]


def compared(program: Program, arrays: list[np.ndarray], rounds: int) -> Candidate:
    compiled = [compile_program(replace(program, scalar_loops=each), apart=False) for each in (False, True)]
    kernels = [load(each) for each in compiled]
    number = max(1, math.ceil(1e6 / max(1, kernels[0].time_ns(arrays, 2) / 2)))
    samples: list[list[int]] = [[], []]
    for _, (kernel, times) in itertools.product(range(rounds), zip(kernels, samples, strict=True)):
        times.append(kernel.time_ns(arrays, number))
    first, whole = (statistics.median(times) / number for times in samples)
    return Candidate(program.scalar_loops, first, whole, *(each.seconds for each in compiled))


if __name__ == "__main__":
    raise SystemExit(main())
