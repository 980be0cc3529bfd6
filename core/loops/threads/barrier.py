"""Barriers: loops over threads are cut at the places where the threads wait for each other.

    for tx in thread range(4):                   for tx in thread range(4):
        S[tx] = A[tx]                                S[tx] = A[tx]
        B[tx] = S[3 - tx]                        for tx in thread range(4):
                                                     B[tx] = S[3 - tx]

On a GPU a barrier is between a write to shared memory and the reads of other threads. Here each step that writes a
buffer of several threads gets its own loops over the threads, so that the result can be read loop by loop (see
`pegbox.loops.kind`). A program is refused if it cannot be shown that the threads do not conflict: a step may write only
elements that no other thread touches in the same step. (The cuts are those of MCUDA; see
`pegbox.loops.threads.cooperation`.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pegbox.expr.bounds import Ranges, linear_bounds
from pegbox.expr.nodes import Buffer, Expr, Var
from pegbox.expr.visit import free_vars
from pegbox.loops.access.access import Access, accesses
from pegbox.loops.access.interval import SymbolicInterval, interval, relaxation, tested_ranges
from pegbox.loops.access.private_loops import private_loops
from pegbox.loops.kind import is_global
from pegbox.loops.nodes import Alloc, BlockRealize, Evaluate, For, Function, If, Region, Stmt, Store
from pegbox.loops.refusal import Refusal
from pegbox.loops.threads.cooperation import Piece, ThreadNest, is_plain, is_pure, tops
from pegbox.loops.visit import children, expressions, loop_ranges, only_reduces, path_to, walk, walk_nest

_REMEDY = "write what each step makes into a buffer of its own, in a block of its own"


class _Uncut(Exception):
    """The reason why a nest cannot be cut, and the remedy."""


def cut_at_barriers(func: Function) -> Function | Refusal:
    """Give each step between two barriers a loop over the threads, if threads share memory.

    A refusal gives the reason that the result is not provably that of the threads.
    """
    tried: set[Var] = set()
    conflicts = thread_conflicts(func)
    place = tuple(buffer.name for buffer in conflicts)[:1]
    while conflicts and (top := next(tops(func.body, tried), None)) is not None:
        tried.add(top.var)
        try:
            cut = _Barriers(func, top).done()
        except _Uncut as error:
            reason, remedy = error.args
            return Refusal(reason, remedy, place)
        if cut is not None:
            tried |= loop_ranges(cut.body).keys() - loop_ranges(func.body).keys()
            func = cut
            conflicts = thread_conflicts(func)
    for buffer, loop in conflicts.items():
        where = "outside conditions" if buffer in func.allocs else "and make them with T.alloc_buffer"
        return Refusal(
            f"threads of {loop.var.name} touch elements of {buffer.name} that others write, and no barrier can be put "
            "in between",
            f"{_REMEDY}, {where}",
            place,
        )
    return func


def waiting_remedy(buffer: Buffer, loop: For) -> str:
    """Return the remedy for a bound loop whose iterations read elements of a buffer that others wrote."""
    second = "let a second loop over the blocks read what others have written"
    if not loop.kind.waits:
        return second
    if loop.kind.shares(buffer.scope) and not is_global(buffer.scope):
        return f"read what threads of the same block have written; blocks do not wait for each other: {second}"
    return f'let the threads share it, with scope="shared": they wait for each other then; blocks do not: {second}'


class _Barriers(ThreadNest):
    """A nest below `top` in which threads use some buffers together."""

    def __init__(self, func: Function, top: For) -> None:
        super().__init__(func, top)
        self.nest = next(nest for nest in nests(func) if nest.top is top)
        self.conflicts = frozenset(self.nest.conflicts(func))

    def _is_apart(self, piece: Piece) -> bool:
        return super()._is_apart(piece) or bool(piece.writes() & self.conflicts)

    def _depends(self, piece: Piece, other: Piece) -> bool:
        # All threads see the same shared buffer between barriers.
        same = {b for b in self.conflicts if all(loop.kind.shares(b.scope) for loop in piece.threads)}
        return bool((piece.reads() | piece.writes()) & (other.writes() - same))

    def done(self) -> Function | None:
        """Cut the nest; None if no thread waits in it."""
        if not self.conflicts:
            return None
        for node in (use.stmt for use in self.nest.uses if not isinstance(use.stmt, BlockRealize)):
            raise self._fault(f"the statement {str(node).strip()} is outside all blocks", "put it into a block")
        for alloc in (node for node in walk_nest(self.top) if isinstance(node, Alloc)):
            raise self._fault(f"{alloc.buffer.name} is made inside it", "use T.alloc_buffer, outside all loops")
        return super().done()

    def _fault(self, problem: str, remedy: str = _REMEDY) -> _Uncut:
        names = ", ".join(sorted(b.name for b in self.conflicts if self.nest.users(b)))
        return _Uncut(
            f"the threads of {self.top.var.name} use {names} together and wait for each other, but {problem}", remedy
        )

    def _copies(self) -> dict[Buffer, tuple[For, ...]]:
        found: dict[Buffer, tuple[For, ...]] = {}
        for buffer, inside, private in self._written():
            if buffer in self.conflicts:
                for use in self.nest.users(buffer):
                    if use.stores(buffer):
                        self._check_step(buffer, use, self.of_block[id(use.stmt)])
            elif private and self._in_one_segment(inside):
                continue
            loops = self._copied(buffer, private)
            if loops:
                if not all(map(is_plain, inside)):
                    raise self._fault(f"{buffer.name} is touched by more than loads and stores")
                if not private or not self._each_has_own(inside, loops):
                    raise self._fault(f"{buffer.name} is used by others too, and no thread has elements of its own")
                found[buffer] = loops
        return found

    def _copied(self, buffer: Buffer, private: bool) -> tuple[For, ...]:
        """Find the loops whose threads would conflict if all of them had one buffer."""
        users = self.nest.users(buffer)
        loops = dict.fromkeys(x for use in users for x in use.threads if x.extent > 1)
        own = self.nest.private_loops(buffer, loops)
        loose = [x for x in loops if x.var not in own]
        if buffer in self.conflicts:
            return tuple(x for x in loose if not x.kind.shares(buffer.scope))
        writers = [self.of_block[id(use.stmt)] for use in users if use.stores(buffer)]
        pure = all(isinstance(use.stmt, BlockRealize) and is_pure(use.stmt) for use in users if use.stores(buffer))
        loose = [x for x in loose if not (pure and all(x.var not in p.each for p in writers))]
        if not private and pure and len(users) == 1:
            return ()  # the last thread wins, as before
        return tuple(loose)

    def _check_step(self, buffer: Buffer, use: Use, piece: Piece) -> None:
        """Check that, between two barriers, each thread writes its own elements, or only one thread writes."""
        assert isinstance(use.stmt, BlockRealize)
        name = use.stmt.block.name
        loops = [x for x in use.threads if x.extent > 1 and x.kind.shares(buffer.scope)]
        once = [x for x in loops if x in piece.threads and x.var not in piece.each]
        if once and not is_pure(use.stmt):
            raise self._fault(
                f"each of the threads of {once[0].var.name} does the same to {buffer.name} in block {name}"
            )
        around = {x.var for x in path_to(self.top, piece.stmt)[:-1] if isinstance(x, For)}
        fixed = self.nest.outside | around - {x.var for x in piece.threads}
        regions = [t.region for t in use.of(buffer) if t.stores]
        own = private_loops(regions, [x.var for x in loops], fixed, self.nest.ranges)
        for loop in loops:
            apart = loop in once or loop.var in own or use.reduces_over(loop.var)
            if not apart and use.single_iteration(loop) is None:
                raise self._fault(
                    f"several threads of {loop.var.name} may write one element of {buffer.name} in block {name}"
                )


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """A block (or a statement outside blocks) below thread loops, with the tests around it and its accesses."""

    stmt: Stmt
    threads: tuple[For, ...]
    tests: tuple[Expr, ...]
    accesses: tuple[Access, ...]

    def of(self, buffer: Buffer) -> list[Access]:
        return [a for a in self.accesses if a.buffer is buffer]

    def stores(self, buffer: Buffer) -> bool:
        return any(t.stores for t in self.of(buffer))

    def mentions(self, var: Var) -> bool:
        if any(var in free_vars(test) for test in self.tests):
            return True
        if not isinstance(self.stmt, BlockRealize):
            return any(var in free_vars(e) for e in expressions(self.stmt))
        block = self.stmt.block
        used = {v for child in children(self.stmt) for s in walk(child) for e in expressions(s) for v in free_vars(e)}
        bound = [e for it, e in zip(block.iters, self.stmt.values, strict=True) if it.is_reduce or it.var in used]
        return any(var in free_vars(e) for e in bound)

    def single_iteration(self, loop: For) -> int | None:
        """Find the only iteration of a loop in which the tests hold; None if there may be several."""
        low, high = tested_ranges(self.tests, {loop.var: (0, loop.extent - 1)})[loop.var]
        return low if low >= high else None  # the tests may hold nowhere

    def reduces_over(self, var: Var) -> bool:
        """Decide if the iterations of a loop reduce into the same elements."""
        return isinstance(self.stmt, BlockRealize) and only_reduces(var, self.stmt)


def thread_conflicts(func: Function) -> dict[Buffer, For]:
    """Find the buffers that threads may use together, each with a loop over such threads."""
    found: dict[Buffer, For] = {}
    for nest in nests(func) if _of_threads(func) else ():
        found = nest.conflicts(func) | found
    return found


def _of_threads(func: Function) -> list[Buffer]:
    """Return the buffers that are shared by the threads of one block."""
    made = (*func.allocs, *(stmt.buffer for stmt in walk(func.body) if isinstance(stmt, Alloc)))
    return [buffer for buffer in dict.fromkeys(made) if not (buffer.scope == "local" or is_global(buffer.scope))]


def nests(func: Function) -> Iterator[ConflictNest]:
    """Yield the statements below each outermost loop over the threads of a block."""
    ranges = loop_ranges(func.body)
    for top in walk_nest(func.body):
        if isinstance(top, For) and top.kind.waits:
            outside = [stmt for stmt in path_to(func.body, top)[:-1] if isinstance(stmt, For)]
            if not any(loop.kind.waits for loop in outside):
                yield ConflictNest(top, [loop.var for loop in outside], ranges)


class ConflictNest:
    """A nest below `top`; its threads are all in the same iteration of the loops `outside`."""

    def __init__(self, top: For, outside: Sequence[Var], ranges: Ranges) -> None:
        self.top = top
        self.outside = frozenset(outside)
        self.ranges = ranges
        self.uses = list(self._uses(top, (), ()))

    def _uses(self, stmt: Stmt, threads: tuple[For, ...], tests: tuple[Expr, ...]) -> Iterator[Use]:
        if isinstance(stmt, BlockRealize | Store | Evaluate):
            tests = (*tests, stmt.predicate) if isinstance(stmt, BlockRealize) else tests
            yield Use(stmt, threads, tests, tuple(accesses(stmt)))
            return
        if isinstance(stmt, For) and stmt.kind.waits:
            threads = (*threads, stmt)
        if isinstance(stmt, If):
            tests = (*tests, stmt.condition)
        for child in children(stmt):
            yield from self._uses(child, threads, tests)

    def users(self, buffer: Buffer) -> list[Use]:
        return [use for use in self.uses if use.of(buffer)]

    def conflicts(self, func: Function) -> dict[Buffer, For]:
        """Find the buffers of the function that the threads use together, each with a loop over such threads."""
        found = {buffer: self.conflict(buffer) for buffer in _of_threads(func)}
        return {buffer: loop for buffer, loop in found.items() if loop is not None}

    def conflict(self, buffer: Buffer) -> For | None:
        """Find a loop over threads that use the buffer together."""
        users = self.users(buffer)
        if all(t.stores for t in self._near(buffer)):
            return None
        common = [x for x in users[0].threads if x.extent > 1 and all(x in use.threads for use in users)]
        own = self.private_loops(buffer, common)
        for loop in common:
            if not loop.kind.shares(buffer.scope) or loop.var in own:
                continue
            alone = {use.single_iteration(loop) for use in users}
            if (len(alone) == 1 and None not in alone) or (len(users) == 1 and users[0].reduces_over(loop.var)):
                continue
            if not self._uniform(buffer, loop, set()):
                return loop
        return None

    def private_loops(self, buffer: Buffer, threads: Iterable[For]) -> set[Var]:
        """Find the loops whose iterations have their own elements, ignoring elements that are only read."""
        near = [t.region for t in self._near(buffer)]
        return private_loops(near, [x.var for x in threads], self.outside, self.ranges)

    def _near(self, buffer: Buffer) -> list[Access]:
        """List the writes, and the reads of elements that may be written; empty if nothing is written."""
        users = self.users(buffer)
        stores = [self._boxes(t.region, use) for use in users for t in use.of(buffer) if t.stores]
        return [
            t
            for use in users
            for t in use.of(buffer)
            if t.stores or any(not self._apart(self._boxes(t.region, use), other) for other in stores)
        ]

    def _boxes(self, region: Region, use: Use) -> list[SymbolicInterval | None]:
        """Compute the box of a region over all iterations in the nest."""
        relax = relaxation(set(self.ranges) - self.outside, self.ranges, *use.tests)
        return [interval(lo, relax, count) for lo, count in region.box]

    def _apart(self, one: Sequence[SymbolicInterval | None], other: Sequence[SymbolicInterval | None]) -> bool:
        for a, b in zip(one, other, strict=True):
            gap = None if a is None or b is None else linear_bounds(a.lo.minus(b.lo), self.ranges)
            if a is not None and b is not None and gap is not None and (gap[0] > b.width or gap[1] + a.width < 0):
                return True
        return False

    def _uniform(self, buffer: Buffer, loop: For, seen: set[Buffer]) -> bool:
        """Decide if all iterations of the loop write the same values."""
        seen.add(buffer)
        for use in self.uses:
            if use.stores(buffer) and loop in use.threads:
                used = {a.buffer for a in use.accesses if not a.stores}
                if use.mentions(loop.var) or not all(self._uniform(b, loop, seen) for b in used - seen):
                    return False
        return True
