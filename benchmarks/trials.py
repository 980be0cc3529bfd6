"""The number of trials per second of a search, and the time before the first one.

    python3 benchmarks/trials.py                                 # the convolution and two matmuls below
    python3 benchmarks/trials.py conv2d --target "llvm -mcpu=x86-64-v3 -num-cores 1"
    python3 benchmarks/trials.py matmul-512 sketch-512 conv2d-56 sketch-conv2d-56    # templates and sketches
    python3 benchmarks/trials.py --python ../before/.venv/bin/python --rounds 3

Each search runs in a process of its own, with the default tuner, 64 trials and a new seed each round. With `--python`
the pegbox of another interpreter (of an older checkout) takes turns with this one, and the ratio of the medians is
printed: above 1 this one is faster. CPU is the processor time of the tuning process, its builders and runners together:
on a machine with other work it is more reliable than the clock.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

WORKLOADS: dict[str, tuple[str, list[int], dict[str, Any]]] = {
    "conv2d": ("conv2d", [1, 96, 30, 30, 160, 3, 3], {"padding": 1, "layout": "NCHW"}),
    "matmul-512": ("matmul", [512, 512, 512], {}),
    "matmul-1024": ("matmul", [1024, 1024, 1024], {}),
    "conv2d-56": ("conv2d", [1, 64, 56, 56, 128, 3, 3], {"padding": 1, "layout": "NCHW"}),
    "sketch-512": ("matmul", [512, 512, 512], {}),
    "sketch-conv2d-56": ("conv2d", [1, 64, 56, 56, 128, 3, 1, 1], {}),
    "sketch-softmax": ("softmax", [1024, 1024], {}),
}
SEARCHED_BY_DEFAULT = ("conv2d", "matmul-512", "matmul-1024")
COLUMNS = {
    "rate": ("trials a second", 1.0),
    "first": ("s to the first", -1.0),
    "llvm": ("LLVM ms each", -1.0),
    "cpu": ("CPU s", -1.0),
}
"""The title of each figure, and whether more or less is better."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", default=SEARCHED_BY_DEFAULT, help=f"some of {', '.join(WORKLOADS)}")
    parser.add_argument("--target", default="llvm -num-cores 1")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", help="interpreter of another pegbox to compare with")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(search(options.workloads[0], options.target, options.trials, options.seed)))
        return 0
    pythons = {"this": sys.executable} | ({"other": options.python} if options.python else {})
    for workload in options.workloads:
        found: dict[str, list[dict[str, float]]] = {name: [] for name in pythons}
        for seed in range(options.rounds):
            for name, python in pythons.items():
                found[name].append(searched(python, workload, options, seed))
        show(workload, found)
    return 0


def search(workload: str, target: str, trials: int, seed: int) -> dict[str, float]:
    """Run one search in this process."""
    import pegbox as pb

    template, args, kwargs = WORKLOADS[workload]
    space = {"space": "sketch"} if workload.startswith("sketch-") else {}
    task = pb.create_task(template, args=args, kwargs=kwargs, target=target, **space)
    times: list[float] = []
    builds: list[float] = []

    def heard(trial: Any) -> None:
        times.append(time.perf_counter())
        builds.extend(seconds for phase, seconds in trial.result.phases.items() if phase == "build")

    began = time.perf_counter()
    result = pb.tune(task, trials=trials, seed=seed, progress=False, store=None, callbacks=[heard])
    seconds = time.perf_counter() - began
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "rate": len(result.trials) / seconds,
        "first": times[0] - began,
        "llvm": statistics.median(builds) * 1e3,
        "cpu": sum(usage.ru_utime + usage.ru_stime for usage in used),
        "best": result.best.gflops if result.best else 0.0,
    }


def searched(python: str, workload: str, options: argparse.Namespace, seed: int) -> dict[str, float]:
    command = [python, __file__, workload, "--child", "--target", options.target]
    command += ["--trials", str(options.trials), "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def show(workload: str, found: dict[str, list[dict[str, float]]]) -> None:
    middle = {
        name: {key: statistics.median(run[key] for run in runs) for key in runs[0]} for name, runs in found.items()
    }
    for name, figures in middle.items():
        parts = [f"{title} {figures[key]:7.2f}" for key, (title, _) in COLUMNS.items()]
        print(f"{workload:>16} {name:>6}: {'   '.join(parts)}   best GFLOP/s {figures['best']:7.1f}", flush=True)
    if len(middle) == 2:
        ratios = [
            f"{title} {(middle['this'][key] / middle['other'][key]) ** power:7.2f}"
            for key, (title, power) in COLUMNS.items()
        ]
        print(f"{workload:>16}  ratio: {'   '.join(ratios)}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
