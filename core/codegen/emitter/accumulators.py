"""Accumulators: vectorized reductions rewritten to keep one partial result per lane throughout the enclosing loops.

    for k in range(64):                            for v in vectorized range(16): p[v] = 0
        for v in vectorized range(16):             for k in range(64):
            s[0] = s[0] + a[k * 16 + v]      =>        for v in vectorized range(16):
                                                           p[v] = p[v] + a[k * 16 + v]
                                                   for v in vectorized range(16): s[0] = s[0] + p[v]

Otherwise every step would reduce across lanes, which takes longer than the work. Unrolled loops in between that are
part of the reduction get separate partial results, so that additions need not wait for each other. The remainder of a
split that does not divide, a vectorized loop after the loop, adds to the same partial results. A schedule permits the
reassociation by vectorizing a reduction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from operator import le

from pegbox.codegen.emitter.reductions import identity
from pegbox.expr import dtypes
from pegbox.expr.build import TRUE, all_of, conjuncts
from pegbox.expr.equal import same
from pegbox.expr.nodes import Binary, BinaryOp, Buffer, Const, Expr, Load, Var
from pegbox.expr.visit import free_vars, substitute
from pegbox.loops.nodes import Alloc, For, ForKind, If, Seq, Stmt, Store, seq
from pegbox.loops.reductions.update import reads, update
from pegbox.loops.visit import children, expressions, map_children, walk

MAX_BYTES = 4096
"""The most bytes of partial results, which registers and the closest cache hold."""
MAX_COPIES = 8
"""The most partial results per element and lane, for loops unrolled in between."""


@dataclass
class Reduction:
    """A store `buf[i] = buf[i] op value` under vectorized loops that `i` does not depend on.

    `path` holds the statements from the loop being rewritten down to the store, both included.
    """

    store: Store
    op: BinaryOp
    value: Expr
    path: tuple[Stmt, ...]

    @property
    def loops(self) -> list[For]:
        return [stmt for stmt in self.path[1:] if isinstance(stmt, For)]


def expand(stmt: Stmt) -> Stmt:
    """Rewrite every vectorized reduction at the outermost loop that allows it."""
    reductions = list(_reductions(stmt, ()))
    if not reductions:
        return stmt
    if isinstance(stmt, Seq):
        return seq(*_expanded(stmt.stmts))
    if isinstance(stmt, For) and stmt.kind.in_order:
        for reduction in reductions:
            result = _rewrite(stmt, reduction, [])
            if result is not None:
                return expand(result)  # there may be other reductions
    return map_children(stmt, expand)


def _expanded(stmts: Sequence[Stmt]) -> Iterator[Stmt]:
    """Rewrite loops together with the remainders that follow them."""
    place = 0
    while place < len(stmts):
        first, place = stmts[place], place + 1
        result, count = _with_rests(first, stmts[place:]) or (expand(first), 0)
        yield result
        place += count


def _with_rests(loop: Stmt, following: Sequence[Stmt]) -> tuple[Stmt, int] | None:
    """Rewrite a loop and the remainders that follow it, and count the statements used; None if there are no remainders.

    Statements in between that do not use the element stay where they are.
    """
    if not following or not isinstance(loop, For) or not loop.kind.in_order:
        return None
    for reduction in _reductions(loop, ()):
        behind = [*takewhile(bool, (_behind(stmt, reduction) for stmt in following))]
        while behind and not isinstance(behind[-1], Reduction):
            behind.pop()
        result = _rewrite(loop, reduction, [each for each in behind if each is not None]) if behind else None
        if result is not None:
            return expand(result), len(behind)
    return None


def _behind(stmt: Stmt, reduction: Reduction) -> Reduction | Stmt | None:
    """Return the remainder of the reduction, or a statement that does not use its buffer; None for other statements."""
    buffer = reduction.store.buffer
    return _rest(stmt, reduction) or (stmt if not _uses(stmt, buffer) else None)


def _rest(stmt: Stmt, reduction: Reduction) -> Reduction | None:
    """Return a statement's reduction if it continues another one in as many lanes or fewer; None otherwise."""
    found = list(_reductions(stmt, ()))
    if len(found) != 1 or sum(not children(each) for each in walk(stmt)) > 1:
        return None
    (rest,) = found
    first, store = reduction.store, rest.store
    same_element = store.buffer is first.buffer and all(map(same, store.indices, first.indices))
    extents = [[lane.extent for lane in _vectorized(stmts)] for stmts in (rest.path, reduction.loops)]
    fits = len(extents[0]) == len(extents[1]) and all(map(le, *extents))
    return rest if same_element and rest.op == reduction.op and fits else None


def _reductions(stmt: Stmt, path: tuple[Stmt, ...]) -> Iterator[Reduction]:
    path = (*path, stmt)
    if isinstance(stmt, Store):
        lanes = {s.var for s in path if isinstance(s, For) and s.kind is ForKind.VECTORIZED}
        if lanes and not lanes & _vars(stmt.indices):
            found = update(stmt)
            if found is not None:
                yield Reduction(stmt, found[0], found[2], path)
    for child in children(stmt):
        yield from _reductions(child, path)


def _vars(exprs: tuple[Expr, ...]) -> set[Var]:
    return {var for expr in exprs for var in free_vars(expr)}


