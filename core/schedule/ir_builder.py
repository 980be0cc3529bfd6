"""`tir.ir_builder`, as in TVM: writes statements one after the other, for the bodies of tensor intrinsics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from pegbox.checks import check_instance
from pegbox.errors import ScheduleError
from pegbox.expr import dtypes
from pegbox.expr.build import add, as_expr, cast
from pegbox.expr.nodes import Buffer, Const, Expr, Load, Var
from pegbox.loops.nodes import Alloc, Evaluate, For, ForKind, If, Stmt, Store, seq
from pegbox.schedule.te.intrinsic import IntrinBuffer, indices_of
from pegbox.shown import value_text

_KINDS = {
    "serial": ForKind.SERIAL,
    "parallel": ForKind.PARALLEL,
    "vectorize": ForKind.VECTORIZED,
    "unroll": ForKind.UNROLLED,
}


class BufferVar:
    """A buffer whose elements are read and assigned: `t[i] = t[i] + 1`."""

    def __init__(self, builder: IRBuilder, buffer: Buffer) -> None:
        self._builder = builder
        self.buffer = buffer

    @property
    def dtype(self) -> str:
        return self.buffer.dtype

    def __getitem__(self, indices: Any) -> Expr:
        return Load(self.buffer, indices_of(self.buffer, indices))

    def __setitem__(self, indices: Any, value: Any) -> None:
        self._builder.emit(Store(self.buffer, indices_of(self.buffer, indices), cast(self.dtype, as_expr(value))))


class IRBuilder:
    """A list of statements under construction; `get` returns them as one."""

    def __init__(self) -> None:
        self._stack: list[list[Stmt]] = [[]]
        self._buffers: list[Buffer] = []

    def emit(self, stmt: Stmt | Expr) -> None:
        """Add a statement, or an expression for its effect."""
        self._stack[-1].append(Evaluate(stmt) if isinstance(stmt, Expr) else stmt)

    @contextmanager
    def for_range(
        self, begin: Any, end: Any, name: str = "i", dtype: str = dtypes.INDEX, kind: str = "serial"
    ) -> Iterator[Expr]:
        """Open a loop: statements emitted inside `with` run for each number from `begin` to `end` - 1."""
        first, last = (dtypes.integer(e.value if isinstance(e, Const) else e) for e in (begin, end))
        if first is None or last is None or last <= first or not isinstance(kind, str) or kind not in _KINDS:
            raise ScheduleError(
                f"for_range({value_text(begin)}, {value_text(end)}, kind={value_text(kind)}): bounds are "
                f"numbers, kinds {', '.join(_KINDS)}"
            )
        var = Var(name)
        self._stack.append([])
        yield add(var, first)
        body = self._stack.pop()
        self.emit(For(var, last - first, seq(*body), _KINDS[kind]))

    @contextmanager
    def if_scope(self, condition: Expr) -> Iterator[None]:
        """Run the statements emitted inside `with` only if the condition holds."""
        self._stack.append([])
        yield
        body = self._stack.pop()
        self.emit(If(condition, seq(*body)))

    def allocate(self, dtype: str, shape: int | Sequence[int], name: str = "buf", scope: str = "local") -> BufferVar:
        """Return a local buffer for the statements."""
        given = shape if isinstance(shape, list | tuple) else [shape]
        extents = tuple(dtypes.integer(extent) or 0 for extent in given)
        if any(extent < 1 for extent in extents):
            raise ScheduleError(
                f"ir_builder: {name} is allocated with the shape {value_text(given)}",
                "extents are numbers, one or more; a program of size variables is made for each set of sizes",
            )
        buffer = Buffer(name, extents, dtype, scope)
        self._buffers.append(buffer)
        return BufferVar(self, buffer)

    def buffer_ptr(self, buffer: IntrinBuffer) -> BufferVar:
        """Return an operand for reading and assigning its elements."""
        wanted = "a buffer that fcompute is given"
        return BufferVar(self, check_instance("buffer_ptr", buffer, IntrinBuffer, wanted, error=ScheduleError).buffer)

    def while_loop(self, condition: object) -> NoReturn:
        """Refuse a loop that ends when a condition fails.

        Raises:
            ScheduleError: always.
        """
        raise ScheduleError(
            f"ir_builder: while_loop({value_text(condition)})",
            "loops have a number of iterations that is known before: for_range, with if_scope inside",
        )

    def pointer(self, content_type: str, name: str = "ptr", scope: str = "") -> NoReturn:
        """Refuse an address without memory.

        Raises:
            ScheduleError: always.
        """
        raise ScheduleError(
            f"ir_builder: pointer({value_text(content_type)}, {value_text(name)})",
            "buffer_ptr gives the memory of an operand, allocate memory of the statement's own",
        )

    def get(self) -> Stmt:
        """Return the emitted statements as one.

        Raises:
            ScheduleError: nothing was emitted.
        """
        if not self._stack[0]:
            raise ScheduleError("ir_builder: nothing was emitted", "emit a statement before get()")
        stmt = seq(*self._stack[0])
        for buffer in reversed(self._buffers):
            stmt = Alloc(buffer, stmt)
        return stmt


def create() -> IRBuilder:
    """Return a new builder."""
    return IRBuilder()
