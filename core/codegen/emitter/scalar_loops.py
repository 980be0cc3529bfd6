"""Scalar loops, which the second half of LLVM's optimizer vectorizes or unrolls, and those that it must not vectorize.

That half begins with the vectorization of innermost loops without vector instructions, and unrolls those that it cannot
vectorize, such as sums of floats, which keep their order. If the schedule vectorized all computations, this half
changes almost nothing, but takes as long as the first half, in which LLVM simplifies each function and unrolls short
loops.

Two kinds of loops take LLVM very long, so it is asked not to vectorize them.

**Uniform chains** are sequences of choices that all iterations of a loop repeat.

    for i in range(64):
        y[i] = -inf
        for k in range(16):
            if m[k] > 0:
                y[i] = max(y[i], 1)

LLVM unrolls the short loop. The outer loop then has 16 branches, each followed by a value that is the same for all `i`
but stays in the loop because branches precede it. For each such value, LLVM's loop vectorizer follows all paths through
its operands to decide if all lanes share it (`vputils::isSingleScalar`, LLVM 18 to 22), here 3^16. Vectors would gain
nothing, as all lanes would compute the same. Nested conditions have the same effect in any loop: each value is used
both after the inner condition and after the outer one, and `VPBlendRecipe::usesFirstLaneOnly` follows both, 2^28 paths
for 28 iterations.

**Scattered stores** are stores of neighbouring iterations to elements that are not adjacent.

    for i in parallel(n):
        for j in range(25):
            y[i, j] = a[i] * b[j]

LLVM unrolls the short loop over `j`, and its loop vectorizer may then take the loop over `i`: 64 lanes of bytes make
1,600 stores of one byte each. Its next passes compare all pairs of stores (`MemoryDepChecker`, LLVM 18 to 22), which
takes 15 s. The rows inside such a loop still become vectors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from pegbox.codegen.emitter.frame import NodeForms
from pegbox.codegen.emitter.linear_form import address_form
from pegbox.codegen.emitter.narrow_floats import NARROW
from pegbox.expr import dtypes
from pegbox.expr.nodes import Binary, Buffer, Cast, Const, Expr, Load, Select, Var
from pegbox.expr.visit import children as operands
from pegbox.expr.visit import free_vars, loads
from pegbox.loops.nodes import For, ForKind, Function, If, Stmt, Store
from pegbox.loops.visit import children

MOST_BRANCHES = 512
"""The most branches of a function that the second half sees: its time grows faster than their number, to seconds."""

_MOST_WRITTEN_OUT = 64
"""The most iterations, roughly, that LLVM unrolls in the first half."""

_MOST_OPERATIONS = 12
"""The most operations of uniform chains in a loop that LLVM may vectorize; each multiplies the paths by up to three."""

_MOST_NESTED = 16
"""The most nested conditions on one value in a loop that LLVM may vectorize; each doubles the paths to the first."""

_MOST_PAIRS = 1 << 17
"""The most pairs of accesses to one buffer that LLVM may compare for a loop; that many take 0.7 s."""

_MOST_UNROLLED = 512
"""The most iterations, roughly, of inner loops that LLVM unrolls; it does not vectorize loops around longer ones."""


@dataclass(slots=True, eq=False)
class _Work:
    """A store inside loops; the record is updated on the way from the innermost loop to the outermost.

    Attributes:
        loads: the loads in the stored value. `chooses` is true if there are branches, or selects that may become
            branches.
        conditions: the conditions around the store, inside the loop, innermost first.
        iterations: the iterations of the loops in between. `nested` is the number of conditions around other
            conditions, each counted once per iteration of the loops around it.
    """

    store: Store
    loads: Sequence[Load]
    chooses: bool
    conditions: tuple[Expr, ...] = ()
    iterations: int = 1
    nested: int = 0


class _Inside(NamedTuple):
    """The content of a statement: its stores, a flag for vectors, and the iterations of loops that are not unrolled."""

    work: Sequence[_Work] = ()
    vectors: bool = False
    rolled: int = 1


class ScalarLoops:
    """The scalar loops of a function: `for_llvm` is true if LLVM has one to vectorize or unroll; `not_vectorized` holds
    those that it must not vectorize. The emitter unrolls the serial loops in `written_out`.
    """

    def __init__(self, func: Function, vector_bits: int, written_out: Set[Var]) -> None:
        self.for_llvm = False
        self.not_vectorized: set[Var] = set()
        self._outputs, self._bits, self._written_out = func.outputs, vector_bits, written_out
        self._addresses = NodeForms[Load | Store](lambda access: address_form(access, lambda _: 0))
        self._visit(func.body, False)

    def _visit(self, stmt: Stmt, in_vectors: bool) -> _Inside:
        if isinstance(stmt, Store):
            value = stmt.value
            chooses = not all(map(_is_plain, _values(value)))
            return _Inside([_Work(stmt, list(loads(value)), chooses)], vectors=bool(dtypes.lanes(value.dtype)))
        is_vector = isinstance(stmt, For) and stmt.kind is ForKind.VECTORIZED and stmt.extent > 1
        parts = [self._visit(child, in_vectors or is_vector) for child in children(stmt)]
        work = [each for part in parts for each in part.work]
        vectors, rolled = is_vector or any(part.vectors for part in parts), max([1, *(part.rolled for part in parts)])
        if isinstance(stmt, If):
            for each in work:
                each.nested += bool(each.conditions)
                each.conditions, each.chooses = (*each.conditions, stmt.condition), True
        if not isinstance(stmt, For) or stmt.extent <= 1:
            return _Inside(work, vectors, rolled)
        if stmt.kind in (ForKind.SERIAL, ForKind.PARALLEL) and (
            _has_uniform_chain(stmt.var, work) or self._scattered_pairs(stmt.var, work) > _MOST_PAIRS
        ):
            self.not_vectorized.add(stmt.var)
        if stmt.kind not in (ForKind.UNROLLED, ForKind.VECTORIZED) and stmt.var not in self._written_out:
            rolled *= stmt.extent
            if not (self.for_llvm or vectors or in_vectors):
                self.for_llvm = any(self._is_for_llvm(each, stmt.var, rolled) for each in work)
        for each in work:
            each.iterations *= stmt.extent
            each.nested *= stmt.extent
        return _Inside(work, vectors, rolled)

    def _scattered_pairs(self, var: Var, work: Sequence[_Work]) -> int:
        """Count the pairs of a scattered store and another access that vectorizing the loop over `var` would create."""
        inside = [each for each in work if each.iterations <= _MOST_UNROLLED]
        buffers = {each.store.buffer for each in inside if self._is_apart(each.store, var)}
        if not buffers:
            return 0
        accesses: list[tuple[Load | Store, int]] = [(each.store, each.iterations) for each in inside]
        accesses += [(load, each.iterations) for each in inside for load in each.loads]
        lanes = self._bits // (8 * max(dtypes.nbytes(access.buffer.dtype) for access, _ in accesses))
        scattered: Counter[Buffer] = Counter()
        others: Counter[Buffer] = Counter()
        for access, iterations in accesses:
            if access.buffer in buffers:
                apart = self._is_apart(access, var)
                count = scattered if apart and isinstance(access, Store) else others
                count[access.buffer] += iterations * (lanes if apart else 1)
        return sum(n * (n + others[buffer]) for buffer, n in scattered.items())

    def _is_apart(self, access: Load | Store, var: Var) -> bool:
        return any(term is var and abs(coef) > 1 for term, coef in self._addresses(access).terms)

    def _is_for_llvm(self, work: _Work, var: Var, iterations: int) -> bool:
        """Decide if LLVM vectorizes or unrolls a loop over the work. Short sums into one element are unrolled by then.

        Copies to intermediate buffers count only if they have a condition and run along rows: strided copies stay
        scalar, and copies without a condition have become calls of memcpy.
        """
        store = work.store
        if store.buffer in self._outputs or not _is_copy(store.value):
            return iterations > _MOST_WRITTEN_OUT or _uses(store.indices, var)
        chosen = (store.value.cond,) if isinstance(store.value, Select) else ()
        along = (store.indices, *(load.indices for load in work.loads))
        return _uses((*work.conditions, *chosen), var) and all(
            _uses(indices[-1:], var) and not _uses(indices[:-1], var) for indices in along
        )


def _is_copy(value: Expr) -> bool:
    """Decide if the value is a load or a number, or a choice between such values, as in padding."""
    if isinstance(value, Select):
        return _is_copy(value.a) and _is_copy(value.b)
    return isinstance(value, Load | Const)


def _uses(exprs: Iterable[Expr], var: Var) -> bool:
    return any(var in free_vars(expr) for expr in exprs)


def _has_uniform_chain(var: Var, work: Sequence[_Work]) -> bool:
    """Decide if LLVM's vectorizer would follow too many paths in the loop over `var`."""
    if any(each.chooses for each in work) and _uniform_operations(var, work) > _MOST_OPERATIONS:
        return True
    nested = [each for each in work if each.nested]
    read = {load.buffer for each in nested for load in each.loads}
    total: Counter[Buffer] = Counter()
    for each in nested:
        if each.store.buffer in read:
            total[each.store.buffer] += each.nested
    return max(total.values(), default=0) > _MOST_NESTED