def _rewrite(loop: For, reduction: Reduction, behind: Sequence[Reduction | Stmt]) -> Stmt | None:
    """Put partial results around the loop and the remainders and statements after it; None if that is impossible."""
    store, buffer = reduction.store, reduction.store.buffer
    used = _vars(store.indices)
    loops = reduction.loops
    if loop.var in used or not _is_alone(loop, store) or any(each.kind is ForKind.PARALLEL for each in loops):
        return None
    lanes = _vectorized(loops)
    elements = [each for each in loops if each.var in used]
    copies = _copies([each for each in loops if each.kind is ForKind.UNROLLED and each.var not in used])
    condition = _condition(reduction, {each.var for each in elements}, {each.var for each in loops} | {loop.var})
    dims = [*elements, *copies, *lanes]
    partial = Buffer(f"{buffer.name}_lanes", tuple(each.extent for each in dims), buffer.dtype, "local")
    if condition is None or partial.nbytes > MAX_BYTES or (behind and (elements or condition is not TRUE)):
        return None
    start = _nest(dims, lambda at: Store(partial, at, identity(reduction.op, buffer.dtype)))
    steps = [_step(loop, reduction, partial, dims, [])]
    for each in behind:
        if isinstance(each, Reduction):
            each = _step(each.path[0], each, partial, _vectorized(each.path), copies)
        steps.append(each)
    finish = _finish(reduction, partial, elements, copies, lanes, condition)
    return Alloc(partial, seq(start, *steps, *finish))


def _step(whole: Stmt, reduction: Reduction, partial: Buffer, dims: Sequence[For], copies: Sequence[For]) -> Stmt:
    """Make a reduction add to partial results, with `copies` to the first copy."""
    place = (*(Const(0, dtypes.INDEX) for _ in copies), *(each.var for each in dims))
    return _replace(
        whole, reduction.store, Store(partial, place, Binary(reduction.op, Load(partial, place), reduction.value))
    )


def _vectorized(stmts: Sequence[Stmt]) -> list[For]:
    return [stmt for stmt in stmts if isinstance(stmt, For) and stmt.kind is ForKind.VECTORIZED]


def _is_alone(loop: For, store: Store) -> bool:
    """Decide if no other statement in the loop touches the buffer."""
    return not any(_touches(stmt, store.buffer) for stmt in walk(loop) if stmt is not store)


def _uses(stmt: Stmt, buffer: Buffer) -> bool:
    """Decide if anything in a statement touches the buffer."""
    return any(_touches(each, buffer) for each in walk(stmt))


def _touches(stmt: Stmt, buffer: Buffer) -> bool:
    return getattr(stmt, "buffer", None) is buffer or any(reads(expr, buffer) for expr in expressions(stmt))


def _copies(unrolled: list[For]) -> list[For]:
    """Choose as many of the reduction's innermost unrolled loops as MAX_COPIES allows."""
    chosen: list[For] = []
    total = 1
    for each in reversed(unrolled):
        total *= each.extent
        if total > MAX_COPIES:
            break
        chosen.insert(0, each)
    return chosen


def _condition(reduction: Reduction, elements: set[Var], inner: set[Var]) -> Expr | None:
    """Collect the conditions in between that use only elements and outer loops: they decide if an element exists.

    A condition on the reduction alone is not repeated, since its partial results stay neutral. A condition that mixes
    both cannot be split: the result is None.
    """
    parts = []
    for stmt in reduction.path:
        if isinstance(stmt, If):
            for condition in conjuncts(stmt.condition):
                names = free_vars(condition)
                if not names & (inner - elements):
                    parts.append(condition)
                elif names & elements:
                    return None
    return all_of(parts)


def _nest(loops: list[For], body: Callable[[tuple[Var, ...]], Stmt]) -> Stmt:
    """Put the same loops, with new variables, around `body(variables)`."""
    fresh = [each.var.copy() for each in loops]
    result = body(tuple(fresh))
    for each, var in zip(reversed(loops), reversed(fresh), strict=True):
        result = For(var, each.extent, result, each.kind)
    return result


def _finish(
    reduction: Reduction, partial: Buffer, elements: list[For], copies: list[For], lanes: list[For], condition: Expr
) -> list[Stmt]:
    """Add the copies to the first one, lane by lane, and then the lanes to the element."""
    op, store = reduction.op, reduction.store
    zeros = tuple(Const(0, dtypes.INDEX) for _ in copies)

    def one(at: tuple[Var, ...]) -> Stmt:
        """Write partial[element, 0, lane] op= partial[element, copy, lane] for every copy but the first."""
        middle = at[len(elements) : len(elements) + len(copies)]
        first = (*at[: len(elements)], *zeros, *at[len(elements) + len(copies) :])
        is_other = middle[0] > 0
        for var in middle[1:]:
            is_other = is_other | (var > 0)
        return If(is_other, Store(partial, first, Binary(op, Load(partial, first), Load(partial, at))))

    def last(at: tuple[Var, ...]) -> Stmt:
        renamed: dict[Var, Expr] = {each.var: var for each, var in zip(elements, at, strict=False)}
        place = tuple(substitute(index, renamed) for index in store.indices)
        vectors = at[len(elements) :]
        value = Load(partial, (*at[: len(elements)], *zeros, *vectors))
        total: Stmt = Store(store.buffer, place, Binary(op, Load(store.buffer, place), value))
        test = substitute(condition, renamed)
        return total if test is TRUE else If(test, total)

    combined = [_nest([*elements, *copies, *lanes], one)] if copies else []
    return [*combined, _nest([*elements, *lanes], last)]


def _replace(stmt: Stmt, old: Stmt, new: Stmt) -> Stmt:
    if stmt is old:
        return new
    return map_children(stmt, lambda child: _replace(child, old, new))
