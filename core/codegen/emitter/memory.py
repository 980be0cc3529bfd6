"""Emission of loads and stores: addresses from linear forms, vector accesses for dense lanes, masks.

An address is a pointer computed in outer loops, plus a constant number of elements, which LLVM folds into one
addressing mode. Values that were just loaded or stored are remembered per buffer until a store may change them.
"""

from __future__ import annotations

from pegbox.codegen.emitter import transposition
from pegbox.codegen.emitter.alternate_elements import alternate_elements
from pegbox.codegen.emitter.frame import Frame, Value
from pegbox.codegen.emitter.index import Index, Terms, splat, value_range, vector
from pegbox.codegen.emitter.lanes import Chunk, Offsets, Pattern, pattern
from pegbox.codegen.emitter.lltypes import align, int_vector, memory, memory_suffix, register
from pegbox.codegen.targets import features
from pegbox.errors import CompileError
from pegbox.expr import nbytes
from pegbox.expr.low_level import VectorLoad, is_contiguous
from pegbox.expr.nodes import Buffer, Load

_SCALAR = Pattern(0, None, False, 0, True)
_BLOCK = 16
"""The bytes of the blocks inside which a shuffle moves lanes by places encoded in its instruction."""

_MASKED = "float32", "float64"
"""The types of elements that AVX-512 adds and multiplies under masks."""

_REGISTERS = 16, 32, 64
"""The bytes of x86's vector registers."""

_LEAST_BYTES = 4
"""The bytes of the smallest elements for which AVX has masked loads."""


def pointer(frame: Frame, buffer: Buffer, terms: Terms, offset: int) -> str:
    """Make the address of an access that may lie outside its buffer, as a pointer register."""
    return _pointer(frame, buffer, terms, offset, False)


def _is_rising(terms: Terms, offset: int) -> bool:
    """Decide if no part of an address is negative, so that every partial sum lies in the buffer if the whole does."""
    if offset < 0:
        return False
    for _, coef in terms:  # noqa: SIM110 (a generator takes three times as long, and each access asks)
        if coef < 0:
            return False
    return True


def _pointer(frame: Frame, buffer: Buffer, terms: Terms, offset: int, inbounds: bool) -> str:
    """Make an address loop by loop, the constant part last."""
    if not terms and not offset:
        return frame.buffers[buffer].register
    key = (buffer, terms, offset, inbounds)
    found = frame.pointers.get(key)
    if found is not None:
        return found
    element, flag = memory(buffer.dtype, 0), "inbounds " if inbounds else ""
    outer = _pointer(frame, buffer, terms if offset else terms[:-1], 0, inbounds)
    name, coef = (str(offset), 1) if offset else terms[-1]
    level = frame.registers.home.get(outer) if offset else frame.registers.deeper(outer, name)
    if coef > 0:
        # An array type scales the index without a multiplication of its own.
        scaled = element if coef == 1 else f"[{coef} x {element}]"
        result = frame.at(level, f"getelementptr {flag}{scaled}, ptr {outer}, i64 {name}")
    else:
        scaled = frame.at(level, f"mul i64 {name}, {coef}")
        result = frame.at(level, f"getelementptr {element}, ptr {outer}, i64 {scaled}")
    if level is not None:
        frame.pointers[key] = result
    return result


def load(frame: Frame, node: Load, where: Index, chunk: Chunk) -> Value:
    """Load the element of every live lane, at `where`; one scalar if all lanes read the same element."""
    return Value(*_loaded(frame, node, where, chunk))


