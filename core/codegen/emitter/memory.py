"""Emission of loads and stores: addresses from linear forms, vector accesses for dense lanes, masks.

An address is a pointer that outer loops made, plus a constant number of elements: that is what LLVM folds into one
addressing mode. Values that were just loaded or stored are remembered per buffer until something may change them.
"""

from __future__ import annotations

from pegbox.codegen.emitter import transposition
from pegbox.codegen.emitter.frame import Frame, Value
from pegbox.codegen.emitter.index import Index, Terms, splat, vector
from pegbox.codegen.emitter.lanes import Chunk, Offsets, Pattern, pattern
from pegbox.codegen.emitter.lltypes import align, int_vector, memory, memory_suffix, register
from pegbox.errors import CompileError
from pegbox.expr.low_level import VectorLoad, is_contiguous
from pegbox.expr.nodes import Buffer, Load

_SCALAR = Pattern(0, None, False, 0, True)


def pointer(frame: Frame, buffer: Buffer, terms: Terms, offset: int, *, inside: bool) -> str:
    """The address as a pointer register. `inside`: the whole access is known to lie in the buffer.

    Only then, and when no part of the sum is negative, every partial sum lies inside too and may say `inbounds`.
    """
    return _pointer(frame, buffer, terms, offset, inside and _is_rising(terms, offset))


def _is_rising(terms: Terms, offset: int) -> bool:
    return offset >= 0 and all(coef > 0 for _, coef in terms)


def _pointer(frame: Frame, buffer: Buffer, terms: Terms, offset: int, inbounds: bool) -> str:
    """Made loop by loop, the constant part last."""
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
    """The element of every live lane, at `where`; one scalar where all lanes read the same element."""
    buffer, mask = node.buffer, chunk.mask
    spread = _SCALAR if where.offsets is None else pattern(where.offsets)
    start = where.const + spread.base
    if where.vector is None and spread.offsets is None and mask is None:
        text = _load_plain(frame, buffer, where.terms, start, 0)
        return Value(text, buffer.dtype, 0)
    count = chunk.width
    if where.vector is None and spread.dense and mask is None:
        return Value(_load_plain(frame, buffer, where.terms, start, count), buffer.dtype, count)
    if where.vector is None and spread.dense:
        return Value(_load_masked(frame, buffer, where.terms, start, count, mask), buffer.dtype, count)
    if where.vector is None and mask is None and spread.offsets is not None and spread.span < 2 * count:
        text = _load_shuffled(frame, buffer, where.terms, start, spread.offsets, spread.span)
        return Value(text, buffer.dtype, count)
    if mask is None and _takes_turns(frame, node, count):
        rows = transposition.rows_of(frame, buffer, where)
        if rows is not None:
            return Value(_load_transposed(frame, buffer, where, rows), buffer.dtype, count)
    return Value(_gather(frame, buffer, where, count, mask), buffer.dtype, count)


def load_vector(frame: Frame, node: VectorLoad, where: Index) -> Value:
    """Neighbours as one value, in scalar code."""
    if not is_contiguous(node.buffer.shape, node.box):
        raise CompileError(f"{node}: these {node.lanes} elements are no neighbours in {node.buffer!r}; pack them first")
    text = _load_plain(frame, node.buffer, where.terms, where.const, node.lanes)
    return Value(text, node.buffer.dtype, node.lanes)


def store_vector(frame: Frame, buffer: Buffer, where: Index, value: Value) -> None:
    """A vector value to neighbours, in scalar code."""
    _store_plain(frame, buffer, where.terms, where.const, value.lanes, value.text)


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


def _to_byte(frame: Frame, text: str, count: int) -> str:
    return frame.op(f"zext {register('bool', count)} {text} to {memory('bool', count)}")


def _load_masked(frame: Frame, buffer: Buffer, terms: Terms, start: int, count: int, mask: str | None) -> str:
    ty, suffix = memory(buffer.dtype, count), memory_suffix(buffer.dtype, count)
    where = pointer(frame, buffer, terms, start, inside=False)
    places = ("ptr", where), ("i32", str(align(buffer.dtype))), _live(mask, count)
    return _loaded(frame, buffer, count, f"@llvm.masked.load.{suffix}.p0", *places, (ty, "zeroinitializer"))


def _loaded(frame: Frame, buffer: Buffer, count: int, function: str, *arguments: tuple[str, str]) -> str:
    """Emit a load by an intrinsic."""
    found = frame.text.fresh("x")
    frame.text.effect(f"{found} = {frame.module.call(function, memory(buffer.dtype, count), *arguments)}")
    return _to_bit(frame, found, count) if buffer.dtype == "bool" else found


def _load_shuffled(frame: Frame, buffer: Buffer, terms: Terms, start: int, offsets: Offsets, span: int) -> str:
    """Lanes close together (every second element, backwards, repeated): one or two vectors and a shuffle.

    Two vectors overlap so that nothing beyond the last lane's element is touched.
    """
    count = len(offsets)
    if span < count:
        width = span + 1
        first = _load_plain(frame, buffer, terms, start, width)
        second, picks = "poison", offsets
    else:
        width = count
        first = _load_plain(frame, buffer, terms, start, width)
        second = _load_plain(frame, buffer, terms, start + span + 1 - width, width)
        shift = span + 1 - width
        picks = tuple(o if o < width else width + o - shift for o in offsets)
    ty = register(buffer.dtype, width)
    return frame.op(f"shufflevector {ty} {first}, {ty} {second}, <{count} x i32> {int_vector(picks, 32)}")


def _takes_turns(frame: Frame, node: Load, count: int) -> bool:
    """Does an unrolled loop around go through elements that lie next to those of the lanes?"""
    form = frame.addresses(node)
    return any(0 < coef < count and frame.env.get(var).__class__ is int for var, coef in form.terms)


