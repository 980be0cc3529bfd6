"""A kernel as a function of Python in machine code: checks and call without a step of the interpreter.

`@NAME__cpython1(self, arguments, names)` is a C function of CPython (METH_VARARGS | METH_KEYWORDS). It compares the
fields of NumPy's arrays with what the kernel was compiled for, and jumps to the kernel. Any other call (another count,
type, shape, dtype or layout, an overlap) goes on to a function in Python, which runs it or raises.

The code refers to nothing outside: it reads addresses from the table `@NAME__cpython1_table`, which the process that
loads it fills (`interpreter.py`). So one object fits every version of Python, and one that lacks what the code needs
leaves the table alone and never calls it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, count

from pegbox.codegen.program import ArgSpec, Program

TAG = "cpython1"
"""The layouts that the code relies on: CPython's objects with a lock (GIL) and NumPy's arrays, both on 64 bits, the
slots of the table and the items of `self`. Another layout needs another tag."""

FUNCTIONS = {
    "PyTuple_Size": "i64", "PyTuple_GetItem": "ptr", "PyDict_Size": "i64", "PyDict_GetItem": "ptr",
    "PyObject_Call": "ptr", "PyObject_CallNoArgs": "ptr", "Py_IncRef": "void", "Py_DecRef": "void",
    "PyEval_SaveThread": "ptr", "PyEval_RestoreThread": "void",
    "PyThreadState_Get": "ptr", "PyThreadState_GetID": "i64", "sched_getcpu": "i32", "clock_gettime": "i32",
}  # fmt: skip
"""The C functions that the code calls, with the LLVM types of their results; CPython's are in its stable ABI."""

SLOTS = ("ndarray", "tuple", "None", "out", "workspace", "team", *FUNCTIONS)
"""The entries of the table, addresses all of them; those of the arguments' dtypes follow.

`out` is the string; `workspace` is null while a call uses it; `team` is `team.latest`.
"""

TYPE, DATA, DIMENSIONS, SHAPE, DTYPE, FLAGS = 8, 16, 24, 32, 56, 64
"""The places of fields in an array's object (NumPy's PyArrayObject_fields), in bytes."""

READABLE, WRITABLE = 0x101, 0x501
"""The flags that inputs and outputs must have: C-contiguous and aligned, and writable."""

MOST_LOCKED = 1 << 15
"""The most stores of a program that keeps Python's lock. Such a program takes a microsecond or less if it is well
scheduled, and giving up the lock costs a tenth of that (`benchmarks/calls.py --lock`)."""


def with_python_call(program: Program) -> Program:
    """Add the function for Python; programs that call functions in Python are returned as they are."""
    from pegbox.loops.foreign import PREFIX  # code that is only loaded needs no loop IR

    if any(symbol.startswith(PREFIX) for symbol in program.externs):
        return program
    return replace(program, ll="\n".join([program.ll, _table(program), _checked_run(program), _function(program)]))


def symbol_of(name: str) -> str:
    """Return the name of a kernel's function for Python; that of its table ends with `_table`."""
    return f"{name}__{TAG}"


