"""Matrix products: tune, then time our kernels against NumPy's OpenBLAS, side by side in one process.

    python3 benchmarks/matmul.py                          # the default shapes
    python3 benchmarks/matmul.py 512x512x512 77x300x1000  # M x K x N of your own
    python3 benchmarks/matmul.py --threads 2 1024x1024x1024

Each shape is tuned with both cores at the tuner's service; kernels are then timed pinned to one core, in rounds of
(ours, NumPy, multiply-add peak), and medians are quoted. Ours is timed inside machine code, as the tuner does, and
once more as a Python call; NumPy is `numpy.matmul(a, b, out=c)`, a Python call. With --threads N, our kernel for N
threads is compared with our kernel for one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time

# Settings that slow OpenBLAS down (or let it use more threads than ours) must be gone before NumPy is imported.
_TRAPS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
if any(name in os.environ for name in _TRAPS) or os.environ.get("OPENBLAS_NUM_THREADS") != "1":
    env = {k: v for k, v in os.environ.items() if k not in _TRAPS} | {"OPENBLAS_NUM_THREADS": "1"}
    os.execve(sys.executable, [sys.executable, *sys.argv], env)

import numpy as np  # noqa: E402
from peak import peak_kernel  # noqa: E402

import pegbox as pb  # noqa: E402
from pegbox.search.outcome import TuneResult  # noqa: E402

SHAPES = ("1024x1024x1024", "1000x999x1001", "128x128x128", "64x1024x1024", "1x4096x4096")


def main() -> int:
    options = parse()
    rows = []
    for text in options.shapes:
        m, k, n = (int(part) for part in text.split("x"))
        rows.append(one_shape(m, k, n, options))
        print_table(rows[-1:], header=len(rows) == 1)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", default=SHAPES, help="M x K x N, as 1024x1024x1024")
    parser.add_argument("--trials", type=int, default=128)
    parser.add_argument("--tuner", default="bayes")
    parser.add_argument("--dtype", default="float32", choices=("float32", "float64"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--threads", type=int, default=1, help="compare our kernel for that many threads with one")
    parser.add_argument("--core", type=int, default=min(os.sched_getaffinity(0)))
    return parser.parse_args()


def tuned(m: int, k: int, n: int, threads: int, options: argparse.Namespace) -> tuple[pb.Task, TuneResult]:
    task = pb.create_task(
        "matmul", args=(m, k, n), kwargs={"dtype": options.dtype}, target=f"llvm -num-cores {threads}"
    )
    result = pb.tune(task, tuner=options.tuner, trials=options.trials, seed=options.seed, progress=False)
    if result.best is None:
        raise SystemExit(f"no valid kernel for {m}x{k}x{n}: {result.failures}")
    return task, result


def one_shape(m: int, k: int, n: int, options: argparse.Namespace) -> dict[str, str]:
    task, result = tuned(m, k, n, 1, options)
    ours = pb.build(task, config=result.best.config)
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, shape).astype(options.dtype) for shape in ((m, k), (k, n)))
    c, d = np.empty((m, n), options.dtype), np.empty((m, n), options.dtype)
    row = {"shape": f"{m}x{k}x{n}"}
    if options.threads > 1:
        return row | compare_threads(ours, (a, b, c), options, (m, k, n))
    peak, peak_flop = peak_kernel(options.dtype)
    x = np.zeros(peak.args[0].shape, options.dtype)
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {options.core})
    flop = 2.0 * m * k * n
    number = max(1, round(2e6 / max(ours.time_ns([a, b, c], 2) / 2, 1)))  # about 2 ms a sample
    samples: dict[str, list[float]] = {"ours": [], "call": [], "numpy": [], "peak": []}
    np.matmul(a, b, out=d)
    for _ in range(options.rounds):
        samples["ours"].append(ours.time_ns([a, b, c], number) / number)
        samples["numpy"].append(_python_ns(lambda: np.matmul(a, b, out=d), number))
        samples["call"].append(_python_ns(lambda: ours(a, b, c), number))
        samples["peak"].append(peak.time_ns([x], 1) / peak_flop)
    os.sched_setaffinity(0, affinity)
    np.testing.assert_allclose(c, d, rtol=1e-4, atol=1e-4 * np.sqrt(k))
    ns = {name: statistics.median(values) for name, values in samples.items()}
    return row | {
        "ours µs": f"{ns['ours'] / 1e3:.1f}",
        "GFLOP/s": f"{flop / ns['ours']:.1f}",
        "as a call µs": f"{ns['call'] / 1e3:.1f}",
        "NumPy µs": f"{ns['numpy'] / 1e3:.1f}",
        "GFLOP/s ": f"{flop / ns['numpy']:.1f}",
        "ratio": f"{ns['numpy'] / ns['ours']:.2f}",
        "of peak": f"{flop / ns['ours'] * ns['peak']:.0%}",
        "trials": str(len(result.trials)),
        "trials/s": f"{len(result.trials) / result.elapsed:.1f}",
        "where the tuning time went": ", ".join(f"{k} {v:.1f} s" for k, v in result.phases.items()),
    }


def _python_ns(call: object, number: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(number):
        call()  # type: ignore[operator]
    return (time.perf_counter_ns() - start) / number


def compare_threads(
    one: object, arrays: tuple[np.ndarray, ...], options: argparse.Namespace, shape: tuple[int, int, int]
) -> dict[str, str]:
    task, result = tuned(*shape, options.threads, options)
    many = pb.build(task, config=result.best.config)
    times: dict[str, list[float]] = {"one": [], "many": []}
    number = max(1, round(2e6 / max(many.time_ns(list(arrays), 2) / 2, 1)))
    for _ in range(options.rounds):
        times["one"].append(one.time_ns(list(arrays), number) / number)  # type: ignore[attr-defined]
        times["many"].append(many.time_ns(list(arrays), number) / number)
    ns = {name: statistics.median(values) for name, values in times.items()}
    flop = 2.0 * np.prod(shape)
    return {
        "1 thread µs": f"{ns['one'] / 1e3:.1f}",
        "GFLOP/s": f"{flop / ns['one']:.1f}",
        f"{options.threads} threads µs": f"{ns['many'] / 1e3:.1f}",
        "GFLOP/s ": f"{flop / ns['many']:.1f}",
        "speed-up": f"{ns['one'] / ns['many']:.2f}",
        "trials/s": f"{len(result.trials) / result.elapsed:.1f}",
    }


def print_table(rows: list[dict[str, str]], *, header: bool) -> None:
    if header:
        print("  ".join(f"{name:>{_width(name)}}" for name in rows[0]), flush=True)
    for row in rows:
        print("  ".join(f"{value:>{_width(name)}}" for name, value in row.items()), flush=True)


def _width(name: str) -> int:
    return max(len(name), 15 if name == "shape" else 9)


if __name__ == "__main__":
    raise SystemExit(main())
