"""Cooperation of threads: shared work of a block of threads runs once, between barriers.

Run loop by loop, a program with thread loops is right (see `pegbox.loops.kind`), but each thread repeats the work that
its block shares. Here such work is moved out of the loops of those threads, which are cut at it (fission): each piece
between two barriers gets its own thread loops, inside the serial loops.

    for tx in thread range(4):                   for k in range(8):
        for k in range(8):                           for ax in thread range(4):
            for ax in thread range(4):                   S[ax] = A[k, ax]
                S[ax] = A[k, ax]                     for tx in thread range(4):
            C[tx] = C[tx] + S[tx]                        C[tx] = C[tx] + S[tx]

A buffer that a thread keeps from one piece to the next gets a copy for each thread, in a further dimension, unless the
threads use different elements anyway. If threads do not cooperate, or the pieces cannot be shown to be independent, the
loops do not change. (From the kernels of a GPU to a CPU: Stratton et al., MCUDA, LCPC 2008.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from pegbox.expr.affine import linear
from pegbox.expr.bounds import Ranges
from pegbox.expr.injectivity import determined
from pegbox.expr.nodes import Buffer, Load, Var
from pegbox.expr.visit import free_vars, in_front, loads, substitute
from pegbox.loops.access.interval import caps_of
from pegbox.loops.access.region import read_below
from pegbox.loops.nodes import Alloc, BlockIter, BlockRealize, Evaluate, For, Function, If, IterKind, Seq, Stmt, seq
from pegbox.loops.visit import (
    blocks_below,
    bound_vars,
    children,
    exchange,
    expressions,
    loop_ranges,
    map_blocks,
    only_reduces,
    path_to,
    redirect,
    substitute_vars,
    walk,
    walk_nest,
)


def share_work(func: Function) -> Function:
    """Let threads share the work of their block; afterwards, iterations of thread loops may run one by one."""
    tried: set[Var] = set()
    while (top := next(tops(func.body, tried), None)) is not None:
        tried.add(top.var)
        func = ThreadNest(func, top).done() or func
    return func


def tops(stmt: Stmt, tried: set[Var]) -> Iterator[For]:
    """Yield the outermost loops over the threads of a block that have not been tried."""
    if isinstance(stmt, For) and stmt.kind.waits:
        if stmt.var not in tried:
            yield stmt
    elif isinstance(stmt, For):
        yield from tops(stmt.body, tried)
    elif isinstance(stmt, Seq):
        for each in stmt.stmts:
            yield from tops(each, tried)


@dataclass(eq=False)
class Piece:
    """An uncut statement: `threads` are the loops around it that may be cut.

    `each` holds the variables of the loops whose threads all run the statement; the threads of the other loops share
    it.
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
    """A nest below `top`, an outermost loop over threads."""

    func: Function
    top: For
    pieces: list[Piece] = field(default_factory=list)
    inner: list[set[Var]] = field(default_factory=list)  # the loops inside each segment

    def done(self) -> Function | None:
        """Cut the nest; None if that is not needed, or not provably sound."""
        path = path_to(self.func.body, self.top)
        self.outside = frozenset(s.var for s in path[:-1] if isinstance(s, For))
        self._collect(self.top, ())
        self._settle()
        if not any(map(self._is_apart, self.pieces)):
            return None
        self.of_stmt = {id(piece.stmt): piece for piece in self.pieces}
        self.of_block = {id(r): piece for piece in self.pieces for r in piece.blocks}
        make = self._divide(self.top, ())
        copies = self._copies()
        if copies is None:
            return None
        self.copies = {b: (_several(b, loops), loops) for b, loops in copies.items()}
        body = exchange(path, make())
        allocs = tuple(self.copies[b][0] if b in self.copies else b for b in self.func.allocs)
        return replace(self.func, body=body, allocs=allocs)

    def _collect(self, stmt: Stmt, threads: tuple[For, ...]) -> None:
        """Collect the pieces in program order."""
        again = isinstance(stmt, For) and stmt.kind.cooperates and any(x.kind is stmt.kind for x in threads)
        if isinstance(stmt, For) and stmt.kind.waits and not again:
            self._collect(stmt.body, (*threads, stmt))
        elif isinstance(stmt, For) and (stmt.kind.in_order or (stmt.kind.is_bound and not stmt.kind.waits)):
            self._collect(stmt.body, threads)
        elif isinstance(stmt, Seq):
            for each in stmt.stmts:
                self._collect(each, threads)
        else:
            self.pieces.append(_piece(stmt, threads))

    def _is_apart(self, piece: Piece) -> bool:
        """Decide if the threads wait for each other before and after the piece."""
        return piece.is_shared

    def _depends(self, piece: Piece, other: Piece) -> bool:
        """Check if the piece uses results of the other piece, which may differ from thread to thread."""
        return bool((piece.reads() | piece.writes()) & other.writes())

    def _settle(self) -> None:
        """Let every thread run a piece that depends on values of single threads."""
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

    def _has_apart(self, stmt: Stmt) -> bool:
        return any(id(node) in self.of_stmt and self._is_apart(self.of_stmt[id(node)]) for node in walk(stmt))

    def _parts(self, stmt: Seq) -> list[Stmt]:
        """Join neighbours that need no barrier between them."""
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

    def _divide(self, stmt: Stmt, threads: Sequence[For]) -> Callable[[], Stmt]:
        """Divide the statement into segments (between barriers); return a function that makes it for all threads."""
        piece = self.of_stmt.get(id(stmt))
        if piece is None and self._has_apart(stmt):
            if isinstance(stmt, For):
                loop = stmt
                if loop.kind.waits:
                    return self._divide(loop.body, (*threads, loop))
                body = self._divide(loop.body, threads)
                return lambda: loop.with_body(body())
            assert isinstance(stmt, Seq)
            parts = [self._divide(part, threads) for part in self._parts(stmt)]
            return lambda: seq(*(part() for part in parts))
        self.inner.append({node.var for node in walk(stmt) if isinstance(node, For)})
        for node in walk(stmt):
            if id(node) in self.of_stmt:
                self.of_stmt[id(node)].segment = len(self.inner) - 1
        around = threads if piece is None else [loop for loop in threads if loop.var in piece.each]
        return lambda: self._for_all(around, stmt)

    def _for_all(self, threads: Sequence[For], stmt: Stmt) -> Stmt:
        """Put thread loops around a statement, with fresh variables."""
        fresh = [(loop, loop.var.copy()) for loop in threads]
        stmt = map_blocks(stmt, self._own) if self.copies else stmt
        stmt = substitute_vars(stmt, {loop.var: var for loop, var in fresh})
        for loop, var in reversed(fresh):
            stmt = replace(loop, var=var, body=stmt)
        return stmt

    def _own(self, realize: BlockRealize) -> BlockRealize:
        """Let each thread use its own copy of some buffers."""
        regions = (*realize.block.reads, *realize.block.writes)
        used = {region.buffer: self.copies[region.buffer] for region in regions if region.buffer in self.copies}
        if not used:
            return realize
        around = dict.fromkeys(loop for _, loops in used.values() for loop in loops)
        iters = {loop: BlockIter(Var(f"v{loop.var.name}"), loop.extent, IterKind.SPATIAL) for loop in around}
        place = {old: (new, in_front(*(iters[loop].var for loop in loops))) for old, (new, loops) in used.items()}
        inner = redirect(realize, place)
        assert isinstance(inner, BlockRealize)
        block = replace(inner.block, iters=(*iters.values(), *inner.block.iters))
        return BlockRealize((*(loop.var for loop in around), *inner.values), block, inner.predicate)

    # The buffers that a thread keeps for itself.

    def _written(self) -> Iterator[tuple[Buffer, list[BlockRealize], bool]]:
        """Yield each buffer that the nest writes, the blocks in it that use the buffer, and True if no others do."""
        blocks = list(blocks_below(self.func.body))
        for buffer in dict.fromkeys(b for piece in self.pieces for b in piece.writes()):
            users = [r for r in blocks if any(x.buffer is buffer for x in (*r.block.reads, *r.block.writes))]
            inside = [r for r in users if id(r) in self.of_block]
            yield buffer, inside, buffer not in self.func.params and len(inside) == len(users)

    def _copies(self) -> dict[Buffer, tuple[For, ...]] | None:
        """Find the buffers that need a copy for each thread, with the thread loops; None if cutting is not sound."""
        ranges = loop_ranges(self.func.body)
        found: dict[Buffer, tuple[For, ...]] = {}
        for buffer, inside, private in self._written():
            if private and self._in_one_segment(inside):
                continue
            writers = [r for r in inside if any(region.buffer is buffer for region in r.block.writes)]
            loops = dict.fromkeys(loop for r in writers for loop in self.of_block[id(r)].threads)
            loose = tuple(loop for loop in loops if any(self._is_loose(loop, r, buffer, ranges) for r in writers))
            if not private:
                if not self._may_stay(inside, writers, loose):
                    return None
            elif loose:
                if not self._each_has_own(inside, loose):
                    return None
                found[buffer] = loose
        return found

    def _each_has_own(self, inside: Sequence[BlockRealize], loops: Sequence[For]) -> bool:
        """Decide if all blocks that use a buffer run in each thread, and access single elements."""
        each = all(loop.var in self.of_block[id(r)].each for loop in loops for r in inside)
        return each and all(map(is_plain, inside))

    def _in_one_segment(self, users: Sequence[BlockRealize]) -> bool:
        """Check if a thread computes (and initializes) and uses all of a buffer between two barriers."""
        segments = {self.of_block[id(r)].segment for r in users}
        begun = {var for r in users if r.block.init is not None for var in bound_vars(r, IterKind.REDUCE)}
        return len(segments) == 1 and begun <= self.inner[segments.pop()]

    def _is_loose(self, loop: For, realize: BlockRealize, buffer: Buffer, ranges: Ranges) -> bool:
        """Decide if several iterations of a thread loop may write one element."""
        if loop.extent == 1 or loop.var not in self.of_block[id(realize)].each or only_reduces(loop.var, realize):
            return False
        box = [place for region in realize.block.writes if region.buffer is buffer for place in region.box]
        indices = [(linear(substitute(low, realize.bindings)), count) for low, count in box]
        # Boxes of different iterations begin at different places, but are known to be disjoint only if they are
        # consecutive.
        apart = [i.to_expr() for i, count in indices if count == 1 or not any(c % count for c in i.terms.values())]
        caps = caps_of(realize.predicate, set(ranges), ranges)
        return loop.var not in determined(apart, self.outside, ranges, caps)

    def _may_stay(self, inside: Sequence[BlockRealize], writers: Sequence[BlockRealize], loose: Sequence[For]) -> bool:
        """Decide if the threads may use one shared buffer piece by piece instead of thread by thread."""
        if not loose and not any(self.of_block[id(r)].is_shared for r in writers):
            # The threads run in another order now, so none may read the results of another.
            return len(writers) == len(inside)
        if all(map(is_pure, writers)):
            return True
        below = {node.var for node in walk(self.top) if isinstance(node, For)}
        # A reduction that runs again must also be initialized again.
        begins = all(r.block.init is not None and bound_vars(r, IterKind.REDUCE) <= below for r in writers)
        return not loose and begins


