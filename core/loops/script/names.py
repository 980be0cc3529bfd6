"""Unique identifiers for the variables and buffers of a printed script."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pegbox.compute.printer import identifier as python_name
from pegbox.expr.nodes import Buffer, Var
from pegbox.expr.printer import unused_name

# Names that a program may not use for its own: the script's words, and the builtins that it prints.
_RESERVED = frozenset({"T", "I", "range", "float"})


def identifier(name: str) -> str:
    """Return the name as a script takes it."""
    plain = python_name(name)
    return f"{plain}_" if plain in _RESERVED else plain


class Names:
    """The names in scope; what comes into scope while a `scope()` is open leaves with it."""

    def __init__(self) -> None:
        self._names: dict[Var | Buffer, str] = {}
        self._visible: list[str] = []

    def __getitem__(self, what: Var | Buffer) -> str:
        # Something that the program does not declare keeps its name: the text is for people then.
        return self._names.get(what) or identifier(what.name)

    def declare(self, what: Var | Buffer) -> str:
        name = unused_name(identifier(what.name), self._visible)
        self._names[what] = name
        self._visible.append(name)
        return name

    @contextmanager
    def scope(self) -> Iterator[None]:
        depth = len(self._visible)
        yield
        del self._visible[depth:]
