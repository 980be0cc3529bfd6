"""Pass: store the buffer annotations of blocks in `Function.notes`, before the blocks are removed.

Block annotations: ("buffer_dim_align", ((buffer index, axis, factor, offset), ...)) and ("double_buffer_scope", buffer
index), as in TVM. The passes `storage_align` and `double_buffer` act on the notes. An earlier pass, `rolling_buffer`,
handles ("rolling_buffer", buffer index). ("stored_in", name of an output) applies to the only buffer that a block
writes; `shared_storage` acts on it. Notes refer to buffers by name, because passes in between replace buffers but keep
their names, and count dimensions from the end, because some passes insert dimensions in front.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pegbox.errors import LoweringError
from pegbox.expr.nodes import Buffer
from pegbox.loops.nodes import Block, BlockRealize, For, Function, Region
from pegbox.loops.visit import common_path, paths, realizes

ALIGN = "buffer_dim_align"
DOUBLE = "double_buffer_scope"
ROLLING = "rolling_buffer"
STORED = "stored_in"


@dataclass(frozen=True, slots=True)
class Notes:
    """The notes on buffers, by name.

    Attributes:
        alignments: the requested strides, as (dimension, factor, offset).
        doubles: the buffers to be doubled.
        homes: the names of the outputs that store the elements of buffers.
    """

    alignments: Mapping[str, Sequence[tuple[int, int, int]]]
    doubles: Sequence[str]
    homes: Mapping[str, str]


def collect_notes(func: Function) -> Notes:
    """Collect the notes about buffers from a function's blocks; buffers must have different names.

    Raises:
        LoweringError: an annotation is malformed, is about a parameter, or requests a double buffer outside loops.
    """
    alignments: dict[Buffer, dict[tuple[int, int, int], None]] = {}
    doubles: dict[Buffer, None] = {}
    homes: dict[Buffer, str] = {}
    for realize in realizes(func.body):
        for key, value in realize.block.annotations:
            if key == ALIGN:
                for buffer, asked in _alignments(realize.block, value):
                    alignments.setdefault(buffer, {})[asked] = None
            elif key == DOUBLE:
                buffer = noted_buffer(realize.block, key, value)
                users = [p for p in paths(func.body) if isinstance(p[-1], BlockRealize) and _uses(p[-1].block, buffer)]
                common = common_path([[s for s in path if isinstance(s, For)] for path in users])
                if not common:
                    raise LoweringError(
                        f"{DOUBLE} of {buffer.name}: no loop makes it again and again; compute_at a loop of its "
                        "consumer first"
                    )
                if any(x.extent > 1 for x in common):
                    doubles[buffer] = None
            elif key == STORED:
                homes[noted_buffer(realize.block, key, 0)] = str(value)
    for key, buffer in (*((ALIGN, b) for b in alignments), *((DOUBLE, b) for b in doubles)):
        if buffer in homes:
            raise LoweringError(f"{key} of {buffer.name}: it is stored in {homes[buffer]}; take one of the notes off")
        if buffer in func.params:
            raise LoweringError(
                f"{key} of {buffer.name}: it is a parameter, whose layout the caller decides; take the note off, or "
                "cache_read or cache_write it first"
            )
    strides = {b.name: list(asked) for b, asked in alignments.items()}
    return Notes(strides, [b.name for b in doubles], {b.name: home for b, home in homes.items()})


def has_alignment(realize: BlockRealize, buffer: Buffer) -> bool:
    """Check if a note of the block, or of one inside it, sets the strides of a buffer that it writes."""
    return any(
        any(key == ALIGN for key, _ in inner.block.annotations) and any(w.buffer is buffer for w in inner.block.writes)
        for inner in realizes(realize)
    )


def alignment(value: Any) -> tuple[tuple[int, int, int, int], ...] | None:
    """Return the value of a `buffer_dim_align` note; None if it is malformed."""
    items = value if isinstance(value, tuple) else None
    if items is None or not all(isinstance(i, tuple) and len(i) == 4 and all(type(n) is int for n in i) for i in items):
        return None
    return items


def with_writes(block: Block, writes: Sequence[Region]) -> tuple[tuple[str, Any], ...]:
    """Return the annotations for a block whose written regions change to these: a note follows its buffer.

    If the same number of buffers replaced the old ones, the notes do not change.
    """
    before = list(dict.fromkeys(w.buffer for w in block.writes))
    after = list(dict.fromkeys(w.buffer for w in writes))
    numbers = {n: after.index(b) for n, b in enumerate(before) if b in after}
    if len(before) == len(after):
        numbers = {n: numbers.get(n, n) for n in range(len(before))}
    moved = ((key, _renumbered(key, value, numbers)) for key, value in block.annotations)
    return tuple((key, value) for key, value in moved if value is not None)


def _renumbered(key: str, value: Any, numbers: Mapping[int, int]) -> Any:
    """Return the value of an annotation with its buffers renumbered; None if they no longer exist."""
    items = alignment(value) if key == ALIGN else None
    if items is not None:
        return tuple((numbers[which], *rest) for which, *rest in items if which in numbers) or None
    return numbers.get(value) if key in (DOUBLE, ROLLING) and type(value) is int else value


def _alignments(block: Block, value: Any) -> Iterator[tuple[Buffer, tuple[int, int, int]]]:
    items = alignment(value)
    if items is None:
        raise LoweringError(
            f"block {block.name}: {ALIGN} = {value!r} is not a list of [buffer index, axis, factor, offset]; "
            "let storage_align write it"
        )
    for which, axis, factor, offset in items:
        buffer = noted_buffer(block, ALIGN, which)
        if not (0 <= axis < len(buffer.shape) - 1 and factor > 0 and 0 <= offset < factor):
            raise LoweringError(
                f"block {block.name}: {ALIGN} asks of {buffer.name} axis {axis}, factor {factor}, offset {offset}; "
                f"of its {len(buffer.shape)} dimensions all but the last can be aligned, with 0 <= offset < factor: "
                "let storage_align write the note"
            )
        yield buffer, (axis - len(buffer.shape), factor, offset)


def noted_buffer(block: Block, key: str, which: Any) -> Buffer:
    """Return the buffer that a note gives by its position among those that the block writes.

    Raises:
        LoweringError: there is no such buffer.
    """
    written = list(dict.fromkeys(w.buffer for w in block.writes))
    if type(which) is not int or not 0 <= which < len(written):
        raise LoweringError(
            f"block {block.name}: {key} speaks of buffer {which!r}; it writes {len(written)}, from 0 on"
        )
    return written[which]


def _uses(block: Block, buffer: Buffer) -> bool:
    return any(region.buffer is buffer for region in (*block.reads, *block.writes))
