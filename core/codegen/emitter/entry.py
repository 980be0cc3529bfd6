"""The exported functions of a kernel: the kernel with its workspace argument, and the loop that times it."""

from __future__ import annotations

from pegbox.codegen.emitter.module import ModuleText
from pegbox.codegen.emitter.placement import Placement
from pegbox.loops.nodes import Function

_NANOSECONDS = 1_000_000_000


def wrapper(func: Function, name: str, places: Placement) -> str:
    """`@name(args, workspace)`: hands every buffer of the workspace to the body as a pointer of its own."""
    params = [f"ptr %a{number}" for number in range(len(func.params))]
    lines, pointers = [], []
    for number, offset in enumerate(places.shared.values()):
        lines.append(f"  %b{number} = getelementptr inbounds i8, ptr %workspace, i64 {offset}")
        pointers.append(f"ptr %b{number}")
    arguments = ", ".join([*params, *pointers, "ptr %workspace"])
    return "\n".join(
        [
            f"define void @{name}({', '.join([*params, 'ptr %workspace'])}) noinline #0 {{",
            *lines,
            f"  call void @{name}.body({arguments})",
            "  ret void",
            "}",
        ]
    )


def timing_loop(module: ModuleText, func: Function, name: str) -> str:
    """`@name__timed(args, workspace, n)`: nanoseconds that n calls take, by the monotonic clock.

    The kernel is called through a pointer that LLVM must read again each time, so that no call can be left out.
    """
    module.declare("declare i32 @clock_gettime(i32, ptr)")
    params = ", ".join([*(f"ptr %a{number}" for number in range(len(func.params))), "ptr %workspace"])
    module.functions.append(f"@{name}.pointer = internal global ptr @{name}")
    return f"""define i64 @{name}__timed({params}, i64 %n) #0 {{
entry:
  %start = alloca [2 x i64], align 16
  %stop = alloca [2 x i64], align 16
  %r0 = call i32 @clock_gettime(i32 1, ptr %start)
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
  %r1 = call i32 @clock_gettime(i32 1, ptr %stop)
  %s0 = load i64, ptr %start, align 8
  %s1 = load i64, ptr %stop, align 8
  %n0p = getelementptr i64, ptr %start, i64 1
  %n1p = getelementptr i64, ptr %stop, i64 1
  %n0 = load i64, ptr %n0p, align 8
  %n1 = load i64, ptr %n1p, align 8
  %s = sub i64 %s1, %s0
  %ns = sub i64 %n1, %n0
  %scaled = mul i64 %s, {_NANOSECONDS}
  %total = add i64 %scaled, %ns
  ret i64 %total
}}"""
