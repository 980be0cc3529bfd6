"""The loop that times a kernel, as LLVM text."""

from __future__ import annotations

from pegbox.codegen.emitter.module import ModuleText

CLOCK = "declare i32 @clock_gettime(i32, ptr)"
MONOTONIC = 1


def timing_loop(module: ModuleText, params: str) -> str:
    """Write `@name__timed(args, workspace, n)`, which returns the nanoseconds of n calls by the monotonic clock.

    The kernel is called through a pointer that LLVM must read again each time, so that it cannot remove calls.
    """
    name = module.name
    module.declare(CLOCK)
    module.functions.append(f"@{name}.pointer = internal global ptr @{name}")
    return f"""define i64 @{name}__timed({params}, i64 %n) #0 {{
entry:
  %start = alloca [2 x i64], align 16
  %stop = alloca [2 x i64], align 16
  %r0 = call i32 @clock_gettime(i32 {MONOTONIC}, ptr %start)
  %none = icmp sle i64 %n, 0
  br i1 %none, label %done, label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %kernel = load volatile ptr, ptr @{name}.pointer, align 8
  call void %kernel({params})
  %next = add i64 %i, 1
  %last = icmp eq i64 %next, %n
  br i1 %last, label %done, label %loop
done:
  %r1 = call i32 @clock_gettime(i32 {MONOTONIC}, ptr %stop)
  %s0 = load i64, ptr %start, align 8
  %s1 = load i64, ptr %stop, align 8
  %n0p = getelementptr i64, ptr %start, i64 1
  %n1p = getelementptr i64, ptr %stop, i64 1
  %n0 = load i64, ptr %n0p, align 8
  %n1 = load i64, ptr %n1p, align 8
  %s = sub i64 %s1, %s0
  %ns = sub i64 %n1, %n0
  %scaled = mul i64 %s, 1000000000
  %total = add i64 %scaled, %ns
  ret i64 %total
}}"""
