"""Nontemporal stores: under `pragma nontemporal`, rows of a result too large for the caches bypass them.

An ordinary store reads the line first. A nontemporal one does not, but it must be a vector at a multiple of its size,
and all of a line must be written at once. A row may begin anywhere in a line, so its vectors are shifted to the next
line, by a number known only when the kernel runs. The parts of lines at both ends are peeled and stored under masks.
Their lines are prefetched at the beginning of the row, since all later stores wait for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from pegbox.codegen.emitter import memory
from pegbox.codegen.emitter.expressions import address
from pegbox.codegen.emitter.frame import Frame
from pegbox.codegen.emitter.function_text import Level
from pegbox.codegen.emitter.lanes import Chunk, Lanes
from pegbox.expr import nbytes
from pegbox.expr.build import add, index, mul, sub
from pegbox.expr.low_level import PREFETCH
from pegbox.expr.nodes import Call, Compare, Expr, Load, Var
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import children as operands
from pegbox.expr.visit import free_vars, loads
from pegbox.loops.nodes import Evaluate, For, ForKind, Function, If, Seq, Stmt, Store, seq
from pegbox.loops.passes.prefetch import LINE
from pegbox.loops.visit import children, expressions, substitute_vars

PRAGMA = "pragma_nontemporal"
_FEWEST = 4
"""The fewest iterations of a loop with nontemporal stores: in shorter ones, the ends cost more than the stores save."""
_AHEAD = 4096
"""The bytes of rows that are computed while memory answers: ends of rows are prefetched about this far ahead."""


@dataclass(frozen=True)
class Row:
    """A serial loop that stores a row in one vectorized loop.

    Attributes:
        loop: the serial loop.
        vectors: the vectorized loop.
        store: the store in it.
        shift: the variable for the number of elements before the first whole line.
        register: the register that holds that number.
        level: the loop that defines the register.
    """

    loop: For
    vectors: For
    store: Store
    shift: Var
    register: str
    level: Level

    @property
    def line(self) -> int:
        """The number of elements in a line."""
        return LINE // nbytes(self.store.buffer.dtype)

    @cached_property
    def main(self) -> For:
        """The loop with shifted lanes."""
        *hints, _ = _parts(self.loop.body)
        return self.loop.with_body(seq(*hints, self._lanes(0, self.vectors.extent)))

    @property
    def head(self) -> Stmt:
        """The store of the elements before the first whole line."""
        return self._lanes(-self.line, self.line, lambda lane: Compare("ge", lane, self._start))

    @property
    def last(self) -> Stmt:
        """The store of the last iteration's whole lines."""
        return self._lanes(0, self.vectors.extent - self.line)

    @property
    def tail(self) -> Stmt:
        """The store of the elements after the last whole line."""
        first = self.vectors.extent - self.line
        return self._lanes(first, self.line, lambda lane: Compare("lt", lane, self._start))

    @property
    def _start(self) -> Expr:
        """The place in a line where a misaligned row begins; the row ends there, too."""
        return sub(index(self.line), self.shift)

    def _lanes(self, first: int, count: int, is_live: Callable[[Var], Expr] | None = None) -> Stmt:
        """Make a vectorized loop over shifted lanes."""
        lane = Var(self.vectors.var.name)
        body: Stmt = substitute_vars(self.store, {self.vectors.var: add(lane, add(index(first), self.shift))})
        body = body if is_live is None else If(is_live(lane), body)
        return For(lane, count, body, ForKind.VECTORIZED) if count else seq()


def row(frame: Frame, loop: For, function: Function) -> Row | None:
    """Find the row that a loop with the pragma stores, and prefetch its ends; None if its stores must be ordinary."""
    if (PRAGMA, True) not in loop.annotations or loop.extent < _FEWEST:
        return None
    *hints, vectors = _parts(loop.body)
    if not all(map(_is_hint, hints)) or not isinstance(vectors, For) or vectors.kind is not ForKind.VECTORIZED:
        return None
    store = vectors.body
    if not isinstance(store, Store) or not _is_nontemporal(frame, loop, vectors, store, function):
        return None
    frame.env[loop.var] = 0
    where = address(frame, store, Chunk(Lanes(1, {vectors.var: (0,)}), None))
    del frame.env[loop.var]
    start = memory.pointer(frame, store.buffer, where.terms, where.const)
    level = frame.registers.home.get(start)
    if where.vector is not None or level is None:
        return None
    bits = frame.at(level, f"ptrtoint ptr {start} to i64")
    missing = frame.at(level, f"and i64 {frame.at(level, f'sub i64 0, {bits}')}, {LINE - 1}")
    size = nbytes(store.buffer.dtype)
    register = frame.at(level, f"lshr i64 {missing}, {size.bit_length() - 1}")
    _prefetch_ends(frame, level, start, missing, size, _lengths(frame, loop, vectors, store))
    return Row(loop, vectors, store, Var("shift"), register, level)


