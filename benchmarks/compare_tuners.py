"""Compare the built-in tuners on matrix products, measured on this machine; docs/compare.md explains the report.

python3 benchmarks/compare_tuners.py                           # about ten minutes
python3 benchmarks/compare_tuners.py --trials 128 --seeds 8 512x512x512 --html report.html
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pegbox as pb
from pegbox.plugins.cli.compare import split_tuners


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", default=["512x512x512", "1000x999x1001"], help="M x K x N")
    parser.add_argument("--tuners", action="append", help="as for 'pegbox compare' (default: bayes,xgb,ga,random)")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--html", type=Path, help="write the report with its curves as a page")
    options = parser.parse_args()
    tasks = [
        pb.create_task("matmul", args=tuple(map(int, shape.split("x"))), target="llvm -num-cores 1")
        for shape in options.shapes
    ]
    tuners = split_tuners(options.tuners or ["bayes,xgb,ga,random"])
    report = pb.compare(tasks, tuners, trials=options.trials, seeds=options.seeds)
    print(report)
    if options.html:
        report.to_html(options.html)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
