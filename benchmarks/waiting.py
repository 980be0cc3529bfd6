"""The time of a kernel of two threads while another program keeps one of its cores busy, by how its threads wait.

    python3 benchmarks/waiting.py
    python3 benchmarks/waiting.py --rounds 5 256x1024 2048x2048      # rows x columns of the sums
    python3 benchmarks/waiting.py --idle                             # without the other program

Sums of rows, a row at a time for each thread. Each measurement is a process of its own, since an OpenMP runtime reads
how its threads wait when it is loaded. They take turns: libgomp's own choice (a spin of 300,000 looks), no spin at all,
pegbox's choice with cores that the system chooses, pegbox's choice with a core for each thread, and the same kernel on
one thread. Prints the median time of each in microseconds, and how many times faster pegbox's choice is than libgomp's,
and than the system's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys

WAYS: dict[str, dict[str, str]] = {
    "libgomp's own": {"GOMP_SPINCOUNT": "300000", "OMP_PROC_BIND": "false"},
    "no spin": {"OMP_WAIT_POLICY": "passive"},
    "system's cores": {"OMP_PROC_BIND": "false"},
    "pegbox": {},
    "one thread": {},
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", default=["64x256", "1024x1024"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--idle", action="store_true", help="keep no core busy")
    parser.add_argument("--child", metavar="THREADS", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps([timed(shape, options.child) for shape in options.shapes]))
        return 0
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        parser.error("two cores are needed, one of them to be kept busy")
    other = None if options.idle else busy(cores[-1])
    try:
        found: dict[str, list[list[float]]] = {way: [] for way in WAYS}
        for _ in range(options.rounds):
            for way in WAYS:
                found[way].append(measured(way, cores[-2:], options.shapes))
    finally:
        if other is not None:
            other.kill()
            other.wait()
    show(options.shapes, found)
    return 0


def busy(core: int) -> subprocess.Popen[bytes]:
    """Another program, which computes for ever on that core."""
    code = f"import os\nos.sched_setaffinity(0, [{core}])\nwhile True: pass"
    return subprocess.Popen([sys.executable, "-c", code])


def measured(way: str, cores: list[int], shapes: list[str]) -> list[float]:
    """Microseconds of a call for each shape, in a process on these cores whose threads wait that way."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "OMP_PROC_BIND")
    }
    threads = "1" if way == "one thread" else "2"
    command = [sys.executable, __file__, "--child", threads, *shapes]
    run = subprocess.run(
        command,
        env={**environment, **WAYS[way]},
        stdout=subprocess.PIPE,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )
    times: list[float] = json.loads(run.stdout)
    return times


def timed(shape: str, threads: int) -> float:
    """Microseconds of a call, the median of ten timings of some milliseconds each."""
    import numpy as np

    import pegbox as pb
    from pegbox import te

    rows, columns = map(int, shape.split("x"))
    X = te.placeholder((rows, columns), name="X")
    k = te.reduce_axis((0, columns), name="k")
    Y = te.compute((rows,), lambda i: te.sum(X[i, k], axis=k), name="Y")
    s = te.create_schedule(Y.op)
    _, lanes = s[Y].split(k, factor=16)
    s[Y].vectorize(lanes)
    s[Y].parallel(Y.op.axis[0])
    kernel = pb.build(s, [X, Y], f"llvm -num-cores {threads}")
    x, y = np.random.default_rng(0).random((rows, columns), dtype="float32"), np.empty(rows, "float32")
    kernel(x, y)
    number = max(1, 5_000_000 // max(kernel.time_ns((x, y), 1), 1))
    return statistics.median(kernel.time_ns((x, y), number) / number / 1e3 for _ in range(10))


def show(shapes: list[str], found: dict[str, list[list[float]]]) -> None:
    print(f"{'us a call':<19}" + "".join(f"{shape:>14}" for shape in shapes))
    medians = {way: [statistics.median(column) for column in zip(*times, strict=True)] for way, times in found.items()}
    for way, times in medians.items():
        print(f"{way:<19}" + "".join(f"{time:>14.1f}" for time in times))
    for rival in ("libgomp's own", "system's cores"):
        ratios = [other / ours for other, ours in zip(medians[rival], medians["pegbox"], strict=True)]
        print(f"{'over ' + rival:<19}" + "".join(f"{ratio:>14.1f}" for ratio in ratios))


if __name__ == "__main__":
    sys.exit(main())