def _loaded(frame: Frame, node: Load, where: Index, chunk: Chunk) -> tuple[str, str, int]:
    buffer, mask, count = node.buffer, chunk.mask, chunk.width
    if where.vector is None:
        spread = _SCALAR if where.offsets is None else pattern(where.offsets)
        start = where.const + spread.base
        if spread.offsets is None and mask is None:
            return _load_plain(frame, buffer, where.terms, start, 0), buffer.dtype, 0
        if mask is None and _spans_registers(frame, buffer, where.terms, start, spread, count):
            return _load_registers(frame, buffer, start, spread.offsets or ()), buffer.dtype, count
        if spread.dense and mask is None:
            return _load_plain(frame, buffer, where.terms, start, count), buffer.dtype, count
        if spread.dense:
            place = "ptr", pointer(frame, buffer, where.terms, start)
            return _load_masked(frame, "load", buffer, place, mask, count), buffer.dtype, count
        if mask is None and spread.offsets is not None and spread.span < 2 * count:
            text = _load_shuffled(frame, buffer, where.terms, start, spread.offsets, spread.span)
            return text, buffer.dtype, count
        if mask is not None and _is_near(frame, buffer, spread, count):
            return _load_chosen(frame, buffer, where.terms, start, spread, mask), buffer.dtype, count
        if mask is not None and spread.offsets is None and _has_elements(buffer):
            return _load_same(frame, buffer, where.terms, start, mask, count), buffer.dtype, 0
    # Does an enclosing unrolled loop visit elements next to those of the lanes?
    if mask is None and any(
        0 < coef < count and frame.env.get(var).__class__ is int for var, coef in frame.addresses(node).terms
    ):
        rows = transposition.rows_of(frame, buffer, where)
        if rows is not None and where.offsets is not None:
            number = where.const + where.offsets[0] - rows.start

            def row(lane: int) -> str:
                return _load_plain(frame, buffer, where.terms, rows.start + lane * rows.stride, rows.width)

            return transposition.column(frame, buffer.dtype, count, rows.width, number, row), buffer.dtype, count
    place = f"<{count} x ptr>", _pointers(frame, buffer, where, count)
    return _load_masked(frame, "gather", buffer, place, mask, count), buffer.dtype, count


def load_vector(frame: Frame, node: VectorLoad, where: Index) -> Value:
    """Load neighbouring elements as one value, in scalar code."""
    if not is_contiguous(node.buffer.shape, node.box):
        raise CompileError(f"{node}: these {node.lanes} elements are not adjacent in {node.buffer!r}; pack them first")
    text = _load_plain(frame, node.buffer, where.terms, where.const, node.lanes)
    return Value(text, node.buffer.dtype, node.lanes)


def _load_plain(frame: Frame, buffer: Buffer, terms: Terms, start: int, count: int) -> str:
    rising = _is_rising(terms, start)
    cache, key = frame.scope.memory[buffer], (_pointer(frame, buffer, terms, 0, rising), start, count)
    found = cache.entries.get(key)
    if found is None:
        where = _pointer(frame, buffer, terms, start, rising)
        found = frame.text.fresh("x")
        ty = memory(buffer.dtype, count)
        frame.text.lines.append(f"  {found} = load {ty}, ptr {where}, align {align(buffer.dtype)}")
        if buffer.dtype == "bool":
            found = _to_bit(frame, found, count)
        cache.add(key, found)
    return found


def _to_bit(frame: Frame, text: str, count: int) -> str:
    return frame.op(f"icmp ne {memory('bool', count)} {text}, zeroinitializer" if count else f"icmp ne i8 {text}, 0")


def _to_memory(frame: Frame, buffer: Buffer, text: str, count: int) -> str:
    """Convert a value to the type that the buffer stores: bool becomes a byte."""
    if buffer.dtype != "bool":
        return text
    return frame.op(f"zext {register('bool', count)} {text} to {memory('bool', count)}")


def _masked(
    frame: Frame, kind: str, buffer: Buffer, place: tuple[str, str], mask: str | None, count: int, value: str
) -> str:
    """Write a call of `@llvm.masked.<kind>`; `value` is the value to store, or that of the dead lanes of a load."""
    ty, many = memory(buffer.dtype, count), "" if place[0] == "ptr" else f"v{count}"
    name = f"@llvm.masked.{kind}.{memory_suffix(buffer.dtype, count)}.{many}p0"
    where = place, ("i32", str(align(buffer.dtype))), (register("bool", count), mask or "splat (i1 true)")
    if kind in ("load", "gather"):
        return frame.module.call(name, ty, *where, (ty, value))
    return frame.module.call(name, "void", (ty, value), *where)


def _load_masked(frame: Frame, kind: str, buffer: Buffer, place: tuple[str, str], mask: str | None, count: int) -> str:
    if kind == "load" and mask:
        cache, key = frame.scope.memory[buffer], (f"{place[1]} {mask}", 0, count)
        if key not in cache.entries:
            found = _unfolded(frame, buffer, _written_load(frame, kind, buffer, place, mask, count), count)
            cache.add(key, _to_bit(frame, found, count) if buffer.dtype == "bool" else found)
        return cache.entries[key]
    found = _written_load(frame, kind, buffer, place, mask, count)
    return _to_bit(frame, found, count) if buffer.dtype == "bool" else found


def _written_load(frame: Frame, kind: str, buffer: Buffer, place: tuple[str, str], mask: str | None, count: int) -> str:
    found = frame.text.fresh("x")
    dead = "zeroinitializer" if mask else "poison"
    frame.text.effect(f"{found} = {_masked(frame, kind, buffer, place, mask, count, dead)}")
    return found


