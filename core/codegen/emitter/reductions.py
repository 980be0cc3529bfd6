"""Reductions across lanes: stores of all lanes of a vectorized loop to one element.

`buf[i] = buf[i] op value` with `i` the same in every lane becomes one reduction of the lanes' values, reassociated,
which the schedule permits by vectorizing a reduction loop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain

from pegbox.codegen.emitter import arithmetic, memory, narrow_floats
from pegbox.codegen.emitter.call_groups import call_groups
from pegbox.codegen.emitter.expressions import address, evaluate, in_bounds, load
from pegbox.codegen.emitter.frame import Frame, Value
from pegbox.codegen.emitter.index import Index
from pegbox.codegen.emitter.lanes import SCALAR, Chunk, pattern
from pegbox.codegen.emitter.lltypes import constant, int_vector, register, suffix
from pegbox.expr import dtypes
from pegbox.expr.nodes import Const, Expr
from pegbox.loops.nodes import Store
from pegbox.loops.reductions.update import update


def write(frame: Frame, stmt: Store, chunks: list[Chunk]) -> bool:
    """Write `stmt` as a reduction if it is one: if all chunks go to the same single element."""
    first = address(frame, stmt, chunks[0])
    if not _is_single(first) or (found := update(stmt)) is None:
        return False
    places = [first, *(address(frame, stmt, chunk) for chunk in chunks[1:])]
    if not all(map(_is_single, places)):
        return False
    firsts = {(p.const + (pattern(p.offsets).base if p.offsets else 0), p.terms) for p in places}
    op, old, expr = found
    # The element must exist, since it is written back unchanged if every lane is dead.
    exists = all(chunk.mask is None for chunk in chunks) or in_bounds(frame, old, chunks[0])
    if len(firsts) != 1 or not exists:
        return False
    before = load(frame, old, chunks[0]._replace(mask=None))
    total = _reduce(frame, op, expr, chunks)
    memory.store(frame, stmt.buffer, places[0], arithmetic.binary(frame, op, before, total), SCALAR)
    return True


def _is_single(place: Index) -> bool:
    """Decide if all lanes go to one element."""
    return place.vector is None and (place.offsets is None or pattern(place.offsets).offsets is None)


def _reduce(frame: Frame, op: str, expr: Expr, chunks: list[Chunk]) -> Value:
    """Reduce all lanes of all chunks to one scalar; equally wide vectors are first combined lane by lane."""
    partial: dict[int, list[Value]] = {}
    for chunk in chain.from_iterable(call_groups(frame, expr, chunks)):
        value = evaluate(frame, expr, chunk)
        count = chunk.width
        text = memory.broadcast(frame, value, count)
        if chunk.mask is not None:
            ty, i1 = register(value.dtype, count), register("bool", count)
            neutral = f"splat ({register(value.dtype, 0)} {constant(identity(op, value.dtype).value, value.dtype)})"
            text = frame.op(f"select {i1} {chunk.mask}, {ty} {text}, {ty} {neutral}")
        partial.setdefault(count, []).append(Value(text, value.dtype, count))
    return _by_pairs(frame, op, [horizontal(frame, op, values) for values in partial.values()])


def _by_pairs(frame: Frame, op: str, values: Sequence[Value]) -> Value:
    """Combine values in pairs, which makes a short chain of dependent steps."""
    first, *rest = values
    while rest:
        second, *rest = rest
        first, *rest = (*rest, arithmetic.binary(frame, op, first, second))
    return first


def identity(op: str, dtype: str) -> Const:
    """Return the neutral element: 0, 1, or the type's largest or smallest value."""
    low, high = dtypes.value_range(dtype)
    value = {"add": -0.0 if dtypes.is_float(dtype) else 0, "mul": 1, "min": high, "max": low}[op]
    return Const(float(value) if dtypes.is_float(dtype) else value, dtype)


def horizontal(frame: Frame, op: str, values: Sequence[Value]) -> Value:
    """Reduce all lanes of equally wide vectors to a scalar."""
    count, dtype = values[0].lanes, values[0].dtype
    if op in ("min", "max") and dtype in ("float32", "float64"):
        return _extremum(frame, op, values)
    value = _by_pairs(frame, op, values)
    ty, element, kind = register(dtype, count), register(dtype, 0), suffix(dtype, count)
    if count == 1:
        return Value(frame.op(f"extractelement {ty} {value.text}, i64 0"), dtype, 0)
    if dtypes.is_float(dtype) and op in ("add", "mul") and dtype not in narrow_floats.NARROW:
        name = f"@llvm.vector.reduce.f{op}.{kind}"
        arguments = (element, constant(identity(op, dtype).value, dtype)), (ty, value.text)
        return Value(frame.op(frame.module.call(name, element, *arguments, flags="reassoc ")), dtype, 0)
    if dtypes.is_float(dtype):
        return _halving(frame, op, value)
    word = op if op in ("add", "mul") else f"{'u' if dtypes.is_unsigned(dtype) else 's'}{op}"
    name = f"@llvm.vector.reduce.{word}.{kind}"
    return Value(frame.op(frame.module.call(name, element, (ty, value.text))), dtype, 0)


def _extremum(frame: Frame, op: str, values: Sequence[Value]) -> Value:
    """Find the extremum of all lanes as if none were NaN, and test for NaN separately: no step waits for the test."""
    count, dtype, call = values[0].lanes, values[0].dtype, frame.module.call
    ty, test, element, kind = register(dtype, count), register("bool", count), register(dtype, 0), suffix(dtype, count)
    unordered, *more = (frame.op(f"fcmp uno {ty} {value.text}, {value.text}") for value in values)
    for each in more:
        unordered = frame.op(f"or {test} {unordered}, {each}")
    is_nan = memory.any_lane(frame, unordered, count)
    texts = [value.text for value in values]
    while len(texts) > 1:
        a, b, *texts = texts
        texts.append(frame.op(call(f"@llvm.{op}num.{kind}", ty, (ty, a), (ty, b), flags="nnan nsz ")))
    best = frame.op(call(f"@llvm.vector.reduce.f{op}.{kind}", element, (ty, texts[0]), flags="nnan nsz "))
    nan = constant(math.nan, dtype)
    return Value(frame.op(f"select i1 {is_nan}, {element} {nan}, {element} {best}"), dtype, 0)


def _halving(frame: Frame, op: str, value: Value) -> Value:
    """Combine halves until one lane is left, keeping NaN as `binary` does; lane counts are powers of two."""
    while value.lanes > 2:
        count, half = value.lanes, value.lanes // 2
        ty = register(value.dtype, count)
        low, high = (
            frame.op(
                f"shufflevector {ty} {value.text}, {ty} poison, <{half} x i32> "
                f"{int_vector(tuple(range(start, start + half)), 32)}"
            )
            for start in (0, half)
        )
        value = arithmetic.binary(frame, op, Value(low, value.dtype, half), Value(high, value.dtype, half))
    ty = register(value.dtype, 2)
    first, second = (frame.op(f"extractelement {ty} {value.text}, i64 {lane}") for lane in (0, 1))
    return arithmetic.binary(frame, op, Value(first, value.dtype, 0), Value(second, value.dtype, 0))
