"""The time that a simulated comparison saves with several runs at a time: `pegbox.compare(jobs=N)`.

python3 benchmarks/jobs.py                       # 6 tuners x 4 seeds, jobs 1 and 2 in turns
python3 benchmarks/jobs.py --once 2 --seeds 60   # one comparison with two processes, and its time

Each comparison runs in an interpreter of its own. `wall` is the time of `compare` itself, start of the processes
included; `processor` that of all processes, imports included: it shows what the processes cost where other programs
take the cores. The runs must be equal, whatever `jobs` is.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, replace

TUNERS = ("bayes", "xgb", "evolution", "ga", "droplet", "random")


@dataclass(frozen=True)
class Took:
    """Seconds of a comparison, and a digest of its runs."""

    wall: float
    processor: float
    runs: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--space", default="matmul-512x512x512")
    parser.add_argument("--tuners", default=",".join(TUNERS))
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--once", type=int, metavar="JOBS", help="one comparison, without a rival")
    options = parser.parse_args()
    if options.once:
        print(compared(options, options.once))
        return 0
    took: dict[int, list[Took]] = {1: [], options.jobs: []}
    for _ in range(options.rounds):
        for jobs, some in took.items():
            some.append(apart(jobs))
    one, several = (medians(some) for some in took.values())
    count = f"{len(options.tuners.split(','))} tuners x {options.seeds} seeds x {options.trials} trials"
    print(f"{count} on {options.space}; medians of {options.rounds}, {os.cpu_count()} cores")
    for jobs, (wall, processor) in ((1, one), (options.jobs, several)):
        print(f"jobs={jobs}: wall {wall:6.2f} s, processor {processor:6.2f} s")
    print(f"jobs={options.jobs} to jobs=1: wall {several[0] / one[0]:.2f}, processor {several[1] / one[1]:.2f}")
    equal = len({each.runs for some in took.values() for each in some}) == 1
    print(f"equal runs: {'yes' if equal else 'NO'}")
    return 0 if equal else 1


def apart(jobs: int) -> Took:
    """A comparison in an interpreter of its own."""
    process = subprocess.Popen([sys.executable, *sys.argv, "--once", str(jobs)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as out:
        words = out.read().split()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"the comparison with jobs={jobs} ended with status {process.returncode}")
    return Took(float(words[0]), usage.ru_utime + usage.ru_stime, words[-1])


def compared(options: argparse.Namespace, jobs: int) -> str:
    """Its seconds, and a digest of its runs without what the clock says."""
    import pegbox as pb

    space = pb.recorded_space(options.space)
    tuners = options.tuners.split(",")
    began = time.perf_counter()
    report = pb.compare(space, tuners, trials=options.trials, seeds=options.seeds, jobs=jobs, progress=False)
    wall = time.perf_counter() - began
    runs = [replace(run, seconds=0.0, tuner_seconds=0.0, run_queue_wait=0.0) for run in report.runs]
    run_queue_wait = statistics.median(run.run_queue_wait for run in report.runs)
    digest = hashlib.sha256(repr(runs).encode()).hexdigest()[:12]
    return f"{wall:.2f} s for {len(runs)} runs, which waited {run_queue_wait:.0%} of their time; {digest}"


def medians(some: list[Took]) -> tuple[float, float]:
    return statistics.median(each.wall for each in some), statistics.median(each.processor for each in some)


if __name__ == "__main__":
    raise SystemExit(main())
