"""The names of the dialect, such as `T.grid` and `T.axis.spatial`, as Python objects and for the reader.

Bodies of scripts are read, not run, so each name is an object that knows only its name; a call outside a script is an
error. `T.Buffer(...)` and `T.handle` are used in annotations, which Python does evaluate.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pegbox.checks import did_you_mean
from pegbox.errors import ScriptError
from pegbox.expr import dtypes
from pegbox.loops.kind import ForKind
from pegbox.loops.script.calls import CALLS

_STATEMENTS = (
    "grid", *(kind.word for kind in ForKind),
    "block", "init", "where", "reads", "writes", "block_attr",
    "alloc_buffer", "allocate", "decl_buffer", "match_buffer", "func_attr", "evaluate", "guard", "prim_func",
)  # fmt: skip
_AXES = ("spatial", "reduce", "remap", "S", "R")
_TYPES = ("Buffer", "handle")


# Names in TVM's lowered programs that are not read, with remedies.
_UNREAD = {
    "allocate_const": "give the constants to the function as a parameter",
    "attr": "leave out the attribute, or give a loop annotations={...}",
    "launch_thread": 'write for i in T.thread_binding(16, thread="blockIdx.x")',
    "env_thread": 'write for i in T.thread_binding(16, thread="blockIdx.x")',
    "tvm_storage_sync": "leave it out: threads wait for each other where a loop over threads ends",
    "LetStmt": "write x = value",
    "Let": "write x = value",
    "Assert": "leave it out: shapes and types are checked at the call",
    "assume": "leave it out",
    "tvm_access_ptr": 'write T.address(A[i, 0:16], "r")',
    "address_of": 'write T.address(A[i, 0:16], "r")',
    "Shuffle": "the lengths of its vectors are not in the text; store the elements one by one",
    "load": "write A[i], or by a flat index P[i] of a view P = T.Buffer((64,), data=A.data)",
    "store": "write A[i] = x, or by a flat index P[i] = x of a view P = T.Buffer((64,), data=A.data)",
}


class Word:
    """A name of the dialect, such as "axis.spatial"."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *_args: Any, **_options: Any) -> Any:
        raise ScriptError(
            f"T.{self.name} was called while Python runs; it has a meaning only in a function under @T.prim_func, "
            "or in the text that script.from_source reads"
        )

    def __repr__(self) -> str:
        return f"T.{self.name}"


class TypeWord(Word):
    """A name in annotations, which Python may call and subscript without effect."""

    def __call__(self, *_args: Any, **_options: Any) -> Any:
        return self

    def __getitem__(self, _item: Any) -> TypeWord:
        return self


class NumberWord(Word):
    """A type of numbers, which Python may call in annotations, `T.Buffer((T.int64(8),))`, to get the number."""

    def __call__(self, value: Any = 0) -> Any:
        return value


class Words:
    """A namespace of words, whose error for an unknown name suggests a similar one."""

    def __init__(self, label: str, words: dict[str, Any]) -> None:
        self._label = label
        self._words = words

    def __getattr__(self, name: str) -> Any:
        try:
            return self._words[name]
        except KeyError:
            if self._words is WORDS and dtypes.is_vector(name):
                return Word(name)
            if self._words is WORDS and name in _UNREAD:
                raise AttributeError(f"T.{name} is not read: {_UNREAD[name]}") from None
            raise AttributeError(unknown(f"{self._label}.{name}", name, self._words, self._label)) from None

    def __dir__(self) -> list[str]:
        return sorted(self._words)

    def __repr__(self) -> str:
        return self._label


def unknown(what: str, name: str, names: Iterable[str], label: str = "") -> str:
    """Return the message for an unknown name."""
    prefix = f"{label}." if label else ""
    return f"unknown name {what}{did_you_mean(name, names, shown=lambda near: prefix + near)}"


def _words() -> dict[str, Any]:
    found: dict[str, Any] = {name: Word(name) for name in (*_STATEMENTS, *CALLS)}
    found |= {name: TypeWord(name) for name in _TYPES}
    found |= {name: NumberWord(name) for name in dtypes.BITS}
    found["axis"] = Words("T.axis", {name: Word(f"axis.{name}") for name in _AXES})
    return found


WORDS = _words()
T = Words("T", WORDS)
I = Words("I", {"ir_module": Word("ir_module")})  # noqa: E741  (the dialect's name)