def _unfolded(frame: Frame, buffer: Buffer, text: str, count: int) -> str:
    """Pass loaded lanes through an empty assembly statement, so that the load keeps its mask.

    LLVM 22 makes a masked load an operand of arithmetic under the same mask, and may then load that operand apart from
    it, without a mask (docs/llvm-defects.md).
    """
    target, size = frame.module.target, nbytes(buffer.dtype)
    has_masks = features.has(target, "avx512f" if size >= _LEAST_BYTES else "avx512bw")
    if not has_masks or count * size not in _REGISTERS:
        return text
    ty = memory(buffer.dtype, count)
    return frame.op(f'call {ty} asm "", "=v,0"({ty} {text}) memory(none)')


def _load_shuffled(frame: Frame, buffer: Buffer, terms: Terms, start: int, offsets: Offsets, span: int) -> str:
    """Load lanes close together (every second element, backwards, repeated) by one or two vectors and a shuffle.

    Two vectors overlap so that nothing beyond the last lane's element is touched. A number of elements that is not a
    power of two has no load: the elements are picked from a whole vector if that lies in the buffer and no lane leaves
    its block. A shuffle across blocks would need a register for the places of its lanes.
    """
    count = len(offsets)
    width = min(span + 1, count)
    begin = start - start % count
    if width & (width - 1) and start + span < begin + count and _has_whole_vectors(frame, buffer, terms, count):
        places, block = tuple(offset + start - begin for offset in offsets), max(_BLOCK // nbytes(buffer.dtype), 1)
        if all(place // block == lane // block for lane, place in enumerate(places)):
            start, width, offsets = begin, count, places
    first, second, picks = _load_plain(frame, buffer, terms, start, width), "poison", offsets
    if span >= count:
        shift = span + 1 - width
        second = _load_plain(frame, buffer, terms, start + shift, width)
        picks = tuple(o if o < width else width + o - shift for o in offsets)
    ty = register(buffer.dtype, width)
    text = frame.op(f"shufflevector {ty} {first}, {ty} {second}, <{count} x i32> {int_vector(picks, 32)}")
    return text if len({*picks}) == count else _repeated(frame, buffer.dtype, text, count)


def _repeated(frame: Frame, dtype: str, text: str, count: int) -> str:
    """Pass a shuffled vector through an empty assembly statement if LLVM 22 would never finish adding it to itself.

    This concerns 64 bytes of which some are repeated, and also their product with two (docs/llvm-defects.md).
    """
    if dtype not in ("int8", "uint8") or count != 64 or not features.has(frame.module.target, "avx512bw"):
        return text
    ty = register(dtype, count)
    return frame.op(f'call {ty} asm "", "=v,0"({ty} {text})')


def _has_whole_vectors(frame: Frame, buffer: Buffer, terms: Terms, count: int) -> bool:
    """Decide if a buffer consists of whole vectors of `count`, and all coefficients of an address are multiples of
    `count`.

    A private buffer does not count, because its elements may live in separate registers.
    """
    return (
        not frame.buffers[buffer].private and buffer.size % count == 0 and all(coef % count == 0 for _, coef in terms)
    )


def _spans_registers(frame: Frame, buffer: Buffer, terms: Terms, start: int, spread: Pattern, count: int) -> bool:
    """Decide if lanes lie, at constant places, in two or three of the vectors that a register tile consists of.

    The rows of such a tile are whole vectors; other rows are stored differently.
    """
    if terms or spread.offsets is None or not frame.buffers[buffer].private or count & (count - 1):
        return False
    if buffer.shape[-1] % count:
        return False
    end = -(-(start + spread.span + 1) // count) * count
    return 1 < len(_registers(start, spread.offsets)) <= 3 and start >= 0 and end <= buffer.size


def _registers(start: int, offsets: Offsets) -> list[int]:
    """List the beginnings of the vectors that contain the lanes."""
    count = len(offsets)
    return sorted({(start + offset) // count * count for offset in offsets})


def _load_registers(frame: Frame, buffer: Buffer, start: int, offsets: Offsets) -> str:
    """Load lanes from two or three vectors of a register tile.

    A load that spans vectors would force the tile into memory.
    """
    count = len(offsets)
    ty, places = register(buffer.dtype, count), _registers(start, offsets)
    first, *others = places
    text = _load_plain(frame, buffer, (), first, count)
    if start - first < 2 and offsets == tuple(range(0, 2 * count, 2)):
        other = _load_plain(frame, buffer, (), others[0], count)
        if (found := alternate_elements(frame, buffer.dtype, text, other, start - first, count)) is not None:
            return found
    lane_of = {place + lane: count * number + lane for number, place in enumerate(places) for lane in range(count)}
    picks = tuple(lane_of[start + offset] for offset in offsets)
    for place in others:
        more = _load_plain(frame, buffer, (), place, count)
        # Lanes that were chosen already stay where they are; the other lanes wait.
        lanes = [pick if pick < 2 * count else 0 for pick in picks]
        text = frame.op(f"shufflevector {ty} {text}, {ty} {more}, <{count} x i32> {int_vector(tuple(lanes), 32)}")
        picks = tuple(lane if pick < 2 * count else pick - count for lane, pick in enumerate(picks))
    return text


def _is_near(frame: Frame, buffer: Buffer, spread: Pattern, count: int) -> bool:
    """Decide if masked loads of two vectors cover all lanes, and the processor has instructions for them."""
    close = spread.offsets is not None and spread.distinct and spread.span < 2 * count
    return close and nbytes(buffer.dtype) >= _LEAST_BYTES and features.has(frame.module.target, "avx")


def _load_chosen(frame: Frame, buffer: Buffer, terms: Terms, start: int, spread: Pattern, mask: str) -> str:
    """Load live lanes close together by masked loads of one or two vectors, and a shuffle; dead lanes are zeros.

    It takes a third of the time of a gather. The mask's bits are moved to the places that the lanes read, so elements
    between these are not touched.
    """
    assert spread.offsets is not None
    count = len(spread.offsets)
    lane_at = {place: lane for lane, place in enumerate(spread.offsets)}
    parts = []
    for first in range(0, spread.span + 1, count):
        lanes = tuple(lane_at.get(first + place, count) for place in range(count))
        bits = register("bool", count)
        moved = frame.op(
            f"shufflevector {bits} {mask}, {bits} zeroinitializer, <{count} x i32> {int_vector(lanes, 32)}"
        )
        place = "ptr", pointer(frame, buffer, terms, start + first)
        parts.append(_load_masked(frame, "load", buffer, place, moved, count))
    ty = register(buffer.dtype, count)
    second = parts[1] if len(parts) > 1 else "poison"
    picks = int_vector(spread.offsets, 32)
    return frame.op(f"shufflevector {ty} {parts[0]}, {ty} {second}, <{count} x i32> {picks}")


def _has_elements(buffer: Buffer) -> bool:
    """Decide if the buffer is known to have an element."""
    return all(isinstance(extent, int) and extent > 0 for extent in buffer.shape)


def _load_same(frame: Frame, buffer: Buffer, terms: Terms, start: int, mask: str, count: int) -> str:
    """Load the element that all live lanes read; if none is live, the buffer's first one, which is always there.

    A gather would take a step for each lane. LLVM drops the select if it knows that a lane is live.
    """
    live = any_lane(frame, mask, count)
    address, first = pointer(frame, buffer, terms, start), frame.buffers[buffer].register
    where = frame.op(f"select i1 {live}, ptr {address}, ptr {first}")
    found = frame.text.fresh("x")
    frame.text.effect(f"{found} = load {memory(buffer.dtype, 0)}, ptr {where}, align {align(buffer.dtype)}")
    return _to_bit(frame, found, 0) if buffer.dtype == "bool" else found


def any_lane(frame: Frame, mask: str, count: int) -> str:
    """Emit a test that at least one lane is live."""
    text = frame.module.call(f"@llvm.vector.reduce.or.v{count}i1", "i1", (register("bool", count), mask))
    return frame.op(text)


def _pointers(frame: Frame, buffer: Buffer, where: Index, count: int) -> str:
    """Make one pointer per lane."""
    base = pointer(frame, buffer, where.terms, where.const)
    text, level = vector(frame, Index(0, (), where.offsets, where.vector), count)
    if level is not None or frame.registers.home.get(base) is None:
        level = frame.registers.home.get(base)
    return frame.at(level, f"getelementptr {memory(buffer.dtype, 0)}, ptr {base}, <{count} x i64> {text}")


def broadcast(frame: Frame, value: Value, count: int) -> str:
    """Broadcast the value to `count` lanes (0: leave it a scalar)."""
    if value.lanes or not count:
        return value.text
    return splat(frame, None, register(value.dtype, 0), value.text, count)


def store(frame: Frame, buffer: Buffer, where: Index, value: Value, chunk: Chunk) -> None:
    """Store every live lane. The caller handles lanes that coincide at one element."""
    spread = _SCALAR if where.offsets is None else pattern(where.offsets)
    start = where.const + spread.base
    if where.vector is None and spread.offsets is None:
        _store_plain(frame, buffer, where.terms, start, 0, value.text)
        return
    count, ty = chunk.width, register(buffer.dtype, chunk.width)
    text = broadcast(frame, value, count)
    if where.vector is not None or not spread.dense:
        backwards = tuple(range(count - 1, -1, -1))
        if where.vector is not None or chunk.mask is not None or spread.offsets != backwards:
            text = _to_memory(frame, buffer, text, count)
            place = f"<{count} x ptr>", _pointers(frame, buffer, where, count)
            _store_masked(frame, "scatter", buffer, place, chunk.mask, count, text)
            return
        text = frame.op(f"shufflevector {ty} {text}, {ty} poison, <{count} x i32> {int_vector(backwards, 32)}")
    elif chunk.mask is not None:
        if not (frame.buffers[buffer].private and is_inside(frame, buffer, where)):
            text = _to_memory(frame, buffer, text, count)
            place = "ptr", pointer(frame, buffer, where.terms, start)
            _store_masked(frame, "store", buffer, place, chunk.mask, count, text)
            return
        # LLVM does not promote an alloca to registers if a masked store touches it, and a later load of the vector
        # waits for such a store: so in a private buffer, the value is blended with the old one. Lanes that only guards
        # exclude need no old value, with which LLVM would blend the sums of an unrolled loop at its end.
        if chunk.kept is not None:
            old = _load_plain(frame, buffer, where.terms, start, count)
            text = _blended(frame, buffer.dtype, chunk.kept, text, old, count)
    _store_plain(frame, buffer, where.terms, start, count, text)


def _blended(frame: Frame, dtype: str, kept: str, text: str, old: str, count: int) -> str:
    """Choose the new value in the kept lanes.

    With AVX-512, LLVM makes one instruction of a multiply-add and this choice, unless it knows the mask's bits, or the
    next choice has the same mask: it then chooses once, at the end, and copies all old values. Empty assembly
    statements hide the bits and the choice.
    """
    ty = register(dtype, count)
    is_register = dtype in _MASKED and count * nbytes(dtype) in _REGISTERS
    if not is_register or not features.has(frame.module.target, "avx512vl"):
        return frame.op(f"select <{count} x i1> {kept}, {ty} {text}, {ty} {old}")
    if kept.startswith("<"):
        bits = sum(1 << lane for lane, bit in enumerate(kept.split(",")) if "true" in bit)
        entry = frame.text.entry
        hidden = frame.at(entry, f'call i32 asm "", "=r,0"(i32 {bits})')
        narrow = frame.at(entry, f"trunc i32 {hidden} to i{count}")
        kept = frame.at(entry, f"bitcast i{count} {narrow} to <{count} x i1>")
    chosen = frame.op(f"select <{count} x i1> {kept}, {ty} {text}, {ty} {old}")
    return frame.op(f'call {ty} asm "", "=v,0"({ty} {chosen})')


def is_inside(frame: Frame, buffer: Buffer, where: Index) -> bool:
    """Decide if all lanes, including dead ones, are inside the buffer."""
    bounds = value_range(frame, where)
    return bounds is not None and bounds[0] >= 0 and bounds[1] < buffer.size


def _store_masked(
    frame: Frame, kind: str, buffer: Buffer, place: tuple[str, str], mask: str | None, count: int, text: str
) -> None:
    frame.text.effect(_masked(frame, kind, buffer, place, mask, count, text))
    frame.scope.memory.pop(buffer, None)


def store_vector(frame: Frame, buffer: Buffer, where: Index, value: Value) -> None:
    """Store a vector value to neighbouring elements, in scalar code."""
    _store_plain(frame, buffer, where.terms, where.const, value.lanes, value.text)


def _store_plain(frame: Frame, buffer: Buffer, terms: Terms, start: int, count: int, text: str) -> None:
    rising = _is_rising(terms, start)
    where = _pointer(frame, buffer, terms, start, rising)
    stored, how = _to_memory(frame, buffer, text, count), f"align {align(buffer.dtype)}"
    size = frame.module.target.vector_bits // 8
    if buffer is frame.nontemporal and count * nbytes(buffer.dtype) == size:
        how = f"align {size}, !nontemporal {frame.module.one}"
        frame.has_nontemporal = True
    frame.text.lines.append(f"  store {memory(buffer.dtype, count)} {stored}, ptr {where}, {how}")
    frame.scope.memory[buffer].stored((_pointer(frame, buffer, terms, 0, rising), start, count), text)
