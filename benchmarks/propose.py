"""The share of a search of sketches that `bayes` takes to propose, with and without a bound on new classes of programs.

    python3 benchmarks/propose.py                     # attention, softmax, a convolution with bias and ReLU
    python3 benchmarks/propose.py softmax --trials 128 --seeds 3

The two take turns with the same seeds on the same machine. `propose` is the time that the search waited for the tuner,
`share` its part of the search, `best` the cost of the winner; the ratios are those without the bound by those with it,
so above 1 the bound is better.
"""

from __future__ import annotations

import argparse
import statistics
import sys

import pegbox as pb

CASES: dict[str, tuple[int, ...]] = {
    "attention": (1, 256, 64), "softmax": (256, 512), "conv2d_bn_relu": (1, 64, 28, 28, 64, 3, 1, 1),
}  # fmt: skip
TUNERS = {"bound": "bayes", "free": "bayes:classes=1000000"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(CASES), help="workloads of those above")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--target", default="llvm -num-cores 1")
    options = parser.parse_args()
    for name in options.names:
        found: dict[str, list[tuple[float, float, float]]] = {label: [] for label in TUNERS}
        for seed in range(options.seeds):
            for label, tuner in TUNERS.items():
                task = pb.create_task(name, CASES[name], space="sketch", target=options.target)
                result = pb.tune(task, tuner=tuner, trials=options.trials, seed=seed, progress=False, store=None)
                propose = result.phases.get("propose", 0.0)
                best = result.best.cost if result.best else float("inf")
                found[label].append((propose, propose / result.elapsed, best))
                print(f"{name} seed {seed} {label}: propose {propose:.1f} s, {propose / result.elapsed:.0%} of "
                      f"{result.elapsed:.1f} s, best {best * 1e6:.1f} us", flush=True)  # fmt: skip
        (propose, share, best), (free, free_share, worst) = (
            [statistics.median(column) for column in zip(*found[label], strict=True)] for label in TUNERS
        )
        print(f"{name}: propose {free / propose:.2f} times as long without the bound, share {share:.0%} instead of "
              f"{free_share:.0%}, cost of the best {worst / best:.2f} times")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
