"""The loops of a program in few lines, for error messages: where is the loop that a primitive stumbled over?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pegbox.errors import ScheduleError
from pegbox.expr.build import conjuncts
from pegbox.expr.nodes import Var
from pegbox.expr.printer import show, unused_name
from pegbox.loops.nodes import Alloc, BlockRealize, For, Function, If, Seq, Stmt
from pegbox.loops.printer import show_kind
from pegbox.schedule.tree import Tree

_MARK = ">"


def refuse(tree: Tree, problem: str, remedy: str, *marked: Var | str) -> ScheduleError:
    """The error for a primitive that cannot be done: what is wrong, the loops around it, the remedy.

    Args:
        marked: loop variables and block names to point at. Their nests are shown, or the whole program without any.
    """
    program = shown(tree, marked)
    place = tuple(dict.fromkeys(m if isinstance(m, str) else m.name for m in marked))
    message = "\n".join([problem, program, f"remedy: {remedy}"])
    return ScheduleError(message, place=place, reason=problem, remedy=remedy, program=program)


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


def outline(func: Function) -> str:
    """The loops and blocks of a function, one a line."""
    return "\n".join(_lines(func.body, 0, {}, set()))


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
