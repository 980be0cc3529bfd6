"""Lowering passes: from a scheduled program with blocks to the plain loops that code generation takes."""

from __future__ import annotations

from dataclasses import replace

from pegbox.loops.access.recurrence import carrying_loops
from pegbox.loops.nodes import Function
from pegbox.loops.passes.compact import compact_buffers
from pegbox.loops.passes.double_buffer import double_buffers
from pegbox.loops.passes.flatten import flatten_blocks
from pegbox.loops.passes.guards import drop_guards
from pegbox.loops.passes.hoist import hoist_tests
from pegbox.loops.passes.init import lower_inits
from pegbox.loops.passes.names import name_apart
from pegbox.loops.passes.notes import collect_notes
from pegbox.loops.passes.partition import partition_loops
from pegbox.loops.passes.prefetch import place_prefetches
from pegbox.loops.passes.rolling_buffer import roll_buffers
from pegbox.loops.passes.storage_align import align_storage
from pegbox.loops.queries import origins_of
from pegbox.loops.threads.cooperation import lower_threads


def lower_function(func: Function, *, simple: bool = False) -> Function:
    """All passes in order; the result has no blocks, and every buffer that is no parameter stands in an Alloc.

    Args:
        simple: leave loops with tails whole, with their tests inside, buffers no larger than their tensors, and what
            the threads of a block do together below the loops of these threads, as a GPU runs it: for people to read.
            Strides, double and rolling buffers that such a program cannot have are left out.

    Raises:
        LoweringError: the program is malformed.
    """
    func = name_apart(func)
    func = replace(func, origins=origins_of(func))
    notes = collect_notes(func)
    func, carried = roll_buffers(func, strict=not simple)
    if not simple:
        func = lower_threads(func)
    carried = {**carrying_loops(func), **carried}
    func = compact_buffers(flatten_blocks(lower_inits(func)), grow=not simple, carried=carried)
    func = drop_guards(place_prefetches(func))
    func = double_buffers(align_storage(func, notes, strict=not simple), notes, strict=not simple)
    func = hoist_tests(func)
    return func if simple else partition_loops(func)
