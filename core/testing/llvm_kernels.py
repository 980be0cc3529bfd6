"""Kernels `C[i] = A[i] + B[i]` in LLVM assembly, correct and broken in many ways, for tests of runners.

They test measuring without schedules and lowering, and do things that no schedule can.
"""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np

from pegbox.codegen import ArgSpec, CompiledProgram, Program, Target, compile_program
from pegbox.codegen.emitter.lltypes import constant
from pegbox.loops.foreign import c_source
from pegbox.measure import Bench, Tolerance
from pegbox.measure.trial.bench import Values, make_inputs

SIZE = 4096
_names = itertools.count()

_TEXT = """
declare i32 @clock_gettime(i32, ptr)
declare i32 @puts(ptr)
declare void @abort()
@greeting = private constant [6 x i8] c"hello\\00"

define void @NAME(ptr %a, ptr %b, ptr %c, ptr %workspace) {
entry:
  %sink = alloca i64
  BEFORE
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %pa = getelementptr float, ptr %a, i64 %i
  %pb = getelementptr float, ptr %b, i64 %i
  %pc = getelementptr float, ptr %c, i64 %i
  %va = load float, ptr %pa
  %vb = load float, ptr %pb
  %sum = fadd float %va, %vb
  store float %sum, ptr %pc
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, COUNT
  br i1 %more, label %loop, label %after
after:
  AFTER
  br label %done
done:
  ret void
}

define i64 @NAME__timed(ptr %a, ptr %b, ptr %c, ptr %workspace, i64 %number) {
entry:
  %start = alloca [2 x i64]
  %stop = alloca [2 x i64]
  %r0 = call i32 @clock_gettime(i32 1, ptr %start)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  call void @NAME(ptr %a, ptr %b, ptr %c, ptr %workspace)
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %number
  br i1 %more, label %loop, label %done
done:
  %r1 = call i32 @clock_gettime(i32 1, ptr %stop)
  %start_ns = getelementptr i64, ptr %start, i64 1
  %stop_ns = getelementptr i64, ptr %stop, i64 1
  %s0 = load i64, ptr %start
  %s1 = load i64, ptr %stop
  %n0 = load i64, ptr %start_ns
  %n1 = load i64, ptr %stop_ns
  %seconds = sub i64 %s1, %s0
  %whole = mul i64 %seconds, 1000000000
  %part = sub i64 %n1, %n0
  %total = add i64 %whole, %part
  ret i64 %total
}
"""

_HEADERS = "\n".join(
    f"#include <{name}.h>"
    for name in ("dirent", "fcntl", "signal", "stdlib", "string", "unistd", "sys/resource", "sys/wait")
)

_WAIT = """br label %wait
wait:
  %w = phi i64 [ 0, %after ], [ %w2, %wait ]
  store volatile i64 %w, ptr %sink
  %w2 = add i64 %w, 1
  %again = icmp ult i64 %w2, TURNS
  br i1 %again, label %wait, label %end
end:"""

_SPIN = """br label %spin
spin:
  store volatile i64 0, ptr %sink
  br label %spin
unreached:"""

_SPOIL = """br i1 %bad, label %spoil, label %end
spoil:
  %spoilt = getelementptr float, ptr %c, i64 77
  store float 5.0, ptr %spoilt
  br label %end
end:"""


def arguments() -> tuple[ArgSpec, ...]:
    return (
        ArgSpec("A", (SIZE,), "float32", is_output=False),
        ArgSpec("B", (SIZE,), "float32", is_output=False),
        ArgSpec("C", (SIZE,), "float32", is_output=True),
    )


def program(*, before: str = "", after: str = "", count: int = SIZE, workspace: int = 0, threads: int = 1) -> Program:
    """Make a candidate with extra instructions before and after its loop, over the first `count` elements."""
    name = f"kernel{next(_names)}"
    text = _TEXT.replace("NAME", name).replace("BEFORE", before).replace("AFTER", after).replace("COUNT", str(count))
    return Program(name, arguments(), text, workspace, threads, Target.host(num_cores=1))


def good(*, threads: int = 1) -> Program:
    return program(threads=threads)


def wrong() -> Program:
    """Make a program with one wrong element."""
    return program(after="%bad = getelementptr float, ptr %c, i64 77\n  store float 5.0, ptr %bad")


def long() -> Program:
    """Make a program of two thousand instructions without a branch."""
    return program(after="\n".join(f"%x{number} = add i64 {number}, 1" for number in range(2000)))


def unfinished() -> Program:
    """Make a program that never writes the last element."""
    return program(count=SIZE - 1)


def spoils_input() -> Program:
    return program(after="store float 9.0, ptr %a")


def writes_outside(argument: str, element: int) -> Program:
    """Make a program that writes an element outside the argument %a, %b or %c."""
    place = f"%outside = getelementptr float, ptr {argument}, i64 {element}"
    return program(after=f"{place}\n  store float 0.0, ptr %outside")


def right_at_first() -> Program:
    """Make a program that spoils an element in the second call of a process and in each later one."""
    counting = "%call = load i64, ptr @calls\n  %later = add i64 %call, 1\n  store i64 %later, ptr @calls"
    plain = program(before=counting, after=f"%bad = icmp ugt i64 %call, 1\n  {_SPOIL}")
    return dataclasses.replace(plain, ll=f"@calls = internal global i64 1\n{plain.ll}")


def right_on_known_inputs() -> Program:
    """Make a program that spoils an element for inputs other than the first ones of `bench`."""
    first = constant(float(_values(0).inputs[0][0]), "float32")
    return program(after=f"%seen = load float, ptr %a\n  %bad = fcmp une float %seen, {first}\n  {_SPOIL}")


def endless() -> Program:
    return program(after=_SPIN)


def segfault() -> Program:
    return program(before="store volatile i32 1, ptr null")


def aborts() -> Program:
    return program(before="call void @abort()")


def prints() -> Program:
    return program(before="%printed = call i32 @puts(ptr @greeting)")


def greedy() -> Program:
    """Make a program that needs 32 TiB of workspace."""
    return program(workspace=1 << 45)


def slow(turns: int) -> Program:
    """Make a correct program with `turns` idle stores (at least a third of a nanosecond each)."""
    return program(after=_WAIT.replace("TURNS", str(turns)))


def unparsable() -> Program:
    return program(before="this is not an instruction")


def running(code: str) -> Program:
    """Make a correct program that runs C code, the body of a function, before its loop."""
    text = f"{_HEADERS}\nint extra(void) {{ static int calls; if (calls++) return 0; {code} return 0; }}\n"
    plain = program(before="%ran = call i32 @extra()")
    ll = f"declare i32 @extra()\n{plain.ll}"
    return dataclasses.replace(plain, ll=ll, externs=("extra",), foreign=(c_source(text),))


def compiled(source: Program) -> CompiledProgram:
    return compile_program(source)


def bench() -> Bench:
    known, fresh = _values(0), _values(1)
    return Bench(arguments(), *known, Tolerance.of(known.expected, flop=SIZE), SIZE, fresh)


def _values(seed: int) -> Values:
    a, b = make_inputs(arguments(), seed=seed)
    return Values((a, b), (np.asarray(a + b),))
