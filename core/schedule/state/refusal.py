"""Every refusal has one form: `primitive(arguments): why`, the program with the place marked, `remedy: what to do`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pegbox.errors import ScheduleError
from pegbox.expr.nodes import Var
from pegbox.schedule.errors import shown
from pegbox.schedule.state.handles import BlockRef, LoopRef
from pegbox.schedule.tree import Tree

_LONGEST = 60  # characters of an argument in a message


def named(error: ScheduleError, primitive: str, arguments: Sequence[Any], tree: Tree | None) -> ScheduleError:
    """The same error, told of a primitive and its arguments; errors that have a primitive already stay as they are."""
    if error.primitive:
        return error
    said, remedy = _parts(error)
    line = error.reason or str(error)
    if not (line.startswith(f"{primitive}(") and "): " in line):
        line = f"{primitive}({', '.join(map(_show, arguments))}): {line.removeprefix(f'{primitive}: ')}"
    if not error.program and tree is not None:
        marks = list(_marks(arguments, tree))
        error.program = shown(tree, marks)
        error.place = error.place or tuple(m if isinstance(m, str) else m.name for m in marks)
    error.primitive, error.remedy = primitive, remedy
    error.reason = said.split("): ", 1)[1] if said.startswith(f"{primitive}(") and "): " in said else said
    error.args = ("\n".join(filter(None, [line, error.program, f"remedy: {remedy}"])),)
    return error


def _parts(error: ScheduleError) -> tuple[str, str]:
    """What is wrong and what to do instead; short errors say both in one line, parted by a semicolon."""
    if error.remedy:
        return error.reason, error.remedy
    reason, semicolon, remedy = str(error).rpartition("; ")
    return (reason, remedy) if semicolon else (str(error), "see what the primitive needs in its docstring")


def _show(value: Any) -> str:
    if isinstance(value, LoopRef | BlockRef):
        return value.name
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_show, value))}]"
    if callable(value) and hasattr(value, "__name__"):
        return str(value.__name__)  # a function's repr has its address
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _marks(arguments: Iterable[Any], tree: Tree) -> Iterable[Var | str]:
    for value in arguments:
        if isinstance(value, LoopRef) and value.var in tree.loops:
            yield value.var
        elif isinstance(value, BlockRef | str):
            name = value.name if isinstance(value, BlockRef) else value
            if name in tree.blocks:
                yield name
        elif isinstance(value, list | tuple):
            yield from _marks(value, tree)
