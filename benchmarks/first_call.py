"""The time of an operator's first call in a second process, beyond those of `import numpy, pegbox` and of the product.

    python3 benchmarks/first_call.py                 # products of several shapes, 15 processes each
    python3 benchmarks/first_call.py --rounds 31 --shapes 64 512

A first process compiles what experience predicts and keeps it in a store of its own: a line for each shape has the
seconds of that whole process, and of its part after the imports of NumPy and pegbox. Each further process finds the
kernel there: it imports neither the template nor LLVM. The table has the medians of `pegbox.operator`, the first call
and the second, by the clock, and the processor time of the first two together, which other programs on the machine
disturb less. The first call computes a product, too, so the time of the second call is subtracted from that of both
steps; the ratio is the rest, "start", against a bar of 30 ms (above 1: within the bar). NumPy's first product in the
same process is printed beside it.
"""

from __future__ import annotations

import argparse
import ast
import os
import statistics
import subprocess
import sys
import tempfile
import time

BAR = 30.0
_CHILD = """
import sys, time
import numpy as np, pegbox as pb
size = int(sys.argv[1])
a = np.ones((size, size), "float32")
cpu, start = time.process_time(), time.perf_counter()
op = pb.operator("matmul", target="llvm -num-cores 1")
made = time.perf_counter()
c = op(a, a)
first, spent = time.perf_counter(), time.process_time() - cpu
op(a, a)
second = time.perf_counter()
a @ a
numpy = time.perf_counter()
assert (c == size).all()
seconds = [made - start, first - made, second - first, spent, numpy - second]
print([op.implementation(a, a).origin, "llvmlite" in sys.modules, [1e3 * each for each in seconds]])
"""


def call(size: int, store: str) -> tuple[str, bool, list[float]]:
    """Call a product in a new process; give the kernel's origin, whether LLVM was loaded, and milliseconds."""
    env = {**os.environ, "PEGBOX_STORE": store, "OPENBLAS_NUM_THREADS": "1"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(size)], env=env, capture_output=True, text=True, check=True
    )
    origin, llvm, milliseconds = ast.literal_eval(done.stdout)
    return origin, llvm, milliseconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", type=int, nargs="+", default=[64, 256, 1024], help="sizes of square products")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    worst = float("inf")
    with tempfile.TemporaryDirectory() as store:
        rounds: dict[int, list[list[float]]] = {size: [] for size in options.shapes}
        for size in rounds:
            begun = time.perf_counter()
            _, _, (made, first, _, spent, _) = call(size, store)
            whole = time.perf_counter() - begun
            after = f"{(made + first) / 1e3:.2f} s after the imports ({spent / 1e3:.2f} s of the processor)"
            print(f"nothing kept, {size}: the whole process {whole:.2f} s, {after}")
        print(" product  operator()  first call     CPU   second   NumPy   start  bar/start")
        for _ in range(options.rounds):  # interleaved, so that a slow minute meets all
            for size, found in rounds.items():
                origin, llvm, milliseconds = call(size, store)
                if origin != "kept" or llvm:
                    raise SystemExit(f"the product of {size} was {origin}, LLVM {'' if llvm else 'not '}loaded")
                found.append(milliseconds)
        for size, found in rounds.items():
            made, first, second, spent, numpy = map(statistics.median, zip(*found, strict=True))
            start = statistics.median(each[0] + each[1] - each[2] for each in found)
            worst = min(worst, BAR / start)
            print(
                f"{size:>8}{made:>12.1f}{first:>12.1f}{spent:>8.1f}{second:>9.3f}{numpy:>8.3f}{start:>8.1f}"
                f"{BAR / start:>11.2f}"
            )
    print(f"the worst ratio of the bar ({BAR:.0f} ms) to the time beyond the product's: {worst:.2f}")
    return 0 if worst >= 1.0 else 1


if __name__ == "__main__":
    sys.exit(main())
