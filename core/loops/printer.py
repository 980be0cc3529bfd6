"""Programs as text: what `print(pegbox.lower(...))` shows and what golden files hold."""

from __future__ import annotations

from collections.abc import Iterator

from pegbox.expr.low_level import stored_box
from pegbox.expr.nodes import Buffer, Expr, Var
from pegbox.expr.printer import show, unused_name
from pegbox.loops.access.region import box
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
    thread_tag,
)

_INDENT = "    "


class _Names:
    """Gives each variable a name of its own: the second `i` of a program prints as `i_1`; likewise buffers in scope."""

    def __init__(self) -> None:
        self.names: dict[Var | Buffer, str] = {}
        self.taken: set[str] = set()
        self.buffers: list[str] = []

    def declare(self, var: Var) -> str:
        if var not in self.names:
            self.names[var] = unused_name(var.name, self.taken)
            self.taken.add(self.names[var])
        return self.names[var]

    def enter(self, buffer: Buffer) -> str:
        """A buffer comes into scope."""
        self.names[buffer] = unused_name(buffer.name, self.buffers)
        self.buffers.append(self.names[buffer])
        return self.names[buffer]

    def leave(self) -> None:
        """The buffer that came last goes out of scope; its name is free again."""
        self.buffers.pop()

    def buffer(self, buffer: Buffer) -> str:
        return self.names.get(buffer, buffer.name)

    def expr(self, expr: Expr) -> str:
        return show(expr, self.names)

    def region(self, region: Region) -> str:
        parts = (
            self.expr(lo) if extent == 1 else f"{self.expr(lo)}:{self.expr(lo + extent)}" for lo, extent in region.box
        )
        return f"{self.buffer(region.buffer)}[{', '.join(parts)}]"


def show_function(func: Function) -> str:
    """The whole function, one statement a line."""
    names = _Names()
    params = ", ".join(f"{names.enter(b)}: {b.dtype}{list(b.shape)}" for b in func.params)
    lines = [f"def {func.name}({params}):"]
    lines += [f"{_INDENT}{names.enter(b)} = alloc({b.dtype}{list(b.shape)}, {b.scope})" for b in func.allocs]
    lines += (_INDENT + line for line in _stmt(func.body, names))
    return "\n".join(lines) + "\n"


def show_stmt(stmt: Stmt) -> str:
    return "\n".join(_stmt(stmt, _Names()))


def show_kind(loop: For) -> str:
    """What stands before `range`: nothing, the loop's kind, or `thread(threadIdx.x)`."""
    if loop.kind is ForKind.SERIAL:
        return ""
    return f"thread({thread_tag(loop)}) " if loop.kind is ForKind.THREAD else f"{loop.kind} "


def _stmt(stmt: Stmt, names: _Names) -> Iterator[str]:
    match stmt:
        case For():
            notes = "".join(f"  # {key} = {value}" for key, value in stmt.annotations if key != "thread")
            yield f"for {names.declare(stmt.var)} in {show_kind(stmt)}range({stmt.extent}):{notes}"
            yield from _indented(stmt.body, names)
        case Seq(stmts):
            for each in stmts:
                yield from _stmt(each, names)
        case If(condition, then):
            yield f"if {names.expr(condition)}:"
            yield from _indented(then, names)
        case Store(buffer, indices, value):
            place = names.region(box(buffer, indices, stored_box(indices, value)))
            yield f"{place} = {names.expr(value)}"
        case Evaluate(expr):
            yield names.expr(expr)
        case Alloc(buffer, body):
            yield f"{names.enter(buffer)} = alloc({buffer.dtype}{list(buffer.shape)}, {buffer.scope})"
            yield from _stmt(body, names)
            names.leave()
        case BlockRealize():
            yield from _realize(stmt, names)
        case _:
            raise TypeError(f"unknown statement {type(stmt).__name__}")


def _indented(stmt: Stmt, names: _Names) -> Iterator[str]:
    return (_INDENT + line for line in _stmt(stmt, names))


def _realize(stmt: BlockRealize, names: _Names) -> Iterator[str]:
    block: Block = stmt.block
    yield f"block {block.name}:"
    for it, value in zip(block.iters, stmt.values, strict=True):
        text = names.expr(value)
        yield f"{_INDENT}{names.declare(it.var)} = {it.kind}({it.extent}, {text})"
    # The predicate speaks of the loops around the block; a constant true is not worth a line.
    predicate = names.expr(stmt.predicate)
    if predicate != "True":
        yield f"{_INDENT}where {predicate}"
    if block.reads:
        yield f"{_INDENT}reads {', '.join(map(names.region, block.reads))}"
    yield f"{_INDENT}writes {', '.join(map(names.region, block.writes))}"
    notes = [(k, v) for k, v in block.annotations if k not in ("combiner", "reducer")]
    yield from (f"{_INDENT}annotation {key} = {value}" for key, value in notes)
    if block.init is not None:
        yield f"{_INDENT}init:"
        yield from (_INDENT + line for line in _indented(block.init, names))
    yield from (_INDENT + line for line in _stmt(block.body, names))
