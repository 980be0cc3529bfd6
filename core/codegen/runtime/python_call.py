"""Python functions in machine code: a kernel's checks and its call, without a step of the interpreter.

The function takes Python's vector call (PEP 590), reads each array through the buffer protocol (PEP 3118), compares
it with what the kernel was compiled for, and jumps to the kernel. It lies in the kernel's object code. Every call that
it does not know (another count, type, shape, dtype, layout, an overlap) goes on to a function in Python, which runs it
or raises.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from pegbox.codegen.program import ArgSpec, Program
from pegbox.expr import dtypes

MOST_STACK = 1 << 18
"""The bytes of a workspace that may lie on the stack of the caller."""

_FORMATS = {
    "float64": "d", "float32": "f", "float16": "e", "bool": "?",
    "int64": "lq", "int32": "i", "int16": "h", "int8": "b",
    "uint64": "LQ", "uint32": "I", "uint16": "H", "uint8": "B",
}  # fmt: skip
_API = {
    "PyObject_GetBuffer": "i32 {}(ptr, ptr, i32)",
    "PyBuffer_Release": "void {}(ptr)",
    "PyErr_Clear": "void {}()",
    "PyTuple_GetItem": "ptr {}(ptr, i64)",
    "PyObject_Vectorcall": "ptr {}(ptr, ptr, i64, ptr)",
    "PyEval_SaveThread": "ptr {}()",
    "PyEval_RestoreThread": "void {}(ptr)",
    "Py_IncRef": "void {}(ptr)",
}
_FLAGS = 0x3C  # PyBUF_C_CONTIGUOUS | PyBUF_FORMAT
_WRITABLE = 0x01
_VIEW = 80  # bytes of a Py_buffer
_TYPE, _OBJECT, _DIMENSIONS, _FORMAT, _SHAPE = (
    8,
    8,
    36,
    40,
    48,
)  # places of fields, the first in an object, then in views
_FAST_CALL = 0x0080 | 0x0002  # METH_FASTCALL | METH_KEYWORDS


def with_python_call(program: Program, *, release: bool) -> Program:
    """The program with `@NAME__python`, where its arguments and this interpreter allow that; else as it is.

    Args:
        release: the kernel lasts long enough for other threads of Python to run meanwhile.
    """
    known = all(spec.dtype in _FORMATS for spec in program.args)
    if not known or not _has_api() or program.externs or program.num_threads > 1:
        return program
    if program.workspace_bytes > MOST_STACK:
        return program
    return replace(program, ll=f"{program.ll}\n{_text(program, release)}")


def python_function(
    address: int, name: str, otherwise: Callable[..., Any], *, result: object = None, owner: object = None
) -> Callable[..., Any]:
    """Return the code at an address as a function of Python.

    Args:
        otherwise: takes the calls that the code does not know.
        result: the value of the other calls.
        owner: an object that must live as long as the function, such as the code.
    """
    import numpy as np

    definition = _Definition(name.encode(), address, _FAST_CALL, None)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    made: Callable[..., Any] = make(ctypes.byref(definition), (otherwise, result, np.ndarray, definition, owner), None)
    return made


class _Definition(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def _has_api() -> bool:
    """Tell whether objects and functions of this interpreter are laid out as the code expects them."""
    usual = sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")
    return usual and ctypes.sizeof(ctypes.c_void_p) == 8 and all(hasattr(ctypes.pythonapi, name) for name in _API)


class _Body:
    """The lines of a function, and names for its values."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._count = 0

    def value(self, text: str) -> str:
        """Add an instruction and return the name of its value."""
        self._count += 1
        self.lines.append(f"  %v{self._count} = {text}")
        return f"%v{self._count}"

    def load(self, kind: str, base: str, offset: int) -> str:
        """Add the load of a field."""
        place = self.value(f"getelementptr i8, ptr {base}, i64 {offset}")
        return self.value(f"load {kind}, ptr {place}, align {8 if kind in ('ptr', 'i64') else 1}")

    def call(self, name: str, arguments: str) -> str:
        return self.value(f"call {_API[name].split()[0]} @{name}({arguments})")

    def all(self, conditions: Sequence[str]) -> str:
        """Add the conjunction of values."""
        result = conditions[0]
        for other in conditions[1:]:
            result = self.value(f"and i1 {result}, {other}")
        return result

    def branch(self, conditions: Sequence[str], good: str, bad: str) -> None:
        """End the block with a branch, and begin that of the good case."""
        self.lines.append(f"  br i1 {self.all(conditions)}, label %{good}, label %{bad}\n{good}:")


