"""Pass: pad rows of buffers to the strides that the schedule sets.

Rows whose length is a multiple of a large power of two map to the same cache sets, or banks of a shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from pegbox.errors import LoweringError
from pegbox.expr.nodes import Buffer
from pegbox.loops.nodes import Alloc, Function
from pegbox.loops.passes.notes import Notes
from pegbox.loops.visit import replace_buffer, walk


def align_storage(func: Function, notes: Notes, *, strict: bool = True) -> Function:
    """Enlarge buffers with a note: the stride of dimension `axis` becomes offset modulo factor.

    This runs after guards have been dropped, as padding must not count as room for extra elements.

    Args:
        strict: refuse strides that no padding gives; otherwise leave them unchanged, for buffers that are not as large
            as those of the program that is built.

    Raises:
        LoweringError: no padding of the next dimension gives that stride.
    """
    wanted = notes.alignments
    if not wanted:
        return func
    buffers = [s.buffer for s in walk(func.body) if isinstance(s, Alloc) and s.buffer.name in wanted]
    return func.with_body(replace_buffer(func.body, {b: _padded(b, wanted[b.name], strict) for b in buffers}))


def _padded(buffer: Buffer, items: Sequence[tuple[int, int, int]], strict: bool) -> Buffer:
    shape = list(buffer.shape)
    for behind, factor, offset in sorted(items, reverse=True):
        axis = len(shape) + behind
        inner = prod(shape[axis + 2 :])
        least = shape[axis + 1]
        fitting = (n for n in range(least, least + factor) if (n * inner - offset) % factor == 0)
        extent = next(fitting, None)
        if extent is None and strict:
            raise LoweringError(
                f"storage_align of {buffer.name}: its dimension {axis + 1} has steps of {inner} elements, so that no "
                f"stride of dimension {axis} is {offset} modulo {factor}; align an inner dimension, or ask for another"
            )
        shape[axis + 1] = least if extent is None else extent
    return Buffer(buffer.name, tuple(shape), buffer.dtype, buffer.scope)