def _piece(stmt: Stmt, threads: tuple[For, ...]) -> Piece:
    blocks = list(blocks_below(stmt))
    every = {loop.var for loop in threads}
    scopes = {region.buffer.scope for r in blocks for region in r.block.writes}
    common = isinstance(stmt, For) and stmt.kind.waits
    common = common or (bool(scopes) and all(any(loop.kind.shares(scope) for loop in threads) for scope in scopes))
    if not common or any(isinstance(node, If | Alloc) for node in walk_nest(stmt)):
        return Piece(stmt, threads, every, blocks)
    used = {var for r in blocks for e in (*r.values, r.predicate) for var in free_vars(e)}
    return Piece(stmt, threads, every & used, blocks)


def _several(buffer: Buffer, loops: Sequence[For]) -> Buffer:
    """Make a buffer with a copy of another one for each iteration of some loops."""
    return Buffer(buffer.name, (*(loop.extent for loop in loops), *buffer.shape), buffer.dtype, buffer.scope)


def is_plain(realize: BlockRealize) -> bool:
    """Check if the block accesses buffers by its own ordinary loads and stores only."""
    nodes = [node for child in children(realize) for node in walk(child)]
    special = any(isinstance(node, Evaluate | BlockRealize) for node in nodes)
    return not special and all(type(load) is Load for node in nodes for e in expressions(node) for load in loads(e))


def is_pure(realize: BlockRealize) -> bool:
    """Check if running the block again changes nothing."""
    own = {region.buffer for region in realize.block.writes}
    again = is_plain(realize) and not realize.block.is_reduction
    return again and own.isdisjoint(read_below(*children(realize)))
