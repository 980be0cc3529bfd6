"""Measure the multiply-add peak of one core, the upper limit for the speed of kernels.

    taskset -c 0 python3 benchmarks/peak.py
    taskset -c 0 python3 benchmarks/peak.py --target "llvm -mcpu=x86-64-v3"

The kernel updates independent accumulators, as wide as the target's vectors, by fused multiply-adds, without loads and
stores. There are enough accumulators to hide the latency, and few enough to stay in registers with their operand.
"""

from __future__ import annotations

import argparse
import statistics

import numpy as np

from pegbox.codegen import ArgSpec, Program, Target, compile_program, load
from pegbox.codegen.runtime.kernel import Kernel
from pegbox.templates.register_tile import LATENCY, lanes_of

_ROUNDS = 20_000
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
    target = target or Target.host(num_cores=1)
    lanes = lanes_of(target, dtype)
    count = min(2 * LATENCY, target.vector_registers - 2)
    program = Program("fma_peak", (ArgSpec("x", (lanes,), dtype, True),), _assembly(dtype, lanes, count), 0, 1, target)
    return load(compile_program(program)), 2.0 * lanes * count * _ROUNDS


def _assembly(dtype: str, lanes: int, count: int) -> str:
    vector = f"<{lanes} x {'float' if dtype == 'float32' else 'double'}>"
    suffix = f"v{lanes}f{32 if dtype == 'float32' else 64}"
    phis = "\n".join(f"  %a{i} = phi {vector} [ %x, %entry ], [ %b{i}, %loop ]" for i in range(count))
    fmas = "\n".join(
        f"  %b{i} = call {vector} @llvm.fma.{suffix}({vector} %a{i}, {vector} %x, {vector} %x)" for i in range(count)
    )
    total = "  %s0 = fadd VEC %b0, zeroinitializer\n" + "\n".join(
        f"  %s{i} = fadd VEC %s{i - 1}, %b{i}" for i in range(1, count)
    )
    return f"""
declare {vector} @llvm.fma.{suffix}({vector}, {vector}, {vector})
declare i32 @clock_gettime(i32, ptr)

define void @fma_peak(ptr noalias %p, ptr %workspace) noinline {{
entry:
  %x = load {vector}, ptr %p, align 4
  br label %loop
loop:
  %n = phi i64 [ 0, %entry ], [ %next, %loop ]
{phis}
{fmas}
  %next = add i64 %n, 1
  %done = icmp eq i64 %next, {_ROUNDS}
  br i1 %done, label %exit, label %loop
exit:
{total.replace("VEC", vector)}
  store {vector} %s{count - 1}, ptr %p, align 4
  ret void
}}

define i64 @fma_peak__timed(ptr %p, ptr %workspace, i64 %count) {{
entry:
  %t = alloca [2 x i64], align 16
  %r0 = call i32 @clock_gettime(i32 1, ptr %t)
  %s0 = load i64, ptr %t
  %f0 = getelementptr i64, ptr %t, i64 1
  %n0 = load i64, ptr %f0
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  call void @fma_peak(ptr %p, ptr %workspace)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %exit
exit:
  %r1 = call i32 @clock_gettime(i32 1, ptr %t)
  %s1 = load i64, ptr %t
  %n1 = load i64, ptr %f0
  %ds = sub i64 %s1, %s0
  %dn = sub i64 %n1, %n0
  %sn = mul i64 %ds, 1000000000
  %ns = add i64 %sn, %dn
  ret i64 %ns
}}
"""


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
