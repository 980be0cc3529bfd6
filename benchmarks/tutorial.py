"""The kernels of docs/tutorial.md, step by step: GFLOP/s of each beside NumPy's product on one thread.

    python3 benchmarks/tutorial.py              # as on the page: 1024 x 1024 matrices
    python3 benchmarks/tutorial.py --size 512

The code is the page's own: its blocks are run from top to bottom. Then all kernels and NumPy are timed in turns, pinned
to one core, and the table shows medians. "ratio" is NumPy's time divided by the kernel's.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
import time
from pathlib import Path
from typing import Any

# The page tunes, which would keep its result in the user's store.
_SETTINGS = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PEGBOX_STORE": "off"}
# These settings slow OpenBLAS down.
_TRAPS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
PAGE = Path(__file__).resolve().parents[1] / "docs" / "tutorial.md"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1024, help="rows and columns of the matrices, a multiple of 64")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--core", type=int, default=min(os.sched_getaffinity(0)))
    options = parser.parse_args()
    settle_environment()
    kernels, arrays = kernels_of_the_page(options.size)
    os.sched_setaffinity(0, {options.core})
    seconds = timed(kernels, arrays, options.rounds)
    flop = 2 * options.size**3
    print(f"{'kernel':>14}  {'ms':>9}  {'GFLOP/s':>8}  {'ratio':>6}")
    for name, value in seconds.items():
        print(f"{name:>14}  {value * 1e3:9.3f}  {flop / value / 1e9:8.1f}  {seconds['NumPy'] / value:6.3f}")
    return 0


def settle_environment() -> None:
    """Restart this script with the variables that NumPy's library and pegbox read, unless they are set so."""
    wanted = {name: value for name, value in os.environ.items() if name not in _TRAPS} | _SETTINGS
    if wanted != dict(os.environ):
        os.execve(sys.executable, [sys.executable, *sys.argv], wanted)


def kernels_of_the_page(size: int) -> tuple[list[Any], tuple[Any, Any]]:
    """Return the kernels whose speed the page shows, with their operands."""
    first, *others = re.findall(r"^```python\n(.+?)^```$", PAGE.read_text(), flags=re.M | re.S)
    scope: dict[str, Any] = {"__name__": "tutorial"}
    exec(first.replace("N = 1024", f"N = {size}"), scope)
    check, kernels = scope["show_speed"], []
    scope["show_speed"] = kernels.append
    for block in others:
        exec(block, scope)
    for kernel in kernels:
        check(kernel)
    return kernels, (scope["a"], scope["b"])


def timed(kernels: list[Any], operands: tuple[Any, Any], rounds: int) -> dict[str, float]:
    """Seconds of a call, medians."""
    import numpy as np

    a, b = operands
    c = np.empty((len(a), b.shape[1]), a.dtype)
    samples: dict[str, list[float]] = {name: [] for name in (*(kernel.name for kernel in kernels), "NumPy")}
    for number in range(rounds):
        for kernel in kernels:
            if number >= 3 and samples[kernel.name][0] > 1:
                continue  # seconds are long enough to be steady
            samples[kernel.name].append(kernel.time_ns([a, b, c], 1) * 1e-9)
        began = time.perf_counter()
        np.matmul(a, b, out=c)
        samples["NumPy"].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in samples.items()}


if __name__ == "__main__":
    raise SystemExit(main())