def _text(program: Program, release: bool) -> str:
    args, body = program.args, _Body()
    add, value = body.lines.append, body.value
    views = [value(f"alloca [{_VIEW} x i8], align 8") for _ in args]
    workspace = "null"
    if program.workspace_bytes:
        workspace = value(f"alloca [{program.workspace_bytes} x i8], align 64")
    counted = value(f"icmp eq i64 %count, {len(args)}")
    body.branch([counted, value("icmp eq ptr %names, null")], "typed", "other")
    kind = body.call("PyTuple_GetItem", "ptr %self, i64 2")
    arrays = [body.load("ptr", "%args", 8 * number) for number in range(len(args))]
    types = [body.load("ptr", array, _TYPE) for array in arrays]
    body.branch([value(f"icmp eq ptr {each}, {kind}") for each in types], "arrays", "other")
    for view in views:  # so that all of them can be released, whichever were made
        add(f"  store ptr null, ptr {value(f'getelementptr i8, ptr {view}, i64 {_OBJECT}')}, align 8")
    for number, (spec, array, view) in enumerate(zip(args, arrays, views, strict=True)):
        flags = _FLAGS | (_WRITABLE if spec.is_output else 0)
        status = body.call("PyObject_GetBuffer", f"ptr {array}, ptr {view}, i32 {flags}")
        body.branch([value(f"icmp eq i32 {status}, 0")], f"view{number}", "unknown")
        dimensions = body.load("i32", view, _DIMENSIONS)
        body.branch([value(f"icmp eq i32 {dimensions}, {len(spec.shape)}")], f"shape{number}", "unknown")
        body.branch(list(_fits(body, spec, view)), f"fits{number}", "unknown")
    pointers = [body.load("ptr", view, 0) for view in views]
    apart = list(_apart(body, args, pointers))
    body.branch([*apart, value("icmp eq i32 0, 0")], "run", "unknown")
    state = body.call("PyEval_SaveThread", "") if release else ""
    add(f"  call void @{program.name}({', '.join(f'ptr {each}' for each in [*pointers, workspace])})")
    if release:
        add(f"  call void @PyEval_RestoreThread(ptr {state})")
    released = [f"  call void @PyBuffer_Release(ptr {view})" for view in views]
    body.lines.extend(released)
    result = body.call("PyTuple_GetItem", "ptr %self, i64 1")
    add(f"  call void @Py_IncRef(ptr {result})\n  ret ptr {result}\nunknown:\n  call void @PyErr_Clear()")
    body.lines.extend(released)
    add("  br label %other\nother:")
    otherwise = body.call("PyTuple_GetItem", "ptr %self, i64 0")
    passed = body.call("PyObject_Vectorcall", f"ptr {otherwise}, ptr %args, i64 %count, ptr %names")
    declared = "\n".join("declare " + form.format(f"@{name}") for name, form in _API.items())
    head = f"define ptr @{program.name}__python(ptr %self, ptr %args, i64 %count, ptr %names) #0 {{"
    return "\n".join([declared, head, *body.lines, f"  ret ptr {passed}", "}", ""])


def _fits(body: _Body, spec: ArgSpec, view: str) -> Iterator[str]:
    """Conditions on a view: its format, extents and alignment."""
    text = body.load("ptr", view, _FORMAT)
    given = body.value(f"load i16, ptr {text}, align 1")
    first, *rest = [body.value(f"icmp eq i16 {given}, {ord(form)}") for form in _FORMATS[spec.dtype]]
    yield body.value(f"or i1 {first}, {rest[0]}") if rest else first
    shape = body.load("ptr", view, _SHAPE)
    for number, extent in enumerate(spec.shape):
        yield body.value(f"icmp eq i64 {body.load('i64', shape, 8 * number)}, {extent}")
    beyond = body.value(f"and i64 {body.load('i64', view, 0)}, {dtypes.nbytes(spec.dtype) - 1}")
    yield body.value(f"icmp eq i64 {beyond}, 0")


def _apart(body: _Body, args: Sequence[ArgSpec], pointers: Sequence[str]) -> Iterator[str]:
    """Conditions on pairs of arrays of which one is an output: they share no memory."""
    starts = [body.value(f"ptrtoint ptr {pointer} to i64") for pointer in pointers]
    ends = [body.value(f"add i64 {start}, {spec.nbytes}") for start, spec in zip(starts, args, strict=True)]
    for one, other in combinations(range(len(args)), 2):
        if args[one].is_output or args[other].is_output:
            before = body.value(f"icmp ule i64 {ends[one]}, {starts[other]}")
            behind = body.value(f"icmp ule i64 {ends[other]}, {starts[one]}")
            yield body.value(f"or i1 {before}, {behind}")
