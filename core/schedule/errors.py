"""The program of a refusal: its loops, with the place marked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pegbox.errors import ScheduleError
from pegbox.expr.build import conjuncts
from pegbox.expr.nodes import Var
from pegbox.loops.nodes import Alloc, BlockRealize, For, Seq, Stmt
from pegbox.loops.printer import PlainPrinter, show_kind
from pegbox.schedule.tree import Tree
from pegbox.shown import value_text

_MARK = "\0"  # a character that does not occur in names
_LONGEST = 60  # the most characters of an argument in a message
_DEEPEST = 4  # the deepest nesting of lists shown in a message


def add_call(error: ScheduleError, primitive: str, args: Iterable[Any], options: Mapping[str, Any]) -> bool:
    """Note the call in its refusal; return False for a refusal that already names an inner call."""
    if error.primitive:
        return False
    error.primitive = primitive
    error.arguments = (*map(_argument, args), *(f"{key}={_argument(value)}" for key, value in options.items()))
    return True


@contextmanager
def showing(tree: Tree) -> Iterator[None]:
    """Let refusals show this program instead of the scheduled one, with the named place marked."""
    try:
        yield
    except ScheduleError as error:
        error.program = shown(tree, error.marked)
        raise


def _argument(value: Any, depth: int = 0) -> str:
    if isinstance(value, list | tuple):
        if depth == _DEEPEST:  # also for a list that contains itself
            return "[...]"
        return f"[{', '.join(_argument(each, depth + 1) for each in value)}]"
    name = getattr(value, "__name__", None) or getattr(value, "name", None)  # a function's repr contains its address
    text = next((each for each in (value, name) if isinstance(each, str)), None) or value_text(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def shown(tree: Tree, marked: Sequence[Var | str] = ()) -> str:
    """Print the nests of the marked loops and blocks, with marks; the whole program if there are none."""
    nodes: list[Stmt] = [
        found for m in marked if (found := tree.blocks.get(m) if isinstance(m, str) else tree.loops.get(m)) is not None
    ]
    tops = list({id(top): top for top in map(tree.top_of, nodes)}.values()) or [tree.func.body]
    order = {id(s): i for i, s in enumerate(tree.func.body.stmts)} if isinstance(tree.func.body, Seq) else {}
    tops.sort(key=lambda top: order.get(id(top), 0))
    printer = _Outline({id(node) for node in nodes})
    lines = [line for top in tops for line in printer.stmt(top)]
    return "\n".join(f"  {'>' if _MARK in line else ' '} {line.replace(_MARK, '')}" for line in lines)


class _Outline(PlainPrinter):
    """A printer of loops, with one line for each block, that marks the lines of the `marked` statements."""

    def __init__(self, marked: set[int]) -> None:
        super().__init__()
        self.marked = marked

    def loop(self, stmt: For) -> list[str]:
        heading = f"for {self.declare(stmt.var)} in {show_kind(stmt)}range({stmt.extent}):"
        return [self._mark(stmt) + heading, *self.suite(stmt.body)]

    def alloc(self, stmt: Alloc, last: bool) -> list[str]:
        return self.stmt(stmt.body)

    def realize(self, stmt: BlockRealize) -> list[str]:
        pairs = zip(stmt.block.iters, stmt.values, strict=True)
        bound = [f"{it.var.name}={self.expr(v)}{' (reduce)' if it.is_reduce else ''}" for it, v in pairs]
        where = " and ".join(map(self.expr, conjuncts(stmt.predicate)))
        text = f"block {stmt.block.name}: {', '.join(bound)}" + (f" where {where}" if where else "")
        return [self._mark(stmt) + text]

    def _mark(self, stmt: Stmt) -> str:
        return _MARK if id(stmt) in self.marked else ""