def _is_plain(node: Expr) -> bool:
    match node:
        case Binary(op):
            return op in ("add", "sub", "mul", "div") and node.dtype not in NARROW
        case Cast(_, a):
            return node.dtype not in NARROW and a.dtype not in NARROW
        case _:
            return isinstance(node, Const | Var | Load)


def _uniform_operations(var: Var, work: Sequence[_Work]) -> int:
    """Count the operations with the same result in all iterations of the loop over `var`, once per inner iteration."""
    written = {each.store.buffer for each in work}
    varying: set[Buffer] = set()
    while more := {
        each.store.buffer
        for each in work
        if each.store.buffer not in varying and _varies((each.store.value, *each.conditions), var, varying, written)
    }:
        varying |= more
    return sum(
        each.iterations * sum(_count(expr) for expr in (each.store.value, *each.conditions))
        for each in work
        if each.store.buffer not in varying
    )


def _varies(exprs: Iterable[Expr], var: Var, varying: Set[Buffer], written: Set[Buffer]) -> bool:
    """Decide if an expression differs between iterations.

    Written buffers are assumed to be read at the element written.
    """
    for expr in exprs:
        if isinstance(expr, Load) and expr.buffer in written:
            if expr.buffer in varying:
                return True
        elif expr is var or _varies(operands(expr), var, varying, written):
            return True
    return False


def _values(expr: Expr) -> Iterable[Expr]:
    """Yield the nodes of an expression, except those in its indices."""
    yield expr
    if not isinstance(expr, Load):
        for operand in operands(expr):
            yield from _values(operand)


def _count(expr: Expr) -> int:
    """Count operations; those rounded to 16 bits count three times, since rounding reads its operand several times."""
    nodes = [node for node in _values(expr) if not isinstance(node, Const | Var | Load)]
    return sum(3 if node.dtype in NARROW else 1 for node in nodes)
