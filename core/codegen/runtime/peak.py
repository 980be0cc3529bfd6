"""Kernels that do one thing as fast as a core can: multiply and add, read memory, or copy it.

They measure the roofs of the roofline model (Williams, Waterman and Patterson, "Roofline: An Insightful Visual
Performance Model for Multicore Architectures", CACM 2009).
"""

from __future__ import annotations

from pegbox.codegen.program import ArgSpec, Program
from pegbox.codegen.runtime.kernel import Kernel, load
from pegbox.codegen.runtime.machine import compile_program
from pegbox.codegen.targets.target import Target
from pegbox.codegen.targets.vectors import LATENCY, lanes_of
from pegbox.errors import ArgumentError

DTYPES = {"float32": "float", "float64": "double"}
"""LLVM's names of the types that `multiply_add_kernel` knows."""

_ROUNDS = 20_000
_WORD = 8
"""Bytes of the elements that memory is read by."""

_UNROLLED = 8
"""Vectors that are read in a row: enough loads under way, from any level of the caches."""

LEAST_BYTES = 2 * _UNROLLED * 64
"""Of memory that is read or copied: a row of vectors as wide as there are, and another to copy it to."""


def multiply_add_kernel(dtype: str, target: Target) -> tuple[Kernel, float]:
    """A kernel of multiply-adds on one array of one vector, and its floating-point operations per call.

    It updates independent accumulators, as wide as the target's vectors, without loads and stores. There are enough of
    them to hide the latency, and few enough to stay in registers with their operand. They are fused where that exists.

    Raises:
        ArgumentError: a type other than float32 and float64.
    """
    if dtype not in DTYPES:
        raise ArgumentError(f"dtype={dtype!r}: the multiply-add peak is measured for {' and '.join(DTYPES)}")
    lanes = lanes_of(target, dtype)
    count = min(2 * LATENCY, target.vector_registers - 2)
    args = (ArgSpec("x", (lanes,), dtype, True),)
    return _kernel("peak", args, _multiply_adds(dtype, lanes, count), target), 2.0 * lanes * count * _ROUNDS


def read_kernel(nbytes: int, target: Target) -> Kernel:
    """A kernel that reads an array of `nbytes` (a power of two, at least `LEAST_BYTES`) of int64, and writes a vector.

    Its arguments are the array and the vector.
    """
    lanes = lanes_of(target, "int64")
    args = (ArgSpec("x", (nbytes // _WORD,), "int64", False), ArgSpec("y", (lanes,), "int64", True))
    return _kernel("read", args, _reads(nbytes // _WORD, lanes), target)


def copy_kernel(nbytes: int, target: Target) -> Kernel:
    """A kernel that copies one int64 array to another; together they have `nbytes`, as in `read_kernel`."""
    count = nbytes // 2 // _WORD
    args = (ArgSpec("x", (count,), "int64", False), ArgSpec("y", (count,), "int64", True))
    return _kernel("copy", args, _copies(count, lanes_of(target, "int64")), target)


def _kernel(name: str, args: tuple[ArgSpec, ...], body: str, target: Target) -> Kernel:
    pointers = [f"ptr %p{place}" for place in range(len(args))]
    apart = ", ".join(pointer.replace("ptr", "ptr noalias") for pointer in pointers)
    text = f"""
declare i32 @clock_gettime(i32, ptr)

define void @{name}({apart}, ptr %workspace) noinline {{
{body}}}

define i64 @{name}__timed({", ".join(pointers)}, ptr %workspace, i64 %count) {{
entry:
  %t = alloca [2 x i64], align 16
  %r0 = call i32 @clock_gettime(i32 1, ptr %t)
  %s0 = load i64, ptr %t
  %f0 = getelementptr i64, ptr %t, i64 1
  %n0 = load i64, ptr %f0
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  call void @{name}({", ".join(pointers)}, ptr %workspace)
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
    program = Program(name, args, text, 0, 1, target)
    return load(compile_program(program, apart=False), program=program)


def _multiply_adds(dtype: str, lanes: int, count: int) -> str:
    vector = f"<{lanes} x {DTYPES[dtype]}>"
    return f"""entry:
  %x = load {vector}, ptr %p0, align 4
  br label %loop
loop:
  %n = phi i64 [ 0, %entry ], [ %next, %loop ]
{_lines(count, f"  %a# = phi {vector} [ %x, %entry ], [ %b#, %loop ]")}
{_lines(count, f"  %m# = fmul contract {vector} %a#, %x")}
{_lines(count, f"  %b# = fadd contract {vector} %m#, %x")}
  %next = add i64 %n, 1
  %done = icmp eq i64 %next, {_ROUNDS}
  br i1 %done, label %exit, label %loop
exit:
{_joined("fadd", vector, count)}
  store {vector} %s{count - 1}, ptr %p0, align 4
  ret void
"""


def _reads(elements: int, lanes: int) -> str:
    vector = f"<{lanes} x i64>"
    return f"""entry:
  br label %loop
loop:
  %n = phi i64 [ 0, %entry ], [ %next, %loop ]
{_lines(_UNROLLED, f"  %a# = phi {vector} [ zeroinitializer, %entry ], [ %b#, %loop ]")}
{_loads(vector, lanes)}
{_lines(_UNROLLED, f"  %b# = xor {vector} %a#, %v#")}
  %next = add i64 %n, {_UNROLLED * lanes}
  %done = icmp eq i64 %next, {elements}
  br i1 %done, label %exit, label %loop
exit:
{_joined("xor", vector, _UNROLLED)}
  store {vector} %s{_UNROLLED - 1}, ptr %p1, align 8
  ret void
"""


def _copies(elements: int, lanes: int) -> str:
    vector = f"<{lanes} x i64>"
    return f"""entry:
  br label %loop
loop:
  %n = phi i64 [ 0, %entry ], [ %next, %loop ]
{_loads(vector, lanes)}
{_lines(_UNROLLED, "  %q# = getelementptr i64, ptr %p1, i64 %i#")}
{_lines(_UNROLLED, f"  store {vector} %v#, ptr %q#, align 8")}
  %next = add i64 %n, {_UNROLLED * lanes}
  %done = icmp eq i64 %next, {elements}
  br i1 %done, label %exit, label %loop
exit:
  ret void
"""


def _loads(vector: str, lanes: int) -> str:
    """`_UNROLLED` vectors from the `%n`-th element of `%p0` on, as `%v0`, `%v1`, ..."""
    places = "\n".join(f"  %i{place} = add i64 %n, {place * lanes}" for place in range(_UNROLLED))
    addresses = _lines(_UNROLLED, "  %o# = getelementptr i64, ptr %p0, i64 %i#")
    return f"{places}\n{addresses}\n" + _lines(_UNROLLED, f"  %v# = load {vector}, ptr %o#, align 8")


def _joined(operation: str, vector: str, count: int) -> str:
    """All `%b` in one, `%s`; nothing of them is left out then."""
    first = f"  %s0 = {operation} {vector} %b0, zeroinitializer"
    return "\n".join([first, *(f"  %s{i} = {operation} {vector} %s{i - 1}, %b{i}" for i in range(1, count))])


def _lines(count: int, line: str) -> str:
    """The line with each number up to `count` for #."""
    return "\n".join(line.replace("#", str(number)) for number in range(count))
