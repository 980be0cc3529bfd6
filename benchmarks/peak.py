"""Measure the multiply-add peak of one core, the upper limit for the speed of kernels.

    taskset -c 0 python3 benchmarks/peak.py
    taskset -c 0 python3 benchmarks/peak.py --target "llvm -mcpu=x86-64-v3"

The kernel is that of `pegbox.codegen.runtime.roof_kernels`, by which results of searches are rated, too.
"""

from __future__ import annotations

import argparse
import statistics

import numpy as np

from pegbox.codegen import Target
from pegbox.codegen.runtime.kernel import Kernel
from pegbox.codegen.runtime.roof_kernels import multiply_add_kernel

_MOST = 1.05  # of the peak, which like the rest is measured: a share beyond is a mistake of the benchmark


def share_of_peak(speed: float, peak: float) -> str:
    """A speed as a share of the peak (both in the same unit), for a table.

    Raises:
        SystemExit: more than 105%; what was measured cannot be right.
    """
    share = speed / peak
    if share > _MOST:
        raise SystemExit(
            f"{share:.0%} of the multiply-add peak ({speed:.4g} of {peak:.4g}): one of the two is measured wrong. "
            "Is the peak that of the kernel's target (--target), and did both run alone, pinned to the same core?"
        )
    return f"{share:.0%}"


def peak_kernel(dtype: str = "float32", target: Target | None = None) -> tuple[Kernel, float]:
    """A kernel of multiply-adds on one array of one vector, and its floating-point operations per call."""
    return multiply_add_kernel(dtype, target or Target.host(num_cores=1))


def measure_peak(rounds: int = 21, dtype: str = "float32", target: Target | None = None) -> float:
    """GFLOP/s, median of `rounds`."""
    kernel, flop = peak_kernel(dtype, target)
    x = np.zeros(kernel.args[0].shape, dtype)
    kernel.time_ns([x], 1)
    return flop / statistics.median(kernel.time_ns([x], 1) for _ in range(rounds))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="llvm -num-cores 1")
    chosen = Target(parser.parse_args().target)
    for element in ("float32", "float64"):
        speed = measure_peak(dtype=element, target=chosen)
        print(f"{element}: {speed:.1f} GFLOP/s on one core, vectors of {chosen.vector_bits} bits")
