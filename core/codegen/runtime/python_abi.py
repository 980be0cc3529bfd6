"""CPython and NumPy as machine code sees them: the layouts that it relies on, and LLVM text that uses them.

The code refers to no external symbols. It reads addresses from a table next to it, which the process that loads it
fills (`interpreter.py`). So one object fits every version of Python; a Python that lacks something the code needs
leaves the table empty and never calls the code.
"""

from __future__ import annotations

from collections.abc import Sequence

from pegbox.digest import sha256

FUNCTIONS = {
    "PyTuple_Size": "i64", "PyTuple_GetItem": "ptr", "PyDict_Size": "i64", "PyDict_GetItem": "ptr",
    "PyObject_Call": "ptr", "PyObject_CallNoArgs": "ptr", "PyContextVar_Get": "i32",
    "Py_IncRef": "void", "Py_DecRef": "void",
    "PyEval_SaveThread": "ptr", "PyEval_RestoreThread": "void",
    "PyThreadState_Get": "ptr", "PyThreadState_GetID": "i64", "sched_getcpu": "i32", "clock_gettime": "i32",
}  # fmt: skip
"""The C functions that the code calls, with the LLVM types of their results, which all versions of CPython share."""

SLOTS = ("ndarray", "tuple", "None", "out", "workspace", "team", *FUNCTIONS)
"""The entries of the table, all of them addresses; those of the arguments' dtypes follow.

`out` is the string "out"; `workspace` is null while a call uses it; `team` is `latest_team`.
"""

ITEMS = ("otherwise", "make_outputs", "unless")
"""The first items of the tuple `self`: see `Kernel.function`."""

TYPE, DATA, DIMENSIONS, SHAPE, DTYPE, FLAGS = 8, 16, 24, 32, 56, 64
"""The places of fields in an array's object (NumPy's PyArrayObject_fields), in bytes."""

READABLE, WRITABLE = 0x101, 0x501
"""The flags that inputs must have (C-contiguous and aligned) and those of outputs (writable, too)."""

TEAM = ("thread", "size", "core", "until")
"""The fields of `latest_team`, of 64 bits each."""

TAG = sha256(repr((SLOTS, ITEMS, TEAM, TYPE, DATA, DIMENSIONS, SHAPE, DTYPE, FLAGS)).encode()).hexdigest()[:8]
"""A digest of the layouts on which the code and its loader must agree, which is part of the symbols' names."""


def symbol_of(name: str) -> str:
    """Return the name of a kernel's function for Python; the table's name is the same followed by `_table`."""
    return f"{name}__cpython_{TAG}"


class FunctionBuilder:
    """The lines of an LLVM function, and names for its values.

    Args:
        name: the kernel's name.
    """

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
        """Add a load of a table entry."""
        return self.load("ptr", f"@{self.symbol}_table", 8 * number)

    def item(self, name: str) -> str:
        return self.call("PyTuple_GetItem", "ptr %self", f"i64 {ITEMS.index(name)}")

    def named(self, slot: str) -> str:
        return self.slot(SLOTS.index(slot))

    def call(self, function: str, *arguments: str) -> str:
        """Add a call of a CPython function; return its value, if it has one."""
        kind = FUNCTIONS[function]
        text = f"call {kind} {self.named(function)}({', '.join(arguments)})"
        if kind != "void":
            return self.value(text)
        self.add(text)
        return ""

    def equal(self, kind: str, one: str, other: str | int) -> str:
        return self.value(f"icmp eq {kind} {one}, {other}")

    def branch(self, conditions: Sequence[str], good: str, bad: str) -> None:
        """End the block with a branch, and begin the block in which all conditions hold."""
        both = "true"
        for other in conditions:
            both = self.value(f"and i1 {both}, {other}")
        self.choice(both, good, bad)
        self.label(good)

    def choice(self, condition: str, yes: str, no: str) -> None:
        """End the block with a branch."""
        self.add(f"br i1 {condition}, label %{yes}, label %{no}")

    def function(self, head: str) -> str:
        return "\n".join([f"define {head} nounwind optnone noinline {{", *self.lines, "}"])
