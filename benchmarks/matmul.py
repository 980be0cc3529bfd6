"""Matrix products: tune, then time our kernels and those of other libraries side by side in one process.

    python3 benchmarks/matmul.py                          # the default shapes
    python3 benchmarks/matmul.py 512x512x512 77x300x1000  # M x K x N of your own
    python3 benchmarks/matmul.py --target "llvm -mcpu=x86-64-v3"   # as on a machine without AVX-512
    python3 benchmarks/matmul.py --threads 2 1024x1024x1024
    python3 benchmarks/matmul.py --random 32 --seed 5 --trials 0 --weights plain    # random shapes, untuned
    python3 benchmarks/matmul.py --templates matmul matmul_strassen 512x512x512    # also by Strassen's algorithm

Each shape is tuned twice; with --trials 0, its predicted configuration is timed. "plain": B is as it is, also for the
rivals. "packed": weights="packed", and the rivals have packed B before they are called. The rivals are NumPy, and, if
installed, ONNX Runtime (`pip install onnxruntime onnx`) and torch, through which oneDNN is called. Our kernel, every
rival and the multiply-add peak are timed in turns, pinned to one core, and the output shows medians. "ratio" is the
best rival's time divided by ours. Our kernel is timed inside machine code, as in a search, and once more as a Python
call ("as a call"), as the rivals are. With --threads N, our kernel for N threads is compared with our kernel for one.

GFLOP/s count the operations of the direct sum, so Strassen's algorithm may have more than 100% of the peak. The error
is the largest difference from sums in float64, relative to the largest output.

If the vectors of --target are narrower than the machine's, environment variables limit NumPy's OpenBLAS and oneDNN to
those vectors. ONNX Runtime cannot be limited and is left out.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
from matmul_rivals import limits, rivals
from peak import peak_kernel, share_of_peak
from random_shapes import in_turns, matmul, some_rows

import pegbox as pb
from pegbox.codegen import Target
from pegbox.search.loop.outcome import TuneResult
from pegbox.search.models.prediction import predicted_configs
from pegbox.templates import pack_weights

EQUAL = 0.97
"""The ratio below which our kernel is slower by more than the noise."""

SHAPES = ("1024x1024x1024", "1000x999x1001", "128x128x128", "64x1024x1024", "96x2048x512", "1x4096x4096")
# These settings slow OpenBLAS down. They count only where a run limits it on purpose.
_TRAPS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "ONEDNN_MAX_CPU_ISA")
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
_RIVALS = ("NumPy", "ORT", "oneDNN")


def main() -> int:
    options = parse()
    settle_environment(options)
    shapes = [tuple(int(part) for part in text.split("x")) for text in options.shapes]
    if options.random:
        kinds = in_turns(some_rows, matmul)
        shapes = [sizes for _, sizes, _ in islice(kinds(options.seed), options.random)]
    ratios: list[float] = []
    for shape in shapes:
        for row in compare_threads(shape, options) if options.threads > 1 else compare_rivals(shape, options):
            print_row({"shape": "x".join(map(str, shape)), **row}, header=not ratios)
            ratios.append(float(row["speed-up" if options.threads > 1 else "ratio"]))
    below = sum(ratio < EQUAL for ratio in ratios)
    print(f"geometric mean {statistics.geometric_mean(ratios):.3f}; {below} of {len(ratios)} below {EQUAL}")
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", default=SHAPES, help="M x K x N, as 1024x1024x1024")
    parser.add_argument("--random", type=int, metavar="COUNT", help="time COUNT random shapes; --seed chooses them")
    parser.add_argument("--target", default="llvm", help='"llvm -mcpu=x86-64-v3"; --threads sets the number of cores')
    parser.add_argument("--weights", nargs="+", default=("plain", "packed"), choices=("plain", "packed"))
    parser.add_argument("--templates", nargs="+", default=("matmul",), choices=("matmul", "matmul_strassen"))
    parser.add_argument("--trials", type=int, default=128, help="0: time the predicted configuration")
    parser.add_argument("--tuner", default="bayes")
    parser.add_argument("--dtype", default="float32", choices=("float32", "float64"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--threads", type=int, default=1, help="compare our kernel for that many threads with one")
    parser.add_argument("--core", type=int, default=min(os.sched_getaffinity(0)))
    return parser.parse_args()


def is_limited(options: argparse.Namespace) -> bool:
    """Tell whether the machine has wider vectors than the target."""
    return Target(options.target).vector_bits < Target.host().vector_bits


def settle_environment(options: argparse.Namespace) -> None:
    """Restart this script with the variables that other libraries read when they are loaded, unless they are set so."""
    settings = _ONE_THREAD | (limits(Target(options.target).vector_bits) if is_limited(options) else {})
    wanted = {name: value for name, value in os.environ.items() if name not in _TRAPS} | settings
    if wanted != dict(os.environ):
        os.execve(sys.executable, [sys.executable, *sys.argv], wanted)


def tuned(
    shape: tuple[int, ...], template: str, weights: str, threads: int, options: argparse.Namespace
) -> tuple[pb.Task, TuneResult | None, Any]:
    """Search a task, if there are trials; return it, the result, and the best kernel or the predicted one."""
    target = f"{options.target} -num-cores {threads}"
    task = pb.create_task(template, args=shape, kwargs={"dtype": options.dtype, "weights": weights}, target=target)
    if not options.trials:
        return task, None, pb.build(task, config=next(predicted_configs(task)))
    result = pb.tune(task, tuner=options.tuner, trials=options.trials, seed=options.seed, progress=False, store=None)
    if result.best is None:
        raise SystemExit(f"no valid kernel for {shape}: {result.failures}")
    return task, result, pb.build(task, config=result.best.config)


def compare_rivals(shape: tuple[int, ...], options: argparse.Namespace) -> list[dict[str, str]]:
    """Make a row for B as it is, and one for packed B, of each template."""
    return [one_group(shape, each, group, options) for group in options.weights for each in options.templates]


def one_group(shape: tuple[int, ...], template: str, group: str, options: argparse.Namespace) -> dict[str, str]:
    task, result, ours = tuned(shape, template, group, 1, options)
    a, b, c = operands(shape, options.dtype)
    given = pack_weights(task, b) if group == "packed" else b
    calls: dict[str, Callable[[], Any]] = dict(rivals(group, a, b, limited=is_limited(options)))
    for name, call in calls.items():
        ours(a, given, c)
        np.testing.assert_allclose(c, call(), rtol=1e-4, atol=1e-4 * np.sqrt(shape[1]), err_msg=name)
    ours(a, given, c)
    exact = a.astype(np.float64) @ b
    ns = timed(ours, [a, given, c], calls, options)
    flop = 2.0 * np.prod(shape)
    best = min((ns[name] for name in calls), default=float("nan"))
    return {
        "template": template,
        "B": group,
        "ours µs": f"{ns['ours'] / 1e3:.1f}",
        "as a call": f"{ns['call'] / 1e3:.1f}",
        **{f"{name} µs": f"{ns[name] / 1e3:.1f}" if name in ns else "-" for name in _RIVALS},
        "GFLOP/s": f"{flop / ns['ours']:.1f}",
        "best rival": f"{flop / best:.1f}",
        "ratio": f"{best / ns['ours']:.2f}",
        "of peak": share(template, flop / ns["ours"], ns["peak"]),
        "error": f"{np.abs(c - exact).max() / np.abs(exact).max():.1e}",
        **searched(result),
    }


def searched(result: TuneResult | None) -> dict[str, str]:
    """Describe the search, if there was one."""
    if result is None:
        return {}
    return {"trials": str(len(result.trials)), "trials/s": f"{len(result.trials) / result.elapsed:.1f}"}


def share(template: str, speed: float, peak: float) -> str:
    """Write the share of the peak, which may be above 1 with Strassen's algorithm: it multiplies less."""
    return share_of_peak(speed, peak) if template == "matmul" else f"{speed / peak:.0%}"


