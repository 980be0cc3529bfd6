"""The refusal of a primitive, with the loops of the program in few lines: where is the loop that it is about?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pegbox.errors import ScheduleError
from pegbox.expr.build import conjuncts
from pegbox.expr.nodes import Var
from pegbox.expr.printer import show, unused_name
from pegbox.loops.nodes import Alloc, BlockRealize, For, If, Seq, Stmt
from pegbox.loops.printer import show_kind
from pegbox.schedule.tree import Tree

_MARK = ">"
_LONGEST = 60  # characters of an argument in a message


def refuse(tree: Tree, reason: str, remedy: str, *marked: Var | str) -> ScheduleError:
    """The error for a primitive that cannot be done: what is wrong, the loops around it, the remedy.

    The primitive and its arguments are added where the step is recorded.

    Args:
        marked: loop variables and block names to point at. Their nests are shown, or the whole program without any.
    """
    return ScheduleError(reason, remedy, place=names_of(marked), program=shown(tree, marked))


def add_call(error: ScheduleError, primitive: str, args: Iterable[Any], options: Mapping[str, Any]) -> bool:
    """Say in a refusal which call it is of, unless it comes from a call inside of that one; tells whether it did."""
    if error.primitive:
        return False
    error.primitive = primitive
    error.arguments = (*map(_argument, args), *(f"{key}={_argument(value)}" for key, value in options.items()))
    return True


def _argument(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_argument, value))}]"
    name = getattr(value, "__name__", None) or getattr(value, "name", None)  # a function's repr has its address
    text = next((each for each in (value, name) if isinstance(each, str)), None) or repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def names_of(marked: Iterable[Var | str]) -> tuple[str, ...]:
    """The names of loops and blocks, each once."""
    return tuple(dict.fromkeys(m if isinstance(m, str) else m.name for m in marked))


def shown(tree: Tree, marked: Sequence[Var | str]) -> str:
    """The nests of the marked loops and blocks, with marks; the whole program where there are none."""
    nodes: list[Stmt] = [
        found for m in marked if (found := tree.blocks.get(m) if isinstance(m, str) else tree.loops.get(m)) is not None
    ]
    tops = list({id(top): top for top in map(tree.top_of, nodes)}.values()) or [tree.func.body]
    order = {id(s): i for i, s in enumerate(tree.func.body.stmts)} if isinstance(tree.func.body, Seq) else {}
    tops.sort(key=lambda top: order.get(id(top), 0))
    names: dict[Var, str] = {}
    ids = {id(node) for node in nodes}
    return "\n".join(line for top in tops for line in _lines(top, 0, names, ids))


def _lines(stmt: Stmt, depth: int, names: dict[Var, str], marked: set[int]) -> Iterator[str]:
    mark = _MARK if id(stmt) in marked else " "
    indent = f"  {mark} " + "    " * depth
    if isinstance(stmt, For):
        yield f"{indent}for {_name(stmt.var, names)} in {show_kind(stmt)}range({stmt.extent}):"
        yield from _lines(stmt.body, depth + 1, names, marked)
    elif isinstance(stmt, Seq):
        for each in stmt.stmts:
            yield from _lines(each, depth, names, marked)
    elif isinstance(stmt, If):
        yield f"{indent}if {show(stmt.condition, names)}:"
        yield from _lines(stmt.then, depth + 1, names, marked)
    elif isinstance(stmt, Alloc):
        yield from _lines(stmt.body, depth, names, marked)
    elif isinstance(stmt, BlockRealize):
        yield indent + _block(stmt, names)


def _block(stmt: BlockRealize, names: dict[Var, str]) -> str:
    bindings = ", ".join(
        f"{it.var.name}={show(value, names)}{' (reduce)' if it.is_reduce else ''}"
        for it, value in zip(stmt.block.iters, stmt.values, strict=True)
    )
    where = " and ".join(show(c, names) for c in conjuncts(stmt.predicate))
    return f"block {stmt.block.name}: {bindings}" + (f" where {where}" if where else "")


def _name(var: Var, names: dict[Var, str]) -> str:
    names[var] = unused_name(var.name, names.values())
    return names[var]
