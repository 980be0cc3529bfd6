"""Measure how fast two cores read what one of them has just written itself, and what the other has.

    python3 benchmarks/cores.py
    taskset -c 0,1 python3 benchmarks/cores.py --kib 128

Two threads write an array, a half each. Then each thread copies its own half, or the other's, to an array that only it
writes. Where the second is much slower, the cores share no cache, as those of two chiplets, and models on both of them
are slower, too: a kernel's threads read some of what other threads have written. A virtual machine may get the one
kind of cores or the other, from one second to the next: compare times that were taken in turns.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

import pegbox as pb
from pegbox import te
from pegbox.codegen.runtime.kernel import Kernel

HALF = 256 << 10
"""The bytes of a half, which fits the cache of a core beside its copy."""

TARGET = "llvm -mcpu=native -num-cores 2"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kib", type=int, default=HALF >> 10, help="KiB of each half")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    for _ in range(options.rounds):
        own, other = speeds(options.kib << 10)
        print(f"its own {own:.1f} GB/s, the other's {other:.1f} GB/s: {own / other:.2f} times as fast", flush=True)
        time.sleep(0.5)
    return 0


def speeds(nbytes: int = HALF, calls: int = 31) -> tuple[float, float]:
    """Measure the GB/s at which two threads read their own half of an array, of `nbytes`, and the other's."""
    source, shared, own, other = (np.zeros((2, nbytes // 4), np.float32) for _ in range(4))
    write, read_own, read_other = (copy_kernel(nbytes // 4, swapped) for swapped in (False, False, True))
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(calls):
        for kernel, target, times in ((read_own, own, seconds[0]), (read_other, other, seconds[1])):
            write(source, shared)
            times.append(kernel.time_ns([shared, target], 1) * 1e-9)
    mine, others = (nbytes / statistics.median(times) / 1e9 for times in seconds)
    return mine, others


def copy_kernel(elements: int, swapped: bool) -> Kernel:
    """Build a kernel that copies two halves, each in a thread of its own; `swapped` exchanges them."""
    source = te.placeholder((2, elements), name="source")
    copied = te.compute(source.shape, lambda h, i: source(1 - h if swapped else h, i) * 2, name="copied")
    s = te.create_schedule(copied.op)
    half, i = s[copied].op.axis
    s[copied].parallel(half)
    s[copied].vectorize(s[copied].split(i, factor=16)[1])
    return pb.build(s, [source, copied], target=TARGET)


if __name__ == "__main__":
    raise SystemExit(main())