def operands(shape: tuple[int, ...], dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    m, k, n = shape
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, size).astype(dtype) for size in ((m, k), (k, n)))
    return a, b, np.empty((m, n), dtype)


def timed(
    ours: Any, arrays: list[np.ndarray], calls: dict[str, Callable[[], Any]], options: argparse.Namespace
) -> dict[str, float]:
    """Nanoseconds per call, medians of rounds of about 2 ms; "peak" is in operations per nanosecond."""
    peak, peak_flop = peak_kernel(options.dtype, Target(f"{options.target} -num-cores 1"))
    x = np.zeros(peak.args[0].shape, options.dtype)
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {options.core})
    number = max(1, round(2e6 / max(ours.time_ns(arrays, 2) / 2, 1)))
    samples: dict[str, list[float]] = {name: [] for name in ("ours", "call", "peak", *calls)}
    for _ in range(options.rounds):
        samples["ours"].append(ours.time_ns(arrays, number) / number)
        samples["call"].append(_python_ns(lambda: ours(*arrays), number))
        for name, call in calls.items():
            samples[name].append(_python_ns(call, number))
        samples["peak"].append(peak_flop / peak.time_ns([x], 1))
    os.sched_setaffinity(0, affinity)
    return {name: statistics.median(values) for name, values in samples.items()}


def _python_ns(call: Callable[[], Any], number: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(number):
        call()
    return (time.perf_counter_ns() - start) / number


def compare_threads(shape: tuple[int, ...], options: argparse.Namespace) -> list[dict[str, str]]:
    """One row, which compares several threads with one."""
    _, _, one = tuned(shape, options.templates[0], "plain", 1, options)
    _, result, many = tuned(shape, options.templates[0], "plain", options.threads, options)
    arrays = list(operands(shape, options.dtype))
    times: dict[str, list[float]] = {"one": [], "many": []}
    number = max(1, round(2e6 / max(many.time_ns(arrays, 2) / 2, 1)))
    for _ in range(options.rounds):
        times["one"].append(one.time_ns(arrays, number) / number)
        times["many"].append(many.time_ns(arrays, number) / number)
    ns = {name: statistics.median(values) for name, values in times.items()}
    flop = 2.0 * np.prod(shape)
    row = {
        "1 thread µs": f"{ns['one'] / 1e3:.1f}",
        "GFLOP/s": f"{flop / ns['one']:.1f}",
        f"{options.threads} threads µs": f"{ns['many'] / 1e3:.1f}",
        "GFLOP/s ": f"{flop / ns['many']:.1f}",
        "speed-up": f"{ns['one'] / ns['many']:.2f}",
        **searched(result),
    }
    return [row]


def print_row(row: dict[str, str], *, header: bool) -> None:
    if header:
        print("  ".join(f"{name:>{_width(name)}}" for name in row), flush=True)
    print("  ".join(f"{value:>{_width(name)}}" for name, value in row.items()), flush=True)


def _width(name: str) -> int:
    return max(len(name), 15 if name in ("shape", "template") else 6)


if __name__ == "__main__":
    raise SystemExit(main())