class _Body:
    """The lines of an LLVM function, and names for its values."""

    def __init__(self, name: str) -> None:
        self.lines: list[str] = []
        self.symbol, self._count = symbol_of(name), 0

    def add(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def value(self, text: str) -> str:
        """Add an instruction and return the name of its value."""
        self._count += 1
        self.add(f"%v{self._count} = {text}")
        return f"%v{self._count}"

    def load(self, kind: str, base: str, offset: int) -> str:
        place = self.value(f"getelementptr i8, ptr {base}, i64 {offset}")
        return self.value(f"load {kind}, ptr {place}")

    def slot(self, number: int) -> str:
        """Add the load of an entry of the table."""
        return self.load("ptr", f"@{self.symbol}_table", 8 * number)

    def named(self, slot: str) -> str:
        return self.slot(SLOTS.index(slot))

    def call(self, function: str, *arguments: str) -> str:
        """Add the call of a function of CPython; return its value, if it has one."""
        kind = FUNCTIONS[function]
        text = f"call {kind} {self.named(function)}({', '.join(arguments)})"
        if kind != "void":
            return self.value(text)
        self.add(text)
        return ""

    def equal(self, kind: str, one: str, other: str | int) -> str:
        return self.value(f"icmp eq {kind} {one}, {other}")

    def branch(self, conditions: Sequence[str], good: str, bad: str) -> None:
        """End the block with a branch, and begin the block for the case that all conditions hold."""
        both = "true"
        for other in conditions:
            both = self.value(f"and i1 {both}, {other}")
        self.add(f"br i1 {both}, label %{good}, label %{bad}")
        self.label(good)

    def function(self, head: str) -> str:
        return "\n".join([f"define {head} nounwind optnone noinline {{", *self.lines, "}"])


def _table(program: Program) -> str:
    size = len(SLOTS) + len(program.args)
    return f"@{symbol_of(program.name)}_table = hidden global [{size} x ptr] zeroinitializer, align 8"


def _function(program: Program) -> str:
    """Write the function: it finds the arrays among the arguments, or has the outputs made."""
    body, args = _Body(program.name), program.args
    inputs = sum(not spec.is_output for spec in args)
    total = body.call("PyTuple_Size", "ptr %arguments")
    body.branch([body.equal("ptr", "%names", "null")], "positional", "named")
    body.branch([body.equal("i64", total, len(args))], "all", "fewer")
    body.branch([_run(body, [_argument(body, number) for number in range(len(args))])], "done", "other")
    none = body.named("None")
    body.call("Py_IncRef", f"ptr {none}")
    body.add(f"ret ptr {none}")
    body.label("fewer")
    make = body.call("PyTuple_GetItem", "ptr %self", "i64 1")
    known = body.value(f"icmp ne ptr {make}, {body.named('None')}")
    body.branch([body.equal("i64", total, inputs), known], "make", "other")
    made = body.call("PyObject_CallNoArgs", f"ptr {make}")
    body.add(f"br i1 {body.equal('ptr', made, 'null')}, label %raised, label %outputs")
    body.label("raised")
    body.add("ret ptr null")
    body.label("named")
    size = body.call("PyDict_Size", "ptr %names")
    body.branch([body.value(f"icmp ne i64 {size}, 0")], "some", "positional")
    given = body.call("PyDict_GetItem", "ptr %names", f"ptr {body.named('out')}")
    present = body.value(f"icmp ne ptr {given}, null")
    body.branch([body.equal("i64", size, 1), body.equal("i64", total, inputs), present], "given", "other")
    body.call("Py_IncRef", f"ptr {given}")
    body.add("br label %outputs")
    body.label("outputs")
    out = body.value(f"phi ptr [ {made}, %make ], [ {given}, %given ]")
    _run_with(body, args, out)
    body.label("other")
    otherwise = body.call("PyTuple_GetItem", "ptr %self", "i64 0")
    body.add(f"ret ptr {body.call('PyObject_Call', f'ptr {otherwise}', 'ptr %arguments', 'ptr %names')}")
    return body.function(f"ptr @{body.symbol}(ptr %self, ptr %arguments, ptr %names)")


def _run_with(body: _Body, args: Sequence[ArgSpec], out: str) -> None:
    """Run the kernel on the inputs and these outputs, of which a reference is held, and return them."""
    outputs = iter(_outputs(body, out, sum(spec.is_output for spec in args)))
    places = count()
    arrays = [next(outputs) if spec.is_output else _argument(body, next(places)) for spec in args]
    body.branch([_run(body, arrays)], "written", "unknown")
    body.add(f"ret ptr {out}")
    body.label("unknown")
    body.call("Py_DecRef", f"ptr {out}")
    body.add("br label %other")


def _argument(body: _Body, number: int) -> str:
    return body.call("PyTuple_GetItem", "ptr %arguments", f"i64 {number}")


def _run(body: _Body, arrays: Sequence[str]) -> str:
    return body.value(f"call i1 @{body.symbol}_run({', '.join(f'ptr {array}' for array in arrays)})")


def _outputs(body: _Body, out: str, count: int) -> list[str]:
    """Take the outputs from what was given: an array, or a tuple of several."""
    if count == 1:
        return [out]
    is_tuple = body.equal("ptr", body.load("ptr", out, TYPE), body.named("tuple"))
    body.branch([is_tuple], "tuple", "unknown")
    body.branch([body.equal("i64", body.call("PyTuple_Size", f"ptr {out}"), count)], "counted", "unknown")
    return [body.call("PyTuple_GetItem", f"ptr {out}", f"i64 {number}") for number in range(count)]


def _checked_run(program: Program) -> str:
    """Write the function that runs the kernel and returns 1 if the arrays fit, and otherwise returns 0."""
    body, args = _Body(program.name), program.args
    arrays = [f"%a{number}" for number in range(len(args))]
    ndarray = body.named("ndarray")
    body.branch([body.equal("ptr", body.load("ptr", array, TYPE), ndarray) for array in arrays], "arrays", "other")
    body.branch([each for number in range(len(args)) for each in _kind(body, args[number], number)], "kinds", "other")
    pointers = [body.load("ptr", array, DATA) for array in arrays]
    extents = [each for spec, array in zip(args, arrays, strict=True) for each in _extents(body, spec, array)]
    body.branch([*extents, *_apart(body, args, pointers)], "fit", "other")
    if program.num_threads > 1:
        _in_place(body, program.num_threads)
    workspace = "null"
    if program.workspace_bytes:  # its slot changes under Python's lock alone
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
    body.add("ret i1 true")
    body.label("other")
    body.add("ret i1 false")
    return body.function(f"internal i1 @{body.symbol}_run({', '.join(f'ptr {array}' for array in arrays)})")


def _in_place(body: _Body, threads: int) -> None:
    """Go on if the caller's team is the latest one and is where it was a moment ago; else Python looks after it."""
    team = body.named("team")
    thread, size, core, until = (body.load("i64", team, 8 * place) for place in range(4))
    caller = body.call("PyThreadState_GetID", f"ptr {body.call('PyThreadState_Get')}")
    body.branch([body.equal("i64", thread, caller), body.equal("i64", size, threads)], "team", "other")
    here = body.value(f"sext i32 {body.call('sched_getcpu')} to i64")
    clock = body.value("alloca [2 x i64], align 8")
    body.call("clock_gettime", "i32 1", f"ptr {clock}")
    seconds = body.value(f"mul i64 {body.load('i64', clock, 0)}, 1000000000")
    now = body.value(f"add i64 {seconds}, {body.load('i64', clock, 8)}")
    body.branch([body.equal("i64", core, here), body.value(f"icmp slt i64 {now}, {until}")], "placed", "other")


def _lasts(program: Program) -> bool:
    """Decide if other threads of Python run during a call: C functions may wait for anything."""
    return program.num_threads > 1 or bool(program.externs) or not 0 < program.stores <= MOST_LOCKED


def _kind(body: _Body, spec: ArgSpec, number: int) -> Iterator[str]:
    """Yield conditions on an array: its dtype, flags and number of dimensions."""
    array = f"%a{number}"
    yield body.equal("ptr", body.load("ptr", array, DTYPE), body.slot(len(SLOTS) + number))
    wanted = WRITABLE if spec.is_output else READABLE
    yield body.equal("i32", body.value(f"and i32 {body.load('i32', array, FLAGS)}, {wanted}"), wanted)
    yield body.equal("i32", body.load("i32", array, DIMENSIONS), len(spec.shape))


def _extents(body: _Body, spec: ArgSpec, array: str) -> Iterator[str]:
    shape = body.load("ptr", array, SHAPE)
    for number, extent in enumerate(spec.shape):
        yield body.equal("i64", body.load("i64", shape, 8 * number), extent)


def _apart(body: _Body, args: Sequence[ArgSpec], pointers: Sequence[str]) -> Iterator[str]:
    """Yield conditions on pairs of arrays of which one is an output: they share no memory."""
    starts = [body.value(f"ptrtoint ptr {pointer} to i64") for pointer in pointers]
    ends = [body.value(f"add i64 {start}, {spec.nbytes}") for start, spec in zip(starts, args, strict=True)]
    for one, other in combinations(range(len(args)), 2):
        if args[one].is_output or args[other].is_output:
            before = body.value(f"icmp ule i64 {ends[one]}, {starts[other]}")
            behind = body.value(f"icmp ule i64 {ends[other]}, {starts[one]}")
            yield body.value(f"or i1 {before}, {behind}")
