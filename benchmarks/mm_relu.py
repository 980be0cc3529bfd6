"""mm_relu scheduled by hand with eight primitives of tir.Schedule, compared with the tuned matmul template.

    python3 benchmarks/mm_relu.py                 # 128 x 128 x 128
    python3 benchmarks/mm_relu.py 256 --trials 64

The plain program has two stages, Y = A @ B and C = max(Y, 0), written as a script. The schedule keeps a tile of Y in
registers and applies the relu there. Both kernels and NumPy (`maximum(A @ B, 0)`) run in turns, pinned to one core; the
output shows medians. The template computes no relu, so the comparison favours it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time

_TRAPS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
if any(name in os.environ for name in _TRAPS) or os.environ.get("OPENBLAS_NUM_THREADS") != "1":
    env = {k: v for k, v in os.environ.items() if k not in _TRAPS} | {"OPENBLAS_NUM_THREADS": "1"}
    os.execve(sys.executable, [sys.executable, *sys.argv], env)

import numpy as np  # noqa: E402

import pegbox as pb  # noqa: E402
from pegbox import tir  # noqa: E402
from pegbox.tir.script import ir as I  # noqa: E402
from pegbox.tir.script import tir as T  # noqa: E402


def plain(n: int) -> tir.IRModule:
    """The unscheduled program as a script."""

    @I.ir_module
    class Module:
        @T.prim_func
        def mm_relu(A: T.Buffer((n, n), "float32"), B: T.Buffer((n, n), "float32"), C: T.Buffer((n, n), "float32")):
            T.func_attr({"global_symbol": "mm_relu"})
            Y = T.alloc_buffer((n, n), "float32")
            for i, j, k in T.grid(n, n, n):
                with T.block("Y"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        Y[vi, vj] = T.float32(0)
                    Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
            for i, j in T.grid(n, n):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = T.max(Y[vi, vj], T.float32(0))

    return Module


def scheduled(module: tir.IRModule, rows: int = 8, columns: int = 32) -> tir.Schedule:
    """Apply eight primitives: a tile of `rows` x `columns` in registers, with the relu at its end."""
    sch = tir.Schedule(module)
    i, j, k = sch.get_loops("Y")
    i_0, i_1 = sch.split(i, factors=[None, rows])
    j_0, j_1 = sch.split(j, factors=[None, columns])
    sch.reorder(j_0, i_0, k, i_1, j_1)
    sch.reverse_compute_at("C", i_0)
    sch.vectorize(j_1)
    sch.unroll(i_1)
    c_i, c_j = sch.get_loops("C")[-2:]
    sch.vectorize(c_j)
    sch.unroll(c_i)
    return sch


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("n", type=int, nargs="?", default=128)
    parser.add_argument("--trials", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--core", type=int, default=min(os.sched_getaffinity(0)))
    options = parser.parse_args()
    n = options.n
    sch = scheduled(plain(n))
    task = pb.create_task("matmul", args=(n, n, n), target="llvm -num-cores 1")
    best = pb.tune(task, trials=options.trials, progress=False, store=None).best
    if best is None:
        raise SystemExit("no valid configuration of the template")
    by_hand, tuned = pb.build(sch), pb.build(task, config=best.config)
    untouched = pb.build(tir.Schedule(plain(n)))
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, (n, n)).astype("float32") for _ in range(2))
    c, d, e = (np.empty((n, n), "float32") for _ in range(3))
    by_hand(a, b, c)
    untouched(a, b, d)
    np.testing.assert_allclose(c, np.maximum(a @ b, 0), rtol=1e-4, atol=1e-4 * n**0.5)
    np.testing.assert_array_almost_equal(c, d, decimal=3)
    os.sched_setaffinity(0, {options.core})
    number = max(1, round(2e6 / max(tuned.time_ns([a, b, e], 3) / 3, 1)))
    times: dict[str, list[float]] = {"plain program": [], "eight primitives": [], "tuned template": [], "NumPy": []}
    for _ in range(options.rounds):
        times["eight primitives"].append(by_hand.time_ns([a, b, c], number) / number)
        times["tuned template"].append(tuned.time_ns([a, b, e], number) / number)
        times["NumPy"].append(_numpy_ns(a, b, d, number))
    times["plain program"].append(untouched.time_ns([a, b, c], 1))
    ns = {name: statistics.median(values) for name, values in times.items()}
    print(f"mm_relu {n} x {n} x {n}, float32, one core; {len(sch.trace)} primitives")
    for name, value in ns.items():
        print(f"{name:>18}  {value / 1e3:10.1f} µs  {2 * n**3 / value:7.1f} GFLOP/s")
    print(f"eight primitives / tuned template: {ns['tuned template'] / ns['eight primitives']:.2f} of its speed")
    print(f"eight primitives / NumPy:          {ns['NumPy'] / ns['eight primitives']:.2f} of its speed")
    return 0


def _numpy_ns(a: np.ndarray, b: np.ndarray, out: np.ndarray, number: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(number):
        np.matmul(a, b, out=out)
        np.maximum(out, 0, out=out)
    return (time.perf_counter_ns() - start) / number


if __name__ == "__main__":
    raise SystemExit(main())