def _load_transposed(frame: Frame, buffer: Buffer, where: Index, rows: transposition.LaneRows) -> str:
    assert where.offsets is not None
    number = where.const + where.offsets[0] - rows.start

    def row(lane: int) -> str:
        return _load_plain(frame, buffer, where.terms, rows.start + lane * rows.stride, rows.width)

    return transposition.column(frame, buffer.dtype, len(where.offsets), rows.width, number, row)


def _pointers(frame: Frame, buffer: Buffer, where: Index, count: int) -> str:
    """One pointer per lane."""
    base = pointer(frame, buffer, where.terms, where.const, inside=False)
    text, level = vector(frame, Index(0, (), where.offsets, where.vector), count)
    if frame.registers.home.get(base) is None:
        level = None
    elif level is not None:
        level = frame.registers.home.get(base)
    return frame.at(level, f"getelementptr {memory(buffer.dtype, 0)}, ptr {base}, <{count} x i64> {text}")


def _gather(frame: Frame, buffer: Buffer, where: Index, count: int, mask: str | None) -> str:
    ty, suffix = memory(buffer.dtype, count), memory_suffix(buffer.dtype, count)
    pointers = _pointers(frame, buffer, where, count)
    places = (f"<{count} x ptr>", pointers), ("i32", str(align(buffer.dtype))), _live(mask, count)
    dead = ty, "zeroinitializer" if mask else "poison"
    return _loaded(frame, buffer, count, f"@llvm.masked.gather.{suffix}.v{count}p0", *places, dead)


def _live(mask: str | None, count: int) -> tuple[str, str]:
    """The argument that tells which lanes are accessed."""
    return register("bool", count), mask or "splat (i1 true)"


def broadcast(frame: Frame, value: Value, count: int) -> str:
    """The value in `count` lanes (0: as a scalar)."""
    if value.lanes or not count:
        return value.text
    return splat(frame, None, register(value.dtype, 0), value.text, count)


def store(frame: Frame, buffer: Buffer, where: Index, value: Value, chunk: Chunk) -> None:
    """Store every live lane. The caller has dealt with lanes that meet at one element."""
    spread = _SCALAR if where.offsets is None else pattern(where.offsets)
    start = where.const + spread.base
    if where.vector is None and spread.offsets is None:
        _store_plain(frame, buffer, where.terms, start, 0, value.text)
        return
    count = chunk.width
    text = broadcast(frame, value, count)
    if where.vector is not None or not spread.dense:
        reversal = _reversal(spread, count) if where.vector is None and chunk.mask is None else None
        if reversal is None:
            _scatter(frame, buffer, where, text, count, chunk.mask)
            return
        ty = register(buffer.dtype, count)
        text = frame.op(f"shufflevector {ty} {text}, {ty} poison, <{count} x i32> {reversal}")
    elif chunk.mask is not None:
        text_or_none = _blend(frame, buffer, where.terms, start, count, text, chunk.mask)
        if text_or_none is None:
            return
        text = text_or_none
    _store_plain(frame, buffer, where.terms, start, count, text)


def _reversal(spread: Pattern, count: int) -> str | None:
    """The shuffle that turns lanes stored backwards around; None for any other pattern."""
    backwards = tuple(range(count - 1, -1, -1))
    return int_vector(backwards, 32) if spread.offsets == backwards else None


def _blend(frame: Frame, buffer: Buffer, terms: Terms, start: int, count: int, text: str, mask: str) -> str | None:
    """A masked store. In a private tile at a constant place it is a blend with the old value instead (returned),
    because LLVM lifts no alloca into registers that a masked store touches."""
    if frame.buffers[buffer].private and not terms and start >= 0 and start + count <= buffer.size:
        ty = register(buffer.dtype, count)
        old = _load_plain(frame, buffer, terms, start, count)
        return frame.op(f"select <{count} x i1> {mask}, {ty} {text}, {ty} {old}")
    ty, suffix = memory(buffer.dtype, count), memory_suffix(buffer.dtype, count)
    if buffer.dtype == "bool":
        text = _to_byte(frame, text, count)
    places = ("ptr", pointer(frame, buffer, terms, start, inside=False)), ("i32", str(align(buffer.dtype)))
    name = f"@llvm.masked.store.{suffix}.p0"
    frame.text.effect(frame.module.call(name, "void", (ty, text), *places, (register("bool", count), mask)))
    frame.scope.memory.pop(buffer, None)
    return None


def _store_plain(frame: Frame, buffer: Buffer, terms: Terms, start: int, count: int, text: str) -> None:
    rising = _is_rising(terms, start)
    where = _pointer(frame, buffer, terms, start, rising)
    stored = _to_byte(frame, text, count) if buffer.dtype == "bool" else text
    frame.text.lines.append(f"  store {memory(buffer.dtype, count)} {stored}, ptr {where}, align {align(buffer.dtype)}")
    frame.scope.memory[buffer].stored((_pointer(frame, buffer, terms, 0, rising), start, count), text)


def _scatter(frame: Frame, buffer: Buffer, where: Index, text: str, count: int, mask: str | None) -> None:
    ty, suffix = memory(buffer.dtype, count), memory_suffix(buffer.dtype, count)
    if buffer.dtype == "bool":
        text = _to_byte(frame, text, count)
    pointers = _pointers(frame, buffer, where, count)
    places = (f"<{count} x ptr>", pointers), ("i32", str(align(buffer.dtype))), _live(mask, count)
    frame.text.effect(frame.module.call(f"@llvm.masked.scatter.{suffix}.v{count}p0", "void", (ty, text), *places))
    frame.scope.memory.pop(buffer, None)
