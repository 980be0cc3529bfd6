"""The combiner of a reduction block: recognised from its update, or stored with it for a user's reducer.

A block's update is `out = combine(out, sources)`. Taking a reduction apart (rfactor) needs the three separately. Blocks
of sum, prod, max and min, and argmax and argmin as TVM's users write them, are recognised by their form, so that
hand-written ones are as good as others. For any other reducer the block keeps the combination, as nested tuples, in its
annotation "reducer" (see `pegbox.loops.reductions.combiner_text`), which is printed and read back with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from pegbox.compute.reducer import MAX, MIN, PROD, SUM, Reducer
from pegbox.expr.build import TRUE, ZERO, compare, logical_and, logical_or, maximum, minimum, select
from pegbox.expr.equal import same
from pegbox.expr.nodes import Buffer, Expr, Load, Var
from pegbox.expr.unify import unify
from pegbox.expr.visit import free_vars, loads, rewrite, substitute
from pegbox.loops.nodes import Alloc, Annotation, Block, If, Seq, Stmt, Store, seq
from pegbox.loops.reductions.combiner_text import decode, encode

Values = tuple[Expr, ...]

PLAIN = (SUM, PROD, MAX, MIN)
_SIGNS: tuple[tuple[str, Literal["gt", "lt"]], ...] = (("argmax", "gt"), ("argmin", "lt"))


def _extreme(name: str, better: Literal["gt", "lt"], *, strict: bool, by_index: bool, choose: bool) -> Reducer:
    """Make argmax or argmin of (index, value) pairs, of which the one with the better value stays.

    Args:
        better: "gt" or "lt".
        strict: the old pair stays only where its value is strictly better.
        by_index: of equal values, that with the smaller index stays.
        choose: the value is chosen by the same test as the index, instead of by `max` or `min`.
    """

    def combine(a: Sequence[Expr], b: Sequence[Expr]) -> Values:
        ahead = compare(better if strict or by_index else "ge" if better == "gt" else "le", a[1], b[1])
        if by_index:
            tie = logical_and(compare("eq", a[1], b[1]), compare("lt", a[0], b[0]))
            ahead = logical_or(ahead, tie)
        best = maximum(a[1], b[1]) if better == "gt" else minimum(a[1], b[1])
        return select(ahead, a[0], b[0]), select(ahead, a[1], b[1]) if choose else best

    return Reducer(name, combine, lambda types: ())


RECOGNIZED: tuple[tuple[Reducer, int], ...] = (
    *((reducer, 1) for reducer in PLAIN),
    *(
        (_extreme(name, better, strict=strict, by_index=by_index, choose=choose), 2)
        for name, better in _SIGNS
        for strict, by_index in ((False, False), (True, False), (True, True))
        for choose in (False, True)
    ),
)

# The note of a reduction whose steps keep their order.
ORDERED: Annotation = ("ordered", True)

# Taking the start in several times makes no difference to these, so that they may start anywhere.
IDEMPOTENT = frozenset({"max", "min", "argmax", "argmin"})


@dataclass(frozen=True, slots=True)
class Combination:
    """An update `buffers[indices] = combine(buffers[indices], sources)` where `condition` holds, from `identity` on.

    `results` are the combined values over the variables `old` (accumulated) and `new`.
    """

    name: str
    buffers: tuple[Buffer, ...]
    indices: tuple[Values, ...]
    sources: Values
    condition: Expr
    identity: Values
    old: tuple[Var, ...]
    new: tuple[Var, ...]
    results: Values

    def combine(self, old: Sequence[Expr], new: Sequence[Expr]) -> Values:
        """Return the combination of two tuples of values."""
        mapping = dict(zip((*self.old, *self.new), (*old, *new), strict=True))
        return tuple(substitute(result, mapping) for result in self.results)


def combiner_of(block: Block) -> str | None:
    """Return the name of a reduction's combiner ("sum", "max", "argmax" ...), None if it is not known."""
    noted = next((str(value) for key, value in block.annotations if key == "combiner"), None)
    if noted is not None:
        return noted
    found = combination_of(block)
    return None if found is None else found.name


def reducer_notes(reducer: Reducer, dtypes: tuple[str, ...]) -> tuple[Annotation, ...]:
    """Return the annotations that keep a reducer with its block."""
    name: Annotation = ("combiner", reducer.name)
    if any(reducer is plain for plain in PLAIN):
        return (name,)
    coded = _encoded(reducer, dtypes)
    if reducer.ordered:
        return (name, ORDERED) if coded is None else (name, ("reducer", (reducer.name, coded)), ORDERED)
    if coded is None or (reducer.name, coded) in _recognized_texts():
        return (name,)
    return (name, ("reducer", (reducer.name, coded)))


@cache
def _recognized_texts() -> frozenset[tuple[str, Any]]:
    """List the combinations that are recognised as they are and need not be kept."""
    return frozenset((r.name, _encoded(r, ["int64"] * arity)) for r, arity in RECOGNIZED[len(PLAIN) :])


def _encoded(reducer: Reducer, dtypes: Sequence[str]) -> tuple[Any, ...] | None:
    old, new = _variables("a", dtypes), _variables("b", dtypes)
    return encode(reducer.combine(old, new), {v: v.name for v in (*old, *new)})


