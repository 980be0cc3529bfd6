"""Values of linear forms inside loops: constant + registers with coefficients + one number per lane."""

from __future__ import annotations

from math import gcd
from operator import add
from typing import NamedTuple, TypeAlias

from pegbox.codegen.emitter.frame import Frame, Value
from pegbox.codegen.emitter.function_text import Level
from pegbox.codegen.emitter.lanes import Chunk, Offsets, pattern
from pegbox.codegen.emitter.lltypes import int_vector, literal, register
from pegbox.expr import affine
from pegbox.expr.affine import int64
from pegbox.expr.dtypes import wrap
from pegbox.expr.nodes import CompareOp
from pegbox.expr.operators import COMPARE
from pegbox.expr.simplify import decide

Terms: TypeAlias = tuple[tuple[str, int], ...]  # (i64 register, coefficient), outer loops first
SIGNED_PREDICATES = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}
_SAFE = 1 << 61  # sums and differences of a few such numbers fit int64


class Index(NamedTuple):
    """A sum per lane: const + sum(terms) + offsets[lane] + vector[lane].

    `offsets` is None if it is the same in all lanes; `vector` is a register of i64 lanes that depend on data.
    """

    const: int
    terms: Terms
    offsets: Offsets | None
    vector: str | None


def add_up(frame: Frame, parts: list[tuple[Index, int]], chunk: Chunk) -> Index:
    """Add up scale * index, terms of outer loops first."""
    const = 0
    merged: dict[str, int] = {}
    offsets: Offsets | None = None
    vector: str | None = None
    for index, scale in parts:
        const += scale * index.const
        for name, coef in index.terms:
            merged[name] = merged.get(name, 0) + scale * coef
        if index.offsets is not None:
            part = index.offsets if scale == 1 else tuple([scale * offset for offset in index.offsets])
            offsets = part if offsets is None else tuple(map(add, offsets, part))
        if index.vector is not None:
            ty = register("int64", chunk.width)
            scaled = index.vector if scale == 1 else frame.op(f"mul {ty} {index.vector}, splat (i64 {scale})")
            vector = scaled if vector is None else frame.op(f"add {ty} {vector}, {scaled}")
    terms = [(name, int64(coef)) for name, coef in merged.items() if int64(coef)]
    if len(terms) > 1:
        terms.sort(key=lambda term: frame.registers.depth(term[0]))
    return Index(int64(const), tuple(terms), offsets, vector)


