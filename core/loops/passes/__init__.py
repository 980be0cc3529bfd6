"""Lowering passes, from a scheduled program with blocks to the plain loops that code generation takes."""

from __future__ import annotations

from dataclasses import replace

from pegbox.expr.nodes import Buffer
from pegbox.expr.printer import unused_name
from pegbox.loops.access.recurrence import carrying_loops
from pegbox.loops.nodes import Alloc, Function
from pegbox.loops.passes.compact import compact_buffers
from pegbox.loops.passes.double_buffer import double_buffers
from pegbox.loops.passes.flatten import flatten_blocks
from pegbox.loops.passes.guards import drop_guards
from pegbox.loops.passes.hoist import hoist_tests
from pegbox.loops.passes.init import lower_inits
from pegbox.loops.passes.notes import collect_notes
from pegbox.loops.passes.partition import partition_loops
from pegbox.loops.passes.prefetch import place_prefetches
from pegbox.loops.passes.rolling_buffer import roll_buffers
from pegbox.loops.passes.row_ends import fill_row_ends
from pegbox.loops.passes.shared_storage import share_storage
from pegbox.loops.passes.storage_align import align_storage
from pegbox.loops.passes.unused_buffer import drop_unused
from pegbox.loops.threads.cooperation import share_work
from pegbox.loops.visit import realizes, replace_buffer, walk


def lower_function(func: Function, *, simple: bool = False) -> Function:
    """Run all passes in order; the result has no blocks, and every buffer that is not a parameter has an Alloc.

    Args:
        simple: make the program easier to read: loops with tails stay whole, with their tests inside, buffers are no
            larger than their tensors, and shared work stays below the loops that share it. Strides, double and rolling
            buffers that such a program cannot have are omitted.

    Raises:
        LoweringError: the program is malformed.
    """
    func = _name_apart(func)
    written = ((r.block.name, [w.buffer.name for w in r.block.writes]) for r in realizes(func.body))
    func = replace(func, origins=tuple((name, tuple(dict.fromkeys(buffers))) for name, buffers in written))
    notes = collect_notes(func)
    func, carried = roll_buffers(func, strict=not simple)
    if not simple:
        func = share_work(func)
    carried = {**carrying_loops(func), **carried}
    func = share_storage(flatten_blocks(lower_inits(func)), notes.homes)
    func = compact_buffers(func, grow=not simple, carried=carried)
    func = fill_row_ends(drop_guards(place_prefetches(func)))
    func = double_buffers(align_storage(func, notes, strict=not simple), notes, strict=not simple)
    func = hoist_tests(drop_unused(func))
    return func if simple else partition_loops(func)


def _name_apart(func: Function) -> Function:
    """Number intermediate buffers with equal names, as the printer does: `T`, `T_1`."""
    # Allocations inside the program keep their names, which no other buffer may get.
    taken = {b.name for b in func.params} | {s.buffer.name for s in walk(func.body) if isinstance(s, Alloc)}
    renamed: dict[Buffer, Buffer] = {}
    for buffer in func.allocs:
        name = unused_name(buffer.name, taken)
        taken.add(name)
        if name != buffer.name:
            renamed[buffer] = Buffer(name, buffer.shape, buffer.dtype, buffer.scope)
    if not renamed:
        return func
    allocs = tuple(renamed.get(b, b) for b in func.allocs)
    return replace(func, body=replace_buffer(func.body, renamed), allocs=allocs)
