"""A kernel as a Python function in machine code: checks and call run without the interpreter.

`@NAME__cpython_TAG(self, arguments, names)` is a C function for CPython (METH_VARARGS | METH_KEYWORDS). It compares the
fields of NumPy's arrays with what the kernel was compiled for, and jumps to the kernel. Any other call (another count,
type, shape, dtype or layout, an overlap) goes on to a function in Python, which runs it or raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from pegbox.codegen.compiled import ArgSpec
from pegbox.codegen.program import Program
from pegbox.codegen.runtime.array_call import checked_run, inputs_fit
from pegbox.codegen.runtime.python_abi import SLOTS, TYPE, FunctionBuilder, symbol_of
from pegbox.loops.foreign import PREFIX


def with_python_call(program: Program) -> Program:
    """Add the function for Python; programs that call Python functions are returned unchanged."""
    if any(symbol.startswith(PREFIX) for symbol in program.externs):
        return program
    parts = _table(program), inputs_fit(program), checked_run(program), _function(program)
    return replace(program, ll="\n".join([program.ll, *parts]))


def _table(program: Program) -> str:
    size = len(SLOTS) + len(program.args)
    return f"@{symbol_of(program.name)}_table = hidden global [{size} x ptr] zeroinitializer, align 8"


def _function(program: Program) -> str:
    """Write the function, which takes all arrays from the arguments, or has the outputs made."""
    body, args = FunctionBuilder(program.name), program.args
    inputs = sum(not spec.is_output for spec in args)
    total = body.call("PyTuple_Size", "ptr %arguments")
    _unless(body)
    body.branch([body.equal("ptr", "%names", "null")], "positional", "named")
    make = body.item("make_outputs")
    body.choice(body.equal("ptr", make, body.named("None")), "by_place", "inputs_alone")
    body.label("by_place")
    body.branch([body.equal("i64", total, len(args))], "all", "other")
    body.branch([_called(body, "run", _arguments(body, len(args)))], "done", "other")
    none = body.named("None")
    body.call("Py_IncRef", f"ptr {none}")
    body.add(f"ret ptr {none}")
    body.label("inputs_alone")
    body.branch([body.equal("i64", total, inputs)], "inputs", "other")
    body.branch([_called(body, "fit", _arguments(body, inputs))], "make", "other")
    made = body.call("PyObject_CallNoArgs", f"ptr {make}")
    body.choice(body.equal("ptr", made, "null"), "raised", "outputs")
    given = _named_output(body, total, inputs)
    body.label("outputs")
    out = body.value(f"phi ptr [ {made}, %make ], [ {given}, %given ]")
    _run_with(body, args, out)
    body.label("raised")
    body.add("ret ptr null")
    body.label("other")
    otherwise = body.item("otherwise")
    body.add(f"ret ptr {body.call('PyObject_Call', f'ptr {otherwise}', 'ptr %arguments', 'ptr %names')}")
    return body.function(f"ptr @{body.symbol}(ptr %self, ptr %arguments, ptr %names)")


def _unless(body: FunctionBuilder) -> None:
    """Branch to "known" if there is no variable or its value is None, else to "other"."""
    variable = body.item("unless")
    body.choice(body.equal("ptr", variable, body.named("None")), "known", "watched")
    body.label("watched")
    place = body.value("alloca ptr, align 8")
    body.add(f"store ptr null, ptr {place}")
    body.call("PyContextVar_Get", f"ptr {variable}", "ptr null", f"ptr {place}")
    value = body.load("ptr", place, 0)
    body.call("Py_DecRef", f"ptr {value}")
    body.branch([body.equal("ptr", value, body.named("None"))], "known", "other")


def _named_output(body: FunctionBuilder, total: str, inputs: int) -> str:
    """Take a reference to the value of `out` if that is the only name and not None; otherwise branch away."""
    body.label("named")
    size = body.call("PyDict_Size", "ptr %names")
    body.branch([body.value(f"icmp ne i64 {size}, 0")], "some", "positional")
    given = body.call("PyDict_GetItem", "ptr %names", f"ptr {body.named('out')}")
    present = body.value(f"icmp ne ptr {given}, null")
    body.branch([body.equal("i64", size, 1), present], "alone", "other")
    body.choice(body.equal("ptr", given, body.named("None")), "positional", "something")
    body.label("something")
    body.branch([body.equal("i64", total, inputs)], "given", "other")
    body.call("Py_IncRef", f"ptr {given}")
    body.add("br label %outputs")
    return given


def _run_with(body: FunctionBuilder, args: Sequence[ArgSpec], out: str) -> None:
    """Run the kernel on the inputs and these outputs, to which a reference is held, and return the outputs."""
    outputs = iter(_outputs(body, out, sum(spec.is_output for spec in args)))
    places = count()
    arrays = [next(outputs) if spec.is_output else _argument(body, next(places)) for spec in args]
    body.branch([_called(body, "run", arrays)], "written", "unknown")
    body.add(f"ret ptr {out}")
    body.label("unknown")
    body.call("Py_DecRef", f"ptr {out}")
    body.add("br label %other")


def _outputs(body: FunctionBuilder, out: str, number: int) -> list[str]:
    """Unpack the given outputs: a tuple, or an array if there is one output."""
    is_tuple = body.equal("ptr", body.load("ptr", out, TYPE), body.named("tuple"))
    body.choice(is_tuple, "tuple", "array" if number == 1 else "unknown")
    body.label("tuple")
    body.branch([body.equal("i64", body.call("PyTuple_Size", f"ptr {out}"), number)], "counted", "unknown")
    members = [body.call("PyTuple_GetItem", f"ptr {out}", f"i64 {place}") for place in range(number)]
    if number != 1:
        return members
    body.add("br label %taken")
    body.label("array")
    body.add("br label %taken")
    body.label("taken")
    return [body.value(f"phi ptr [ {members[0]}, %counted ], [ {out}, %array ]")]


def _arguments(body: FunctionBuilder, number: int) -> list[str]:
    return [_argument(body, place) for place in range(number)]


def _argument(body: FunctionBuilder, place: int) -> str:
    return body.call("PyTuple_GetItem", "ptr %arguments", f"i64 {place}")


def _called(body: FunctionBuilder, function: str, arrays: Sequence[str]) -> str:
    return body.value(f"call i1 @{body.symbol}_{function}({', '.join(f'ptr {array}' for array in arrays)})")