def _lengths(frame: Frame, loop: For, vectors: For, store: Store) -> tuple[int, int, int]:
    """Count the elements that the loop stores, the following ones of another loop, and all up to the next row."""
    end = loop.extent * vectors.extent
    pitch = min((coef for _, coef in frame.addresses(store).terms if coef >= end), default=end)
    return end, pitch - end if pitch - end < vectors.extent else 0, pitch


def _prefetch_ends(
    frame: Frame, level: Level, start: str, missing: str, size: int, lengths: tuple[int, int, int]
) -> None:
    """Prefetch the first line of a row, and the lines from the end of its loop to the end of the row.

    If rows are short, memory takes longer than a row, so lines of a later row are prefetched. In rows that begin at a
    line's start, the loop's first and last lines are whole. A nontemporal store waits for a line that is on its way
    into the caches, so a line of the stack is prefetched instead.
    """
    end, rest, pitch = (length * size for length in lengths)
    later = pitch * ((_AHEAD - 1) // pitch)
    is_misaligned = frame.at(level, f"icmp ne i64 {missing}, 0")
    other = frame.text.fresh("line")
    frame.text.allocas.append(f"  {other} = alloca i8")
    for place in (0, *range(end - 1, end + rest - 1, LINE), end + rest - 1):
        at = frame.at(level, f"getelementptr i8, ptr {start}, i64 {later + place}")
        if place < end and pitch % LINE == 0:
            at = frame.at(level, f"select i1 {is_misaligned}, ptr {at}, ptr {other}")
        numbers = ("i32", "1"), ("i32", "3"), ("i32", "1")
        level.hoisted.append("  " + frame.module.call("@llvm.prefetch.p0", "void", ("ptr", at), *numbers))


def _parts(stmt: Stmt) -> tuple[Stmt, ...]:
    return stmt.stmts if isinstance(stmt, Seq) else (stmt,)


def _is_hint(stmt: Stmt) -> bool:
    """Decide if a statement does nothing but prefetch."""
    if isinstance(stmt, Evaluate):
        return isinstance(stmt.expr, Call) and stmt.expr.name == PREFETCH
    return isinstance(stmt, For | Seq) and all(map(_is_hint, children(stmt)))


def _is_nontemporal(frame: Frame, loop: For, vectors: For, store: Store, function: Function) -> bool:
    """Decide if the store writes whole lines, one after the other, of a parameter that its value does not read."""
    buffer = store.buffer
    if buffer not in function.params or buffer.dtype == "bool":
        return False
    if any(load.buffer is buffer for expr in expressions(store) for load in loads(expr)):
        return False
    place = Var("place")
    along = substitute_vars(store, {vectors.var: sub(place, mul(loop.var, vectors.extent))})
    assert isinstance(along, Store)
    form = frame.addresses(along)
    terms = dict(form.terms)
    is_row = terms.get(place) == 1 and loop.var not in terms
    is_row = is_row and not any({place, loop.var} & free_vars(atom.expr) for atom, _ in form.atoms)
    # A shifted lane may belong to the next iteration, so its value must not depend on the iteration.
    can_shift = not _depends(frame, along.value, loop.var)
    return is_row and can_shift and vectors.extent * nbytes(buffer.dtype) % LINE == 0


def _depends(frame: Frame, expr: Expr, var: Var) -> bool:
    """Decide if an expression depends on a variable after simplification; a load depends on it through its address."""
    if var not in free_vars(simplify(expr, {})):
        return False
    if not isinstance(expr, Load):
        return isinstance(expr, Var) or any(_depends(frame, part, var) for part in operands(expr))
    form = frame.addresses(expr)
    return var in dict(form.terms) or any(var in free_vars(atom.expr) for atom, _ in form.atoms)


def finish(frame: Frame) -> None:
    """Emit a fence after nontemporal stores, which x86 may otherwise delay past later stores."""
    if frame.has_nontemporal and frame.module.target.architecture == "x86_64":
        frame.text.effect(frame.module.call("@llvm.x86.sse.sfence", "void"))
