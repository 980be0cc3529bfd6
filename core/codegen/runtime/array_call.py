"""LLVM text that checks NumPy's array objects and calls a kernel on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from pegbox.codegen.compiled import ArgSpec
from pegbox.codegen.program import Program
from pegbox.codegen.runtime.python_abi import (
    DATA,
    DIMENSIONS,
    DTYPE,
    FLAGS,
    READABLE,
    SHAPE,
    SLOTS,
    TEAM,
    TYPE,
    WRITABLE,
    FunctionBuilder,
)

MOST_LOCKED = 1 << 15
"""The most stores of a program that keeps Python's lock.

Such a program takes a microsecond or less if it is well scheduled, and releasing the lock costs a tenth of a
microsecond (`benchmarks/calls.py --lock`). Even if each store waits for C's mathematical library, the call takes less
than the five milliseconds after which Python's threads take turns.
"""


def inputs_fit(program: Program) -> str:
    """Write the function `..._fit` of the inputs: it returns 1 if they fit, else 0."""
    body = FunctionBuilder(program.name)
    arrays = _checked(body, program, [number for number, spec in enumerate(program.args) if not spec.is_output])
    return _decision(body, "fit", arrays)


def checked_run(program: Program) -> str:
    """Write the function `..._run` of all arrays: it runs the kernel and returns 1 if they fit, else returns 0."""
    body, args = FunctionBuilder(program.name), program.args
    arrays = _checked(body, program, range(len(args)))
    pointers = [body.load("ptr", array, DATA) for array in arrays]
    body.branch(list(_apart(body, args, pointers)), "apart", "other")
    if program.num_threads > 1:
        _in_place(body, program.num_threads)
    workspace = "null"
    if program.workspace_bytes:  # its slot changes only under Python's lock
        workspace = body.named("workspace")
        body.branch([body.value(f"icmp ne ptr {workspace}, null")], "free", "other")
        place = body.value(f"getelementptr i8, ptr @{body.symbol}_table, i64 {8 * SLOTS.index('workspace')}")
        body.add(f"store ptr null, ptr {place}")
    unlocked = body.call("PyEval_SaveThread") if _lasts(program) else ""
    body.add(f"call void @{program.name}({', '.join(f'ptr {each}' for each in [*pointers, workspace])})")
    if unlocked:
        body.call("PyEval_RestoreThread", f"ptr {unlocked}")
    if program.workspace_bytes:
        body.add(f"store ptr {workspace}, ptr {place}")
    return _decision(body, "run", arrays)


def _decision(body: FunctionBuilder, function: str, arrays: Sequence[str]) -> str:
    """End a function that returns 1 here, and 0 in its block "other"."""
    body.add("ret i1 true")
    body.label("other")
    body.add("ret i1 false")
    return body.function(f"internal i1 @{body.symbol}_{function}({', '.join(f'ptr {array}' for array in arrays)})")


def _checked(body: FunctionBuilder, program: Program, numbers: Sequence[int]) -> list[str]:
    """Branch to "other" unless these arguments of the kernel are arrays that fit; return their names."""
    arrays = {number: f"%a{number}" for number in numbers}
    ndarray = body.named("ndarray")
    body.branch(
        [body.equal("ptr", body.load("ptr", each, TYPE), ndarray) for each in arrays.values()], "arrays", "other"
    )
    body.branch([each for number in numbers for each in _kind(body, program.args[number], number)], "kinds", "other")
    extents = [each for number, array in arrays.items() for each in _extents(body, program.args[number], array)]
    body.branch(extents, "extents", "other")
    return list(arrays.values())


def _in_place(body: FunctionBuilder, threads: int) -> None:
    """Branch to "other" unless the caller's team is the latest one and the caller was just seen on this core."""
    team = body.named("team")
    thread, size, core, until = (body.load("i64", team, 8 * place) for place in range(len(TEAM)))
    caller = body.call("PyThreadState_GetID", f"ptr {body.call('PyThreadState_Get')}")
    body.branch([body.equal("i64", thread, caller), body.equal("i64", size, threads)], "team", "other")
    here = body.value(f"sext i32 {body.call('sched_getcpu')} to i64")
    clock = body.value("alloca [2 x i64], align 8")
    body.call("clock_gettime", "i32 1", f"ptr {clock}")
    seconds = body.value(f"mul i64 {body.load('i64', clock, 0)}, 1000000000")
    now = body.value(f"add i64 {seconds}, {body.load('i64', clock, 8)}")
    body.branch([body.equal("i64", core, here), body.value(f"icmp slt i64 {now}, {until}")], "placed", "other")


def _lasts(program: Program) -> bool:
    """Decide if Python's other threads may run during a call; C functions may take any time."""
    return program.num_threads > 1 or bool(program.externs) or not 0 < program.stores <= MOST_LOCKED


def _kind(body: FunctionBuilder, spec: ArgSpec, number: int) -> Iterator[str]:
    """Yield conditions on an array: its dtype, flags and number of dimensions."""
    array = f"%a{number}"
    yield body.equal("ptr", body.load("ptr", array, DTYPE), body.slot(len(SLOTS) + number))
    wanted = WRITABLE if spec.is_output else READABLE
    yield body.equal("i32", body.value(f"and i32 {body.load('i32', array, FLAGS)}, {wanted}"), wanted)
    yield body.equal("i32", body.load("i32", array, DIMENSIONS), len(spec.shape))


def _extents(body: FunctionBuilder, spec: ArgSpec, array: str) -> Iterator[str]:
    shape = body.load("ptr", array, SHAPE)
    for number, extent in enumerate(spec.shape):
        yield body.equal("i64", body.load("i64", shape, 8 * number), extent)


def _apart(body: FunctionBuilder, args: Sequence[ArgSpec], pointers: Sequence[str]) -> Iterator[str]:
    """Yield the conditions that no output shares memory with another array."""
    starts = [body.value(f"ptrtoint ptr {pointer} to i64") for pointer in pointers]
    ends = [body.value(f"add i64 {start}, {spec.nbytes}") for start, spec in zip(starts, args, strict=True)]
    for one, other in combinations(range(len(args)), 2):
        if args[one].is_output or args[other].is_output:
            before = body.value(f"icmp ule i64 {ends[one]}, {starts[other]}")
            behind = body.value(f"icmp ule i64 {ends[other]}, {starts[one]}")
            yield body.value(f"or i1 {before}, {behind}")
