"""The multiply-add peak of one core, measured: the ceiling that kernels are compared with.

    taskset -c 0 python3 benchmarks/peak.py

Sixteen independent accumulators of the target's widest vectors, each fed by fused multiply-adds only: no loads, no
stores, enough of them to hide the latency.
"""

from __future__ import annotations

import statistics

import numpy as np

from pegbox.codegen import ArgSpec, Program, Target, compile_program, load
from pegbox.codegen.kernel import Kernel

_ACCUMULATORS = 16
_ROUNDS = 20_000


def peak_kernel(dtype: str = "float32") -> tuple[Kernel, float]:
    """A kernel of multiply-adds on one array of one vector, and its floating-point operations per call."""
    target = Target.host(num_cores=1)
    lanes = target.vector_bits // (8 * np.dtype(dtype).itemsize)
    program = Program("fma_peak", (ArgSpec("x", (lanes,), dtype, True),), _assembly(dtype, lanes), 0, 1, target)
    return load(compile_program(program)), 2.0 * lanes * _ACCUMULATORS * _ROUNDS


def _assembly(dtype: str, lanes: int) -> str:
    vector = f"<{lanes} x {'float' if dtype == 'float32' else 'double'}>"
    suffix = f"v{lanes}f{32 if dtype == 'float32' else 64}"
    phis = "\n".join(f"  %a{i} = phi {vector} [ %x, %entry ], [ %b{i}, %loop ]" for i in range(_ACCUMULATORS))
    fmas = "\n".join(
        f"  %b{i} = call {vector} @llvm.fma.{suffix}({vector} %a{i}, {vector} %x, {vector} %x)"
        for i in range(_ACCUMULATORS)
    )
    total = "  %s0 = fadd VEC %b0, zeroinitializer\n" + "\n".join(
        f"  %s{i} = fadd VEC %s{i - 1}, %b{i}" for i in range(1, _ACCUMULATORS)
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
  store {vector} %s{_ACCUMULATORS - 1}, ptr %p, align 4
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


def measure_peak(rounds: int = 21, dtype: str = "float32") -> float:
    """GFLOP/s, median of `rounds`."""
    kernel, flop = peak_kernel(dtype)
    x = np.zeros(kernel.args[0].shape, dtype)
    kernel.time_ns([x], 1)
    return flop / statistics.median(kernel.time_ns([x], 1) for _ in range(rounds))


if __name__ == "__main__":
    for element in ("float32", "float64"):
        print(f"{element}: {measure_peak(dtype=element):.1f} GFLOP/s on one core")
