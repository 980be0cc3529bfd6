"""The last vector of a row, of which only a part is used, stored under a mask.

Without a mask, the remainder of a row is stored in pieces, powers of two, which must be extracted from the vector
first. A store under a constant mask is one instruction with AVX-512, as cheap as any other store; AVX2's takes many
cycles on AMD's processors.
"""

from __future__ import annotations

from pegbox.codegen.emitter import memory
from pegbox.codegen.emitter.expressions import address, evaluate
from pegbox.codegen.emitter.frame import Frame
from pegbox.codegen.emitter.lanes import Chunk, Lanes, pattern
from pegbox.codegen.targets import features
from pegbox.expr import dtypes
from pegbox.expr.low_level import is_machine_call
from pegbox.expr.nodes import Binary, Call, Expr, Load
from pegbox.expr.visit import children
from pegbox.loops.nodes import Store

_FEATURE = "avx512vl"
_BITS = (32, 64)
"""The bits of elements whose masked stores need no other feature."""


def write(frame: Frame, stmt: Store, chunks: list[Chunk]) -> list[Chunk]:
    """Write the pieces at the end as part of one vector, if that is safe; return the chunks that are left."""
    if len(chunks) < 2 or frame.buffers[stmt.buffer].private or not features.has(frame.module.target, _FEATURE):
        return chunks
    whole = [chunk for chunk in chunks if chunk.width == chunks[0].width] if _is_full(frame, stmt, chunks[0]) else []
    rest = chunks[len(whole) :]
    vector = _vector(rest)
    if vector is None or not _is_harmless(frame, stmt, vector):
        return chunks
    where, value = address(frame, stmt, vector), evaluate(frame, stmt.value, vector)
    live = sum(chunk.width for chunk in rest)
    lanes = ", ".join(f"i1 {'true' if lane < live else 'false'}" for lane in range(vector.width))
    memory.store(frame, stmt.buffer, where, value, vector._replace(mask=f"<{lanes}>", kept=f"<{lanes}>"))
    return whole


def _is_full(frame: Frame, stmt: Store, chunk: Chunk) -> bool:
    return chunk.width * dtypes.BITS[stmt.buffer.dtype] >= frame.module.target.vector_bits


def _vector(pieces: list[Chunk]) -> Chunk | None:
    """Make one vector from several pieces, with lanes beyond their end; None if the pieces belong to nested loops, are
    masked, or have gaps between them where a condition is false.
    """
    lanes = [piece.lanes for piece in pieces if piece.mask is None and piece.lanes is not None]
    if len(pieces) < 2 or len(lanes) < len(pieces) or len(lanes[0].values) != 1:
        return None
    (var,) = lanes[0].values
    values = [value for each in lanes for value in each.values[var]]
    row = tuple(range(values[0], values[0] + (1 << len(values).bit_length())))
    return Chunk(Lanes(len(row), {var: row}), None) if tuple(values) == row[: len(values)] else None


def _is_harmless(frame: Frame, stmt: Store, vector: Chunk) -> bool:
    """Decide if a store goes to neighbouring elements, and lanes beyond its end can be computed."""
    if not dtypes.is_float(stmt.value.dtype) or dtypes.BITS[stmt.buffer.dtype] not in _BITS:
        return False
    if not frame.addresses(stmt).is_index:
        return False
    place = address(frame, stmt, vector)
    is_dense = place.vector is None and place.offsets is not None and pattern(place.offsets).dense
    return is_dense and _is_defined(frame, stmt.value, vector)


def _is_defined(frame: Frame, expr: Expr, vector: Chunk) -> bool:
    """Decide if all lanes have a value: they do not divide integers, and they read one common element, or whole vectors
    of register tiles.
    """
    if isinstance(expr, Load):
        return type(expr) is Load and _is_readable(frame, expr, vector)
    if isinstance(expr, Binary) and expr.op in ("floordiv", "floormod"):
        return False
    if isinstance(expr, Call) and is_machine_call(expr.name):
        return False
    return all(_is_defined(frame, part, vector) for part in children(expr))


def _is_readable(frame: Frame, load: Load, vector: Chunk) -> bool:
    if not frame.addresses(load).is_index:
        return False  # its address reads memory or divides by a value, which is undefined beyond the end
    place, count = address(frame, load, vector), vector.width
    if place.vector is not None or place.offsets is None:
        return place.vector is None
    start = place.const + place.offsets[0]
    is_vector = pattern(place.offsets).dense and not place.terms and frame.buffers[load.buffer].private
    return is_vector and load.buffer.shape[-1] % count == start % count == 0 <= start <= load.buffer.size - count
