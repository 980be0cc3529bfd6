"""Printer of programs: the walk over statements, and the plain text of `print(pegbox.lower(...))`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar

from pegbox.expr.low_level import stored_box
from pegbox.expr.nodes import Buffer, Expr, Var
from pegbox.expr.printer import PLAIN, Printer, Style, unused_name
from pegbox.loops.nodes import (
    Alloc,
    Block,
    BlockRealize,
    Evaluate,
    For,
    ForKind,
    Function,
    If,
    Region,
    Seq,
    Stmt,
    Store,
)

INDENT = "    "


def indented(lines: Iterable[str]) -> list[str]:
    return [INDENT + line for line in lines]


class StatementPrinter(ABC):
    """A walk over statements, with expressions in a style; methods write the parts that differ between formats."""

    nothing: ClassVar[tuple[str, ...]] = ()  # the text of no statement

    def __init__(self, style: Style, name: Callable[[Var | Buffer], str]) -> None:
        self._text = Printer(style, name)
        self.expr = self._text.expr

    def stmt(self, stmt: Stmt, *, last: bool = True) -> list[str]:
        """Print the lines of one statement; `last`: nothing follows it in its suite."""
        match stmt:
            case For():
                return self.loop(stmt)
            case Seq(stmts):
                end = len(stmts) - 1
                lines = [line for n, each in enumerate(stmts) for line in self.stmt(each, last=last and n == end)]
                return lines or [*self.nothing]
            case If(_, then):
                return [f"if {self.condition(stmt)}:", *self.suite(then)]
            case Store(buffer, indices, value):
                return [f"{self._text.box(buffer, indices, stored_box(indices, value))} = {self.expr(value)}"]
            case Evaluate(expr):
                return [self.evaluation(expr)]
            case Alloc():
                return self.alloc(stmt, last)
            case BlockRealize():
                return self.realize(stmt)
            case _:
                raise TypeError(f"unknown statement {type(stmt).__name__}")

    def suite(self, stmt: Stmt) -> list[str]:
        """Print the statement below a heading, indented."""
        return indented(self.stmt(stmt))

    def regions(self, regions: Iterable[Region]) -> str:
        return ", ".join(self._text.box(r.buffer, [lo for lo, _ in r.box], [n for _, n in r.box]) for r in regions)

    def condition(self, stmt: If) -> str:
        return self.expr(stmt.condition)

    def evaluation(self, expr: Expr) -> str:
        return self.expr(expr)

    @abstractmethod
    def loop(self, stmt: For) -> list[str]:
        """Print a loop with its body."""

    @abstractmethod
    def alloc(self, stmt: Alloc, last: bool) -> list[str]:
        """Print a buffer and the statements that it lives for."""

    @abstractmethod
    def realize(self, stmt: BlockRealize) -> list[str]:
        """Print a block with its body."""


def show_function(func: Function) -> str:
    """Print the whole function, one statement a line."""
    printer = PlainPrinter()
    params = ", ".join(f"{printer.enter(b)}: {b.dtype}{list(b.shape)}" for b in func.params)
    lines = [*map(printer.allocation, func.allocs), *printer.stmt(func.body)]
    return "\n".join([f"def {func.name}({params}):", *indented(lines)]) + "\n"


def show_stmt(stmt: Stmt) -> str:
    return "\n".join(PlainPrinter().stmt(stmt))


def show_kind(loop: For) -> str:
    """Write the text before `range`: nothing, the loop's kind, or `thread(threadIdx.x)`."""
    axis = f"({loop.kind.value})" if loop.kind.is_bound else ""
    return "" if loop.kind is ForKind.SERIAL else f"{loop.kind}{axis} "


class PlainPrinter(StatementPrinter):
    """A printer that gives each variable and buffer in scope a unique name: the second `i` prints as `i_1`."""

    def __init__(self) -> None:
        super().__init__(PLAIN, lambda what: self.names.get(what, what.name))
        self.names: dict[Var | Buffer, str] = {}
        self.taken: set[str] = set()
        self.buffers: list[str] = []

    def declare(self, var: Var) -> str:
        if var not in self.names:
            self.names[var] = unused_name(var.name, self.taken)
            self.taken.add(self.names[var])
        return self.names[var]

    def enter(self, buffer: Buffer) -> str:
        """Bring a buffer into scope."""
        self.names[buffer] = unused_name(buffer.name, self.buffers)
        self.buffers.append(self.names[buffer])
        return self.names[buffer]

    def allocation(self, buffer: Buffer) -> str:
        return f"{self.enter(buffer)} = alloc({buffer.dtype}{list(buffer.shape)}, {buffer.scope})"

    def loop(self, stmt: For) -> list[str]:
        notes = "".join(f"  # {key} = {value}" for key, value in stmt.annotations)
        heading = f"for {self.declare(stmt.var)} in {show_kind(stmt)}range({stmt.extent}):{notes}"
        return [heading, *self.suite(stmt.body)]

    def alloc(self, stmt: Alloc, last: bool) -> list[str]:
        lines = [self.allocation(stmt.buffer), *self.stmt(stmt.body)]
        self.buffers.pop()  # the name is free again
        return lines

    def realize(self, stmt: BlockRealize) -> list[str]:
        return [f"block {stmt.block.name}:", *indented(self._block(stmt))]

    def _block(self, stmt: BlockRealize) -> Iterator[str]:
        block: Block = stmt.block
        for it, value in zip(block.iters, stmt.values, strict=True):
            text = self.expr(value)
            yield f"{self.declare(it.var)} = {it.kind}({it.extent}, {text})"
        # The predicate uses the loops around the block; a constant true is not worth a line.
        predicate = self.expr(stmt.predicate)
        if predicate != "True":
            yield f"where {predicate}"
        if block.reads:
            yield f"reads {self.regions(block.reads)}"
        yield f"writes {self.regions(block.writes)}"
        notes = [(k, v) for k, v in block.annotations if k not in ("combiner", "reducer")]
        yield from (f"annotation {key} = {value}" for key, value in notes)
        if block.init is not None:
            yield from ["init:", *self.suite(block.init)]
        yield from self.stmt(block.body)
