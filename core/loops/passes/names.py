"""Pass: give buffers of the same name different names."""

from __future__ import annotations

from dataclasses import replace

from pegbox.expr.nodes import Buffer
from pegbox.expr.printer import unused_name
from pegbox.loops.nodes import Alloc, Function
from pegbox.loops.visit import replace_buffer, walk


def name_apart(func: Function) -> Function:
    """Number the intermediate buffers that are called as another one, as the printer does: `T`, `T_1`."""
    # What is allocated inside keeps its name, and it may be used for that alone.
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
