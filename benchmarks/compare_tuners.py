"""The built-in tuners on matrix products, compared honestly: equal trials, several seeds, interleaved, remeasured.

python3 benchmarks/compare_tuners.py                           # about five minutes
python3 benchmarks/compare_tuners.py --trials 128 --seeds 5 512x512x512
"""

from __future__ import annotations

import argparse

import pegbox as pb


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", default=["512x512x512", "1000x999x1001"], help="M x K x N")
    parser.add_argument("--tuners", nargs="+", default=["random", "ga", "xgb", "xgb:loss_type=reg"])
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    tasks = [
        pb.create_task("matmul", args=tuple(map(int, shape.split("x"))), target="llvm -num-cores 1")
        for shape in options.shapes
    ]
    print(pb.compare(tasks, options.tuners, trials=options.trials, seeds=options.seeds))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
