"""Pass: double buffers, of which one half is read while the next iteration's values are written to the other.

    for k in range(n):                     B = alloc(2 * ...)
        B = alloc(...)                     B[0, ...] = of iteration 0
        B[...] = of iteration k     =>     for k in range(n):
        ... B[...]                             if k + 1 < n:
                                                   B[(k + 1) % 2, ...] = of iteration k + 1
                                               ... B[k % 2, ...]

The fetch then overlaps with the computation. It can run an iteration early only if its inputs do not change in the
loop; otherwise the pass raises an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pegbox.errors import LoweringError
from pegbox.expr.build import ONE, add, compare, floormod, index
from pegbox.expr.nodes import Buffer, Expr
from pegbox.expr.visit import in_front
from pegbox.loops.access.region import read_below, written_below
from pegbox.loops.copy import fresh_copy
from pegbox.loops.nodes import Alloc, For, Function, If, Seq, Stmt, seq
from pegbox.loops.passes.flatten import Simplifier
from pegbox.loops.passes.notes import Notes
from pegbox.loops.visit import exchange, loop_ranges, path_to, redirect, substitute_vars, walk


@dataclass(frozen=True)
class _FillSite:
    """A buffer that is allocated inside a loop, the statements that fill it there, and those that do not.

    Attributes:
        path: the path from the root to the allocation.
        nested: the buffers that are allocated directly inside the allocation.
    """

    buffer: Buffer
    loop: For
    path: Sequence[Stmt]
    nested: Sequence[Buffer]
    makers: Sequence[Stmt]
    others: Sequence[Stmt]


def double_buffers(func: Function, notes: Notes, *, strict: bool = True) -> Function:
    """Double each buffer with a note.

    Args:
        strict: refuse buffers that cannot be doubled; otherwise leave them single, for programs whose buffers are
            placed differently from the program that is built.

    Raises:
        LoweringError: a buffer is not filled in each iteration of a serial loop by statements of its own, from values
            that do not change in the loop.
    """
    buffers = {s.buffer.name: s.buffer for s in walk(func.body) if isinstance(s, Alloc)} if notes.doubles else {}
    for name in notes.doubles:
        try:
            alloc = next((s for s in walk(func.body) if isinstance(s, Alloc) and s.buffer is buffers.get(name)), None)
            if alloc is None:
                raise _refused(name, "it is never used", "take the note off")
            func = func.with_body(_doubled(_site(path_to(func.body, alloc), alloc)))
        except LoweringError:
            if strict:
                raise
    return func


def _site(path: Sequence[Stmt], alloc: Alloc) -> _FillSite:
    """Describe the surroundings of the allocation at the end of the path from the root."""
    buffer, inner = alloc.buffer, alloc.body
    place = len(path) - 1
    while place > 0 and isinstance(path[place - 1], Alloc | Seq):
        place -= 1
    loop = path[place - 1] if place > 0 else None
    if not isinstance(loop, For) or not loop.kind.in_order:
        what = "no loop" if loop is None else "a test" if not isinstance(loop, For) else f"a {loop.kind} loop"
        raise _refused(buffer.name, f"it is allocated directly inside {what}", "compute_at a serial loop")
    nested = []
    while isinstance(inner, Alloc):
        nested.append(inner.buffer)
        inner = inner.body
    stmts = inner.stmts if isinstance(inner, Seq) else (inner,)
    makers = [s for s in stmts if buffer in written_below(s)]
    site = _FillSite(buffer, loop, path, nested, makers, [s for s in stmts if buffer not in written_below(s)])
    _check(site, stmts)
    return site


def _check(site: _FillSite, stmts: Sequence[Stmt]) -> None:
    buffer, name = site.buffer, site.loop.var.name
    last = max((n for n, s in enumerate(stmts) if any(s is m for m in site.makers)), default=-1)
    using = [n for n, s in enumerate(stmts) if not any(s is m for m in site.makers) and buffer in read_below(s)]
    if not using:
        raise _refused(
            buffer.name, f"it is made and used by the same statement inside {name}", "compute_at another loop"
        )
    if min(using) < last:
        raise _refused(buffer.name, f"it is used inside {name} before all of it is made", "compute_at another loop")
    own = {s.buffer for m in site.makers for s in walk(m) if isinstance(s, Alloc)} | {buffer}
    more = [b.name for b in written_below(*site.makers) if b not in own]
    if more:
        reader = next((each.name for each in written_below(stmts[using[0]])), "a call")
        raise _refused(
            buffer.name,
            f"what makes it writes {more[0]} as well, and {reader} reads it after that",
            "double_buffer stages with one output, merged with all its readers or none",
        )
    changing = written_below(site.loop.body)
    inputs = [b.name for b in read_below(*site.makers) if b not in own and b in changing]
    if inputs:
        raise _refused(
            buffer.name,
            f"it is made from {inputs[0]}, which changes inside {name}: it cannot be made an iteration early",
            f"double_buffer {inputs[0]} instead, or compute {inputs[0]} outside {name}",
        )


def _refused(name: str, why: str, remedy: str) -> LoweringError:
    return LoweringError(f"double_buffer of {name}: {why}; {remedy}")


def _doubled(site: _FillSite) -> Stmt:
    old, loop = site.buffer, site.loop
    new = Buffer(old.name, (2, *old.shape), old.dtype, old.scope)
    following = add(loop.var, ONE)
    first, ahead = _moved(site, new, index(0)), _moved(site, new, following)
    start = () if first is None else (first,)
    makers = () if ahead is None else (If(compare("lt", following, index(loop.extent)), ahead),)
    half = floormod(loop.var, index(2))
    inner = seq(*makers, *(redirect(s, {old: (new, in_front(half))}) for s in site.others))
    for buffer in reversed(site.nested):
        inner = Alloc(buffer, inner)
    place = next(n for n, s in enumerate(site.path) if s is loop)
    return exchange(site.path[: place + 1], Alloc(new, seq(*start, exchange(site.path[place:], inner))))


def _moved(site: _FillSite, new: Buffer, iteration: Expr) -> Stmt | None:
    """Copy the statements that fill the buffer, for another iteration, with fresh loops and allocations."""
    var = site.loop.var
    copy = substitute_vars(fresh_copy(seq(*site.makers), str), {var: iteration})
    half = floormod(iteration, index(2))
    return Simplifier(loop_ranges(site.loop)).stmt(redirect(copy, {site.buffer: (new, in_front(half))}))