def divide(frame: Frame, index: Index, divisor: int, chunk: Chunk) -> tuple[Index, Index]:
    """Compute the floor quotient and remainder by a positive constant, with as little arithmetic as the ranges allow.

    The parts that need no division are found as in expressions (`pegbox.expr.affine.divide`), with two differences.
    Here the ranges are those of registers and lanes; a sum of unknown range, which may wrap around, is divided as it
    is. And with g a divisor of `divisor`, the rest is split into big + small where g divides big and 0 <= small < g:
    rest // divisor = (big / g) // (divisor / g) and rest % divisor = g * ((big / g) % (divisor / g)) + small.
    Simplified expressions do so, too (`pegbox.expr.simplify`), with the ranges of loops.
    """
    if value_range(frame, index) is None:
        return _division(frame, index, divisor, chunk)

    def bounds_of(terms: dict[str, int], const: int) -> tuple[int, int] | None:
        return _sum_range(frame, Index(const, tuple(terms.items()), index.offsets, index.vector))

    parts = affine.divide(index.terms, index.const, divisor, bounds_of)
    quotient = Index(parts.quotient_const, tuple(parts.quotient.items()), None, None)
    residue = Index(parts.rest_const, tuple(parts.rest.items()), index.offsets, index.vector)
    if parts.is_whole:
        return quotient, residue
    if value_range(frame, residue) is None:  # it may wrap around without the multiples of the divisor
        return _division(frame, index, divisor, chunk)
    if not residue.terms and residue.vector is None and residue.offsets is not None:
        offsets = tuple(residue.const + offset for offset in residue.offsets)
        return (
            quotient._replace(offsets=tuple(offset // divisor for offset in offsets)),
            Index(0, (), tuple(offset % divisor for offset in offsets), None),
        )
    for g in sorted({gcd(divisor, coef) for _, coef in residue.terms} - {1}, reverse=True):
        split = _split(frame, residue, g)
        if split is not None:
            big, small = split
            inner_q, inner_r = _division(frame, big, divisor // g, chunk)
            whole = add_up(frame, [(quotient, 1), (inner_q, 1)], chunk)
            return whole, add_up(frame, [(small, 1), (inner_r, g)], chunk)
    inner_q, inner_r = _division(frame, residue, divisor, chunk)
    return add_up(frame, [(quotient, 1), (inner_q, 1)], chunk), inner_r


def _split(frame: Frame, index: Index, g: int) -> tuple[Index, Index] | None:
    """Split index = g * big + small, where small is proved to lie in [0, g); None without a proof."""
    big = tuple((name, coef // g) for name, coef in index.terms if coef % g == 0)
    small = Index(index.const % g, tuple(t for t in index.terms if t[1] % g), index.offsets, index.vector)
    bounds = value_range(frame, small)
    if bounds is None or bounds[0] < 0 or bounds[1] >= g:
        return None
    return Index(index.const // g, big, None, None), small


def _division(frame: Frame, index: Index, divisor: int, chunk: Chunk) -> tuple[Index, Index]:
    """Write the division itself, as instructions."""
    if divisor == 1:
        return index, Index(0, (), None, None)
    bounds = value_range(frame, index)
    lanes = 0 if index.offsets is None and index.vector is None else chunk.width
    value, level = vector(frame, index, lanes) if lanes else scalar(frame, index)
    ty = register("int64", lanes)
    if bounds is not None and bounds[0] >= 0:
        by = literal(divisor, "int64", lanes)
        quotient = frame.at(level, f"udiv {ty} {value}, {by}")
        remainder = frame.at(level, f"urem {ty} {value}, {by}")
    else:
        quotient, remainder = _floor_division(frame, level, ty, value, divisor, lanes)
    if lanes:
        return Index(0, (), None, quotient), Index(0, (), None, remainder)
    if bounds is not None:
        frame.registers.ranges[quotient] = (bounds[0] // divisor, bounds[1] // divisor)
    frame.registers.ranges[remainder] = (0, divisor - 1)
    return Index(0, ((quotient, 1),), None, None), Index(0, ((remainder, 1),), None, None)


def _floor_division(
    frame: Frame, level: Level | None, ty: str, value: str, divisor: int, lanes: int
) -> tuple[str, str]:
    """Shift and mask for powers of two; otherwise truncate, and step down if the remainder is negative."""
    by = literal(divisor, "int64", lanes)
    if divisor & (divisor - 1) == 0:
        shift = divisor.bit_length() - 1
        return (
            frame.at(level, f"ashr {ty} {value}, {literal(shift, 'int64', lanes)}"),
            frame.at(level, f"and {ty} {value}, {literal(divisor - 1, 'int64', lanes)}"),
        )
    quotient = frame.at(level, f"sdiv {ty} {value}, {by}")
    remainder = frame.at(level, f"srem {ty} {value}, {by}")
    sign = frame.at(level, f"ashr {ty} {remainder}, {literal(63, 'int64', lanes)}")
    step = frame.at(level, f"and {ty} {sign}, {by}")
    return frame.at(level, f"add {ty} {quotient}, {sign}"), frame.at(level, f"add {ty} {remainder}, {step}")


def scalar(frame: Frame, index: Index) -> tuple[str, Level | None]:
    """Add const + terms into an i64 register or literal; also return the level where it is known."""
    text, level = term_sum(frame, index.terms)
    const = int64(index.const)
    if not index.terms:
        return str(const), frame.text.entry
    if const:
        text = frame.at(level, f"add i64 {text}, {const}")
    return text, level


def term_sum(frame: Frame, terms: Terms) -> tuple[str, Level | None]:
    """Add up the terms; partial sums are computed at the outermost loops that allow it."""
    total = "0"
    level: Level | None = frame.text.entry
    for name, coef in terms:
        own = frame.registers.home.get(name)
        if level is not None:
            level = own if own is None or own.depth > level.depth else level
        part = name if coef == 1 else frame.at(own, f"mul i64 {name}, {coef}")
        total = part if total == "0" else frame.at(level, f"add i64 {total}, {part}")
    return total, level


def vector(frame: Frame, index: Index, count: int, bits: int = 64) -> tuple[str, Level | None]:
    """Make a vector of integers from the index (of `bits` < 64 only if the caller knows that it fits)."""
    ty = f"<{count} x i{bits}>"
    text, level = scalar(frame, index)
    if bits != 64 and index.terms:
        text = frame.at(level, f"trunc i64 {text} to i{bits}")
    if index.vector is not None:
        level = None
    if not index.terms:
        lanes = tuple(index.const + offset for offset in index.offsets or (0,) * count)
        total = _int_lanes(lanes, bits)
    else:
        total = splat(frame, level, f"i{bits}", text, count)
        if index.offsets is not None:
            total = frame.at(level, f"add {ty} {total}, {_int_lanes(index.offsets, bits)}")
    if index.vector is not None:
        part = index.vector if bits == 64 else frame.op(f"trunc <{count} x i64> {index.vector} to {ty}")
        total = frame.op(f"add {ty} {total}, {part}")
    return total, level


def _int_lanes(values: Offsets, bits: int) -> str:
    limit = 1 << (bits - 1)
    if min(values) < -limit or max(values) >= limit:
        values = tuple(wrap(value, f"int{bits}") for value in values)
    return int_vector(values, bits)


def splat(frame: Frame, level: Level | None, element: str, text: str, count: int) -> str:
    """Broadcast a scalar to every lane."""
    if text[0] != "%":
        return f"splat ({element} {text})"
    first = frame.at(level, f"insertelement <{count} x {element}> poison, {element} {text}, i64 0")
    return frame.at(
        level,
        f"shufflevector <{count} x {element}> {first}, <{count} x {element}> poison, <{count} x i32> zeroinitializer",
    )


def value_range(frame: Frame, index: Index, *, here: bool = False) -> tuple[int, int] | None:
    """Bound the values over all iterations and lanes; None if they depend on data, or the sum may wrap around.

    `here`: count only the iterations in which the enclosing conditions hold. Do not use it for arithmetic that is
    hoisted out of these conditions.
    """
    bounds = _sum_range(frame, index, here=here)
    return bounds if bounds is not None and bounds[0] >= -(1 << 63) and bounds[1] < 1 << 63 else None


def _sum_range(frame: Frame, index: Index, *, here: bool = False) -> tuple[int, int] | None:
    """Bound the sum in exact integers, without wraparound."""
    if index.vector is not None:
        return None
    low = high = index.const
    for name, coef in index.terms:
        bounds = (frame.limits.get(name) if here else None) or frame.registers.ranges.get(name)
        if bounds is None:
            return None
        a, b = coef * bounds[0], coef * bounds[1]
        low += min(a, b)
        high += max(a, b)
    if index.offsets is not None:
        spread = pattern(index.offsets)
        low += spread.base
        high += spread.base + spread.span
    return low, high


def compare(frame: Frame, op: CompareOp, a: Index, b: Index, chunk: Chunk) -> Value | None:
    """Emit `a op b`: a literal if the ranges decide, a scalar if all lanes agree, else a vector of i1.

    None if the difference depends on data or may wrap around.
    """
    if not (_is_safe(frame, a) and _is_safe(frame, b)):
        return None
    if b.terms or b.offsets is not None:
        index = add_up(frame, [(a, 1), (b, -1)], chunk)
    else:
        index = a._replace(const=a.const - b.const)
    bounds = value_range(frame, index)
    known = None if bounds is None else decide(op, bounds)
    if known is not None:
        return Value("true" if known else "false", "bool", 0)
    predicate = SIGNED_PREDICATES[op]
    spread = pattern(index.offsets) if index.offsets is not None else None
    const = index.const + (spread.base if spread else 0)
    if spread is None or spread.offsets is None:
        text, level = term_sum(frame, index.terms)
        return Value(frame.at(level, f"icmp {predicate} i64 {text}, {-const}"), "bool", 0)
    if not index.terms:
        lanes = ", ".join(f"i1 {str(COMPARE[op](offset, -const)).lower()}" for offset in spread.offsets)
        return Value(f"<{lanes}>", "bool", chunk.width)
    return Value(_compare_lanes(frame, predicate, const, index.terms, spread.offsets, spread.span), "bool", chunk.width)


def _is_safe(frame: Frame, index: Index) -> bool:
    """Decide if the sum and each part of it are so small that no difference of two such sums wraps around."""
    bounds = _sum_range(frame, index)
    if bounds is None:
        return False
    return bounds[0] >= -_SAFE and bounds[1] <= _SAFE and -_SAFE <= index.const <= _SAFE


def _compare_lanes(frame: Frame, predicate: str, const: int, terms: Terms, offsets: Offsets, span: int) -> str:
    """Compare offsets[lane] with -(const + terms), which fits in 32 bits once it is clamped to the offsets' range."""
    count = len(offsets)
    ty = f"<{count} x i32>"
    text, level = term_sum(frame, terms)
    negated = frame.at(level, f"sub i64 {-const}, {text}")
    upper = frame.at(level, frame.module.call("@llvm.smin.i64", "i64", ("i64", negated), ("i64", str(span + 1))))
    lower = frame.at(level, frame.module.call("@llvm.smax.i64", "i64", ("i64", upper), ("i64", "-1")))
    narrow = frame.at(level, f"trunc i64 {lower} to i32")
    limit = splat(frame, level, "i32", narrow, count)
    return frame.at(level, f"icmp {predicate} {ty} {int_vector(offsets, 32)}, {limit}")