def combination_of(block: Block) -> Combination | None:
    """Recognise the combination of a reduction block; None without an init, or for an unknown combiner."""
    if block.init is None or not block.is_reduction:
        return None
    condition, body = (block.body.condition, block.body.then) if isinstance(block.body, If) else (TRUE, block.body)
    buffers = tuple(dict.fromkeys(region.buffer for region in block.writes))
    updated, started = _outcome(body), _outcome(block.init)
    if updated is None or started is None or any(b not in updated or b not in started for b in buffers):
        return None
    indices = tuple(updated[b][0] for b in buffers)
    if any(not all(map(same, started[b][0], index)) for b, index in zip(buffers, indices, strict=True)):
        return None
    identity = tuple(started[b][1] for b in buffers)
    held = tuple(Load(b, index) for b, index in zip(buffers, indices, strict=True))
    values = tuple(updated[b][1] for b in buffers)
    for name, old, new, results in _candidates(block, tuple(b.dtype for b in buffers)):
        sources = _sources(values, held, old, new, results)
        if sources is not None and _starts(name, identity, block):
            return Combination(name, buffers, indices, sources, condition, identity, old, new, results)
    return None


def store_all(buffers: Sequence[Buffer], indices: Sequence[Values], values: Values) -> Stmt:
    """Store one value in each buffer; several change at once, through temporaries."""
    if len(buffers) == 1:
        return Store(buffers[0], indices[0], values[0])
    held = [Buffer(f"{b.name}_new", (1,), b.dtype, "local") for b in buffers]
    stmt = seq(
        *(Store(h, (ZERO,), value) for h, value in zip(held, values, strict=True)),
        *(Store(b, at, Load(h, (ZERO,))) for b, at, h in zip(buffers, indices, held, strict=True)),
    )
    for buffer in reversed(held):
        stmt = Alloc(buffer, stmt)
    return stmt


def _variables(letter: str, dtypes: Sequence[str]) -> tuple[Var, ...]:
    return tuple(Var(f"{letter}{n}", dtype) for n, dtype in enumerate(dtypes))


def _candidates(
    block: Block, dtypes: tuple[str, ...]
) -> Iterator[tuple[str, tuple[Var, ...], tuple[Var, ...], Values]]:
    """Yield the combinations that the block may have: the one that it keeps, else the built-in ones."""
    old, new = _variables("a", dtypes), _variables("b", dtypes)
    noted = next((value for key, value in block.annotations if key == "reducer"), None)
    if noted is not None:
        name, coded = noted
        results = decode(coded, {v.name: v for v in (*old, *new)})
        if results is not None and tuple(r.dtype for r in results) == dtypes:
            yield str(name), old, new, results
        return
    for reducer, arity in RECOGNIZED:
        if arity == len(dtypes) and "bool" not in dtypes:
            yield reducer.name, old, new, reducer.combine(old, new)


def _sources(values: Values, held: Values, old: Sequence[Var], new: Sequence[Var], results: Values) -> Values | None:
    """Find the values combined with the `held` ones, if the combined `values` have the form of `results`."""
    fixed: dict[Var, Expr] = dict(zip(old, held, strict=True))
    for found in unify(results, values, fixed, frozenset(new)):
        sources = tuple(found.get(v) for v in new)
        own = {h.buffer for h in held if isinstance(h, Load)}
        plain = [s for s in sources if s is not None and not any(load.buffer in own for load in loads(s))]
        if len(plain) == len(new):
            return tuple(plain)
    return None


def _starts(name: str, identity: Values, block: Block) -> bool:
    """Check if the reduction starts at a value that changes nothing, however often it is combined."""
    if any(free_vars(value) or any(True for _ in loads(value)) for value in identity):
        return False
    if any(key == "reducer" for key, _ in block.annotations) or name in IDEMPOTENT:
        return True
    reducer = next(r for r, _ in RECOGNIZED if r.name == name)
    return all(map(same, identity, reducer.identity(tuple(v.dtype for v in identity))))


def _outcome(stmt: Stmt) -> dict[Buffer, tuple[Values, Expr]] | None:
    """Evaluate straight-line stores: the final value of each buffer in terms of earlier ones: (indices, value)."""
    state: dict[Buffer, tuple[Values, Expr]] = {}

    def now(expr: Expr) -> Expr:
        def leaf(e: Expr) -> Expr | None:
            if isinstance(e, Load) and e.buffer in state:
                indices, value = state[e.buffer]
                if type(e) is not Load or not all(map(same, indices, e.indices)):
                    raise LookupError
                return value
            return None

        return rewrite(expr, leaf)

    def run(s: Stmt) -> None:
        if isinstance(s, Seq):
            for each in s.stmts:
                run(each)
        elif isinstance(s, Alloc):
            run(s.body)
        elif isinstance(s, Store) and (s.buffer not in state or all(map(same, state[s.buffer][0], s.indices))):
            state[s.buffer] = (s.indices, now(s.value))
        else:
            raise LookupError

    try:
        run(stmt)
    except LookupError:
        return None
    return state
