"""Cooperation of threads: shared work of a block of threads runs once, between barriers.

Read loop by loop, a program with thread loops is right as it stands (see `pegbox.loops.kind`), but each thread
then does for itself what its block does together. Here such work leaves the loops of those threads, which means that
these are cut apart at it (fission): each piece between two barriers gets thread loops of its own, inside of the serial
loops.

    for tx in thread range(4):                   for k in range(8):
        for k in range(8):                           for ax in thread range(4):
            for ax in thread range(4):                   S[ax] = A[k, ax]
                S[ax] = A[k, ax]                     for tx in thread range(4):
            C[tx] = C[tx] + S[tx]                        C[tx] = C[tx] + S[tx]

What a thread keeps for itself from one piece to the next gets a dimension more, unless the threads use different
elements anyway. Where nobody cooperates, or where it cannot be shown that the pieces do not get in each other's way,
the loops stay as they are. (The other way round, from pieces to the threads of a GPU on a CPU: Stratton et al., MCUDA,
LCPC 2008.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pegbox.expr.affine import linear
from pegbox.expr.bounds import Interval
from pegbox.expr.injectivity import determined
from pegbox.expr.nodes import Buffer, Expr, Var
from pegbox.expr.visit import free_vars, substitute
from pegbox.loops.access.interval import caps_of
from pegbox.loops.kind import THREADS
from pegbox.loops.nodes import Alloc, BlockRealize, For, Function, If, IterKind, Seq, Stmt, seq
from pegbox.loops.threads.private_copy import is_plain, is_pure, private_copies, with_copies
from pegbox.loops.visit import (
    blocks_below,
    bound_vars,
    loop_ranges,
    map_children,
    path_to,
    substitute_vars,
    walk,
    walk_nest,
)


def lower_threads(func: Function) -> Function:
    """Let threads share what is theirs together; thread loops are left that may run one iteration after the other."""
    tried: set[Var] = set()
    while (top := next(tops(func.body, tried), None)) is not None:
        tried.add(top.var)
        kernel = ThreadNest(func, top)
        func = kernel.done() or func
    return func


def tops(stmt: Stmt, tried: set[Var]) -> Iterator[For]:
    """The outermost loops over the threads of a block that have not been looked at."""
    if isinstance(stmt, For) and stmt.kind.in_block:
        if stmt.var not in tried:
            yield stmt
    elif isinstance(stmt, For):
        yield from tops(stmt.body, tried)
    elif isinstance(stmt, Seq):
        for each in stmt.stmts:
            yield from tops(each, tried)


@dataclass(eq=False)
class Piece:
    """A statement that is not looked into: `threads` are the loops around it that may be cut.

    `each` are those of their variables for which it has to be done again; the rest shares it.
    """

    stmt: Stmt
    threads: tuple[For, ...]
    each: set[Var]
    blocks: list[BlockRealize]
    segment: int = -1

    @property
    def is_shared(self) -> bool:
        return len(self.each) < len(self.threads)

    def reads(self) -> set[Buffer]:
        return {region.buffer for r in self.blocks for region in r.block.reads}

    def writes(self) -> set[Buffer]:
        return {region.buffer for r in self.blocks for region in r.block.writes}


@dataclass
class ThreadNest:
    """The nest below `top`, an outermost loop over threads."""

    func: Function
    top: For
    pieces: list[Piece] = field(default_factory=list)
    inner: list[set[Var]] = field(default_factory=list)  # the loops inside of each segment

    def done(self) -> Function | None:
        """The function with the nest cut, or None where that is not needed, or not sound as far as can be shown."""
        self.outside = frozenset(s.var for s in path_to(self.func.body, self.top)[:-1] if isinstance(s, For))
        self._collect(self.top, ())
        self._settle()
        if not any(map(self._is_apart, self.pieces)):
            return None
        self.of_stmt = {id(piece.stmt): piece for piece in self.pieces}
        self.of_block = {id(r): piece for piece in self.pieces for r in piece.blocks}
        self._number(self.top)
        copies = self._copies()
        if copies is None:
            return None
        self.copies = {old: private_copies(old, loops) for old, loops in copies.items()}
        body = _exchange(self.func.body, self.top, self._cut(self.top, ()))
        allocs = tuple(self.copies[b].buffer if b in self.copies else b for b in self.func.allocs)
        return replace(self.func, body=body, allocs=allocs)

    def _collect(self, stmt: Stmt, threads: tuple[For, ...]) -> None:
        """The pieces, in program order."""
        if isinstance(stmt, For) and stmt.kind.in_block and not _again(stmt, threads):
            self._collect(stmt.body, (*threads, stmt))
        elif isinstance(stmt, For) and (stmt.kind.in_order or stmt.kind.is_block):
            self._collect(stmt.body, threads)
        elif isinstance(stmt, Seq):
            for each in stmt.stmts:
                self._collect(each, threads)
        else:
            self.pieces.append(_piece(stmt, threads))

    def _is_apart(self, piece: Piece) -> bool:
        """Do the threads wait for each other before and after it?"""
        return piece.is_shared

    def _depends(self, piece: Piece, other: Piece) -> bool:
        """Does the piece touch what the other one makes, perhaps another value in each thread?"""
        return bool((piece.reads() | piece.writes()) & other.writes())

    def _settle(self) -> None:
        """Check that a shared piece does not depend on a value that one thread has made."""
        changed = True
        while changed:
            changed = False
            for piece in self.pieces:
                own = {loop.var for loop in piece.threads}
                for other in self.pieces:
                    more = (other.each & own) - piece.each
                    if more and other is not piece and self._depends(piece, other):
                        piece.each |= more
                        changed = True

    def _number(self, stmt: Stmt) -> None:
        """Give each piece the number of the segment (between barriers) that it will be in."""
        if not self._has_apart(stmt):
            self._join(stmt)
        elif isinstance(stmt, For) and id(stmt) not in self.of_stmt:
            self._number(stmt.body)
        elif isinstance(stmt, Seq):
            for part in self._parts(stmt):
                self._number(part)
        else:
            self._join(stmt)

    def _join(self, stmt: Stmt) -> None:
        self.inner.append({node.var for node in walk(stmt) if isinstance(node, For)})
        for node in walk(stmt):
            if id(node) in self.of_stmt:
                self.of_stmt[id(node)].segment = len(self.inner) - 1

    def _has_apart(self, stmt: Stmt) -> bool:
        return any(id(node) in self.of_stmt and self._is_apart(self.of_stmt[id(node)]) for node in walk(stmt))

    def _parts(self, stmt: Seq) -> list[Stmt]:
        """Neighbours without anything that stands apart go together."""
        parts: list[list[Stmt]] = []
        open_part = False
        for each in stmt.stmts:
            apart = self._has_apart(each)
            if open_part and not apart:
                parts[-1].append(each)
            else:
                parts.append([each])
            open_part = not apart
        return [seq(*part) for part in parts]

    def _cut(self, stmt: Stmt, threads: tuple[For, ...]) -> Stmt:
        """The statement, run for all of the threads."""
        piece = self.of_stmt.get(id(stmt))
        if piece is not None:
            return self._for_all([loop for loop in threads if loop.var in piece.each], stmt)
        if not self._has_apart(stmt):
            return self._for_all(threads, stmt)
        if isinstance(stmt, For):
            if stmt.kind.in_block:
                return self._cut(stmt.body, (*threads, stmt))
            return stmt.with_body(self._cut(stmt.body, threads))
        assert isinstance(stmt, Seq)
        return seq(*(self._cut(part, threads) for part in self._parts(stmt)))

    def _for_all(self, threads: Sequence[For], stmt: Stmt) -> Stmt:
        """Thread loops around a statement, with variables of their own."""
        fresh: dict[Var, Expr] = {loop.var: loop.var.copy() for loop in threads}
        stmt = substitute_vars(with_copies(stmt, self.copies), fresh)
        for loop in reversed(threads):
            var = fresh[loop.var]
            assert isinstance(var, Var)
            stmt = For(var, loop.extent, stmt, loop.kind, loop.annotations)
        return stmt

    # What a thread keeps for itself.

    def _copies(self) -> dict[Buffer, tuple[For, ...]] | None:
        """The buffers of which each thread needs a copy of its own, with those loops; None if cutting is not sound."""
        ranges = loop_ranges(self.func.body)
        found: dict[Buffer, tuple[For, ...]] = {}
        users = _users(self.func.body)
        for buffer in dict.fromkeys(b for piece in self.pieces for b in piece.writes()):
            inside = [r for r in users[buffer] if id(r) in self.of_block]
            private = buffer not in self.func.params and len(inside) == len(users[buffer])
            if private and self._in_one_segment(inside):
                continue
            loose = self._loose(buffer, inside, ranges)
            if not private:
                if not self._may_stay(buffer, inside, loose):
                    return None
            elif loose:
                each = [self.of_block[id(r)].each for r in inside]
                if not all(loop.var in e for loop in loose for e in each) or not all(map(is_plain, inside)):
                    return None
                found[buffer] = loose
        return found

    def _in_one_segment(self, users: Sequence[BlockRealize]) -> bool:
        """Does a thread make and use it all between two barriers, the start of a reduction included?"""
        segments = {self.of_block[id(r)].segment for r in users}
        begun = {var for r in users if r.block.init is not None for var in bound_vars(r, IterKind.REDUCE)}
        return len(segments) == 1 and begun <= self.inner[segments.pop()]

    def _loose(self, buffer: Buffer, inside: Sequence[BlockRealize], ranges: Mapping[Var, Interval]) -> tuple[For, ...]:
        """The thread loops of which several iterations may write one element."""
        writers = [r for r in inside if _writes(r, buffer)]
        loops = dict.fromkeys(loop for r in writers for loop in self.of_block[id(r)].threads)
        return tuple(loop for loop in loops if any(self._is_loose(loop, r, buffer, ranges) for r in writers))

    def _is_loose(self, loop: For, realize: BlockRealize, buffer: Buffer, ranges: Mapping[Var, Interval]) -> bool:
        if loop.extent == 1 or loop.var not in self.of_block[id(realize)].each:
            return False
        if loop.var in bound_vars(realize, IterKind.REDUCE) - bound_vars(realize, IterKind.SPATIAL):
            return False
        caps = caps_of(realize.predicate, set(ranges), ranges)
        return loop.var not in determined(_written(realize, buffer), self.outside, ranges, caps)

    def _may_stay(self, buffer: Buffer, inside: Sequence[BlockRealize], loose: Sequence[For]) -> bool:
        """May the threads use one buffer, which others see as well, in pieces as they did one after the other?"""
        writers = [r for r in inside if _writes(r, buffer)]
        one_each = all(len(self.of_block[id(r)].each) == len(self.of_block[id(r)].threads) for r in writers)
        if one_each and not loose:
            # What one thread writes another must not read, now that they run in another order.
            return len(writers) == len(inside)
        return all(is_pure(r) for r in writers) or (not loose and all(map(self._restarts, writers)))

    def _restarts(self, realize: BlockRealize) -> bool:
        """Does a block that is run again begin again?"""
        below = {node.var for node in walk(self.top) if isinstance(node, For)}
        return realize.block.init is not None and bound_vars(realize, IterKind.REDUCE) <= below


def _again(loop: For, threads: Sequence[For]) -> bool:
    """Is this one more loop over threads that are running already?"""
    return loop.kind in THREADS and any(x.kind is loop.kind for x in threads)


def _piece(stmt: Stmt, threads: tuple[For, ...]) -> Piece:
    blocks = list(blocks_below(stmt))
    every = {loop.var for loop in threads}
    scopes = {region.buffer.scope for r in blocks for region in r.block.writes}
    common = isinstance(stmt, For) and stmt.kind.in_block
    common = common or (bool(scopes) and all(any(loop.kind.shares(scope) for loop in threads) for scope in scopes))
    if not common or any(isinstance(node, If | Alloc) for node in walk_nest(stmt)):
        return Piece(stmt, threads, every, blocks)
    used = {var for r in blocks for e in (*r.values, r.predicate) for var in free_vars(e)}
    return Piece(stmt, threads, every & used, blocks)


def _exchange(stmt: Stmt, old: Stmt, new: Stmt) -> Stmt:
    if stmt is old:
        return new
    return map_children(stmt, lambda s: _exchange(s, old, new)) if isinstance(stmt, For | Seq) else stmt


def _users(body: Stmt) -> dict[Buffer, list[BlockRealize]]:
    """The outer blocks that touch each buffer."""
    found: dict[Buffer, list[BlockRealize]] = {}
    for realize in blocks_below(body):
        for buffer in dict.fromkeys(region.buffer for region in (*realize.block.reads, *realize.block.writes)):
            found.setdefault(buffer, []).append(realize)
    return found


def _writes(realize: BlockRealize, buffer: Buffer) -> bool:
    return any(region.buffer is buffer for region in realize.block.writes)


def _written(realize: BlockRealize, buffer: Buffer) -> list[Expr]:
    """Expressions of the loops around that differ only where the block writes other elements of the buffer."""
    values: dict[Var, Expr] = dict(zip((it.var for it in realize.block.iters), realize.values, strict=True))
    found: list[Expr] = []
    for region in realize.block.writes:
        if region.buffer is buffer:
            for low, count in region.box:
                index = linear(substitute(low, values))
                if count == 1 or not any(c % count for c in index.terms.values()):
                    found.append(index.to_expr())
    return found
