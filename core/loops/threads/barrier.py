"""Barriers: loops over threads are cut where the threads wait for each other.

    for tx in thread range(4):                   for tx in thread range(4):
        S[tx] = A[tx]                                S[tx] = A[tx]
        B[tx] = S[3 - tx]                        for tx in thread range(4):
                                                     B[tx] = S[3 - tx]

On a GPU a barrier is between a write to shared memory and the reads of other threads. Here each step that writes a
buffer of several threads gets loops over the threads for itself, so that the result can be read loop by loop (see
`pegbox.loops.kind`). A program is refused where this cannot be shown to keep threads apart: a step may write only
elements that no other thread touches in the same step. (The cuts are those of MCUDA; see
`pegbox.loops.threads.cooperation`.)
"""

from __future__ import annotations

from pegbox.errors import LoweringError
from pegbox.expr.nodes import Buffer, Var
from pegbox.loops.access.private_loops import private_loops
from pegbox.loops.nodes import Alloc, BlockRealize, For, Function
from pegbox.loops.threads.conflict import Use, nests, thread_conflicts
from pegbox.loops.threads.cooperation import Piece, ThreadNest, tops
from pegbox.loops.threads.private_copy import is_plain, is_pure
from pegbox.loops.visit import loop_ranges, path_to, walk_nest

_REMEDY = "write what each step makes into a buffer of its own, in a block of its own"


def cut_at_barriers(func: Function) -> Function:
    """Give each step between two barriers a loop over the threads, if threads use memory together.

    Raises:
        LoweringError: the result cannot be shown to be that of the threads.
    """
    tried: set[Var] = set()
    while thread_conflicts(func) and (top := next(tops(func.body, tried), None)) is not None:
        tried.add(top.var)
        cut = _Barriers(func, top).done()
        if cut is not None:
            tried |= loop_ranges(cut.body).keys() - loop_ranges(func.body).keys()
            func = cut
    for buffer, loop in thread_conflicts(func).items():
        where = "outside conditions" if buffer in func.allocs else "and make them with T.alloc_buffer"
        raise LoweringError(
            f"threads of {loop.var.name} touch elements of {buffer.name} that others write, and no barrier can be put "
            f"in between; {_REMEDY}, {where}"
        )
    return func


class _Barriers(ThreadNest):
    """The nest below `top`, in which threads use some buffers together."""

    def __init__(self, func: Function, top: For) -> None:
        super().__init__(func, top)
        self.nest = next(nest for nest in nests(func) if nest.top is top)
        self.conflicts = frozenset(self.nest.conflicts(func))

    def _is_apart(self, piece: Piece) -> bool:
        return super()._is_apart(piece) or bool(piece.writes() & self.conflicts)

    def _depends(self, piece: Piece, other: Piece) -> bool:
        # Between barriers, a shared buffer is the same for all its threads.
        same = {b for b in self.conflicts if all(loop.kind.shares(b.scope) for loop in piece.threads)}
        return bool((piece.reads() | piece.writes()) & (other.writes() - same))

    def done(self) -> Function | None:
        """Cut the nest; None where no thread waits in it.

        Raises:
            LoweringError: cutting cannot be shown to be right.
        """
        if not self.conflicts:
            return None
        for node in (use.stmt for use in self.nest.uses if not isinstance(use.stmt, BlockRealize)):
            raise self._fault(f"the statement {str(node).strip()} is outside all blocks", "put it into a block")
        for alloc in (node for node in walk_nest(self.top) if isinstance(node, Alloc)):
            raise self._fault(f"{alloc.buffer.name} is made inside it", "use T.alloc_buffer, outside all loops")
        return super().done()

    def _fault(self, problem: str, remedy: str = _REMEDY) -> LoweringError:
        names = ", ".join(sorted(b.name for b in self.conflicts if self.nest.users(b)))
        return LoweringError(
            f"the threads of {self.top.var.name} use {names} together and wait for each other, but {problem}; {remedy}"
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
        """Find the loops whose threads would get in each other's way, with one buffer for all."""
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
            return ()  # the last thread wins, as it did
        return tuple(loose)

    def _check_step(self, buffer: Buffer, use: Use, piece: Piece) -> None:
        """Check that, between two barriers, each thread writes elements of its own, or a single thread writes."""
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
            if not apart and use.single_iteration(loop.var) is None:
                raise self._fault(
                    f"several threads of {loop.var.name} may write one element of {buffer.name} in block {name}"
                )
