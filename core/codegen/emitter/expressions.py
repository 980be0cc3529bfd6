"""Emission of expressions: one function per kind of node, each of which returns a register."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import add
from typing import Any, TypeAlias

from pegbox.codegen.emitter import arithmetic, calls, index, memory
from pegbox.codegen.emitter.frame import Frame, Value
from pegbox.codegen.emitter.function_text import Lines
from pegbox.codegen.emitter.gates import decay, gate
from pegbox.codegen.emitter.index import Index
from pegbox.codegen.emitter.lanes import Chunk, Offsets, pattern
from pegbox.codegen.emitter.linear_form import Atom, Form, strides
from pegbox.codegen.emitter.lltypes import constant, register
from pegbox.codegen.emitter.masked_updates import is_zero
from pegbox.errors import CompileError
from pegbox.expr import dtypes
from pegbox.expr.low_level import Address, Broadcast, Reinterpret, Stride, VectorLoad, is_machine_call
from pegbox.expr.nodes import Binary, Call, Cast, Compare, Const, Expr, Load, Logic, Not, Select, Var
from pegbox.expr.visit import loads
from pegbox.loops.nodes import Store

_Side: TypeAlias = Callable[[Chunk], Value]
"""A function that evaluates one side of a choice."""


def evaluate(frame: Frame, expr: Expr, chunk: Chunk) -> Value:
    """Emit the value of `expr` in every lane of `chunk`, as a scalar if it is the same in all lanes."""
    handler = _HANDLERS.get(type(expr))
    if handler is None:
        raise CompileError(f"the code generator does not know {type(expr).__name__} nodes; was the program lowered?")
    return handler(frame, expr, chunk)


def _index(frame: Frame, expr: Expr, chunk: Chunk) -> Value:
    """Emit an expression of loop variables as a value."""
    where = _index_of(frame, expr, chunk)
    if where.offsets is None and where.vector is None:
        return Value(index.scalar(frame, where)[0], "int64", 0)
    return Value(index.vector(frame, where, chunk.width)[0], "int64", chunk.width)


def _index_of(frame: Frame, expr: Expr, chunk: Chunk) -> Index:
    """Resolve an index expression in the enclosing loops."""
    return _resolve(frame, frame.forms(expr), chunk)


def address(frame: Frame, node: Load | Store, chunk: Chunk) -> Index:
    """Compute the place of an access, in elements from the start of its buffer."""
    return _resolve(frame, frame.addresses(node), chunk)


def _resolve(frame: Frame, form: Form, chunk: Chunk) -> Index:
    """Resolve a linear form in the enclosing loops by inserting the values of its variables and atoms."""
    const = form.const
    env = frame.env
    terms: list[tuple[str, int]] = []
    offsets: Offsets | None = None
    lanes = chunk.lanes
    for var, coef in form.terms:
        bound = env.get(var)
        if bound.__class__ is int:
            const += coef * bound
        elif bound is not None:
            terms.append((bound, coef))  # type: ignore[arg-type]
        else:
            part = lanes.scaled(var, coef) if lanes is not None else None
            if part is None:
                raise CompileError(
                    f"loop variable {var.name} is used outside its loop: the program was not lowered, or a pass broke "
                    "it"
                )
            if len(part) == 1:
                const += part[0]  # a vector of one lane is a scalar
            else:
                offsets = part if offsets is None else tuple(map(add, offsets, part))
    result = Index(const, tuple(terms), offsets, None)
    if not form.atoms:
        return result
    parts = [(result, 1), *((_atom(frame, atom, chunk), coef) for atom, coef in form.atoms)]
    return index.add_up(frame, parts, chunk)


def _atom(frame: Frame, atom: Atom, chunk: Chunk) -> Index:
    if atom.inner is None:
        value = evaluate(frame, atom.expr, chunk)
        if value.lanes:
            return Index(0, (), None, value.text)
        if value.text[0] != "%":
            return Index(int(value.text), (), None, None)
        return Index(0, ((value.text, 1),), None, None)
    inner = _resolve(frame, atom.inner, chunk)
    if inner.vector is not None or not all(name in frame.registers.home for name, _ in inner.terms):
        quotient, remainder = index.divide(frame, inner, atom.divisor, chunk)
        return quotient if atom.op == "floordiv" else remainder
    # Values of outer loops are the same anywhere inside them, and an unrolled body needs them many times.
    key = (inner, atom.divisor)
    known = frame.divisions.get(key)
    if known is None:
        known = frame.divisions[key] = index.divide(frame, inner, atom.divisor, chunk)
    return known[0] if atom.op == "floordiv" else known[1]


def _binary(frame: Frame, expr: Binary, chunk: Chunk) -> Value:
    if expr.dtype == "int64" and frame.forms(expr).is_index:
        return _index(frame, expr, chunk)
    gated = gate(expr)
    if gated is not None:
        return _call(frame, gated, chunk)
    return arithmetic.binary(frame, expr.op, evaluate(frame, expr.a, chunk), evaluate(frame, expr.b, chunk))


def _compare(frame: Frame, expr: Compare, chunk: Chunk) -> Value:
    if expr.a.dtype == "int64" and frame.forms(expr.a).is_index and frame.forms(expr.b).is_index:
        a, b = (_index_of(frame, side, chunk) for side in (expr.a, expr.b))
        found = index.compare(frame, expr.op, a, b, chunk)
        if found is not None:
            return found
    return arithmetic.compare(frame, expr.op, evaluate(frame, expr.a, chunk), evaluate(frame, expr.b, chunk))


def _logic(frame: Frame, expr: Logic, chunk: Chunk) -> Value:
    first = evaluate(frame, expr.a, chunk)
    if first.text == ("false" if expr.op == "and" else "true"):
        return first
    if not is_guarded(frame, expr.b, chunk):
        return arithmetic.logic(frame, expr.op, first, evaluate(frame, expr.b, chunk))
    # The right side may read elements that exist only if the left side is true (for `or`: false).
    right = partial(evaluate, frame, expr.b)
    if expr.op == "and":
        return _choose(frame, first, chunk, "bool", right, lambda part: Value("false", "bool", 0))
    return _choose(frame, first, chunk, "bool", lambda part: Value("true", "bool", 0), right)


def _select(frame: Frame, expr: Select, chunk: Chunk) -> Value:
    cond = evaluate(frame, expr.cond, chunk)
    if cond.text in ("true", "false"):
        return evaluate(frame, expr.a if cond.text == "true" else expr.b, chunk)
    if not (is_guarded(frame, expr.a, chunk) or is_guarded(frame, expr.b, chunk)):
        return arithmetic.select(frame, cond, evaluate(frame, expr.a, chunk), evaluate(frame, expr.b, chunk))
    if cond.lanes and type(expr.a) is Load and is_zero(expr.b):
        live = narrowed(frame, chunk, cond)  # dead lanes of a masked load are zero
        found = memory.load(frame, expr.a, address(frame, expr.a, live), live)
        return found if found.lanes else arithmetic.select(frame, cond, found, evaluate(frame, expr.b, chunk))
    return _choose(frame, cond, chunk, expr.dtype, partial(evaluate, frame, expr.a), partial(evaluate, frame, expr.b))


def _choose(frame: Frame, cond: Value, chunk: Chunk, dtype: str, a: _Side, b: _Side) -> Value:
    """Evaluate each side only where it is chosen: under masks if lanes differ, else after a branch."""
    if cond.lanes:
        live, dead = narrowed(frame, chunk, cond), narrowed(frame, chunk, arithmetic.negate(frame, cond))
        return arithmetic.select(frame, cond, a(live), b(dead))
    return _branch(frame, cond.text, chunk, dtype, a, b)


def _branch(frame: Frame, cond: str, chunk: Chunk, dtype: str, a: _Side, b: _Side) -> Value:
    """Write two blocks and a phi. The lines at the end of each side stay open until the lanes of both are known."""
    join = frame.text.label("select.end")
    labels = frame.text.label("select.yes"), frame.text.label("select.no")
    arrivals: list[tuple[Value, str, Lines]] = []

    def write(label: str, side: _Side) -> None:
        frame.text.start_block(label)
        value = side(chunk)
        tail: Lines = []
        frame.text.lines.append(tail)
        frame.text.effect(f"br label %{join}")
        arrivals.append((value, frame.text.block, tail))

    frame.text.effect(f"br i1 {cond}, label %{labels[0]}, label %{labels[1]}")
    frame.nested(lambda: write(labels[0], a), keep_memory=True)
    frame.nested(lambda: write(labels[1], b), keep_memory=True)
    lanes = max(value.lanes for value, _, _ in arrivals)
    incoming: list[str] = []
    for value, block, tail in arrivals:  # each value is broadcast to the phi's lanes at the end of its own block
        outer, frame.text.lines = frame.text.lines, tail
        widen = partial(memory.broadcast, frame, value, lanes)
        frame.nested(lambda: incoming.append(f"[ {widen()}, %{block} ]"), keep_memory=True)  # noqa: B023
        frame.text.lines = outer
    frame.text.start_block(join)
    result = frame.text.fresh()
    frame.text.effect(f"{result} = phi {register(dtype, lanes)} {', '.join(incoming)}")
    return Value(result, dtype, lanes)


def narrowed(frame: Frame, chunk: Chunk, condition: Value, *, guard: bool = False) -> Chunk:
    """Narrow the chunk to the lanes where the condition holds; it may be a scalar.

    guard: values that the other lanes store are never read.
    """
    own = memory.broadcast(frame, condition, chunk.width)

    def both(mask: str | None) -> str:
        if mask is None or mask == own:
            return own
        if mask.startswith("<") and own.startswith("<"):
            pairs = zip(mask[1:-1].split(", "), own[1:-1].split(", "), strict=True)
            return f"<{', '.join([a if 'false' in a else b for a, b in pairs])}>"
        return frame.op(f"and {register('bool', chunk.width)} {mask}, {own}")

    return chunk._replace(mask=both(chunk.mask), kept=chunk.kept if guard else both(chunk.kept))


def _cast(frame: Frame, expr: Cast, chunk: Chunk) -> Value:
    if expr.a.dtype == "int64" and dtypes.BITS[expr.dtype] > 1 and frame.forms(expr.a).is_index:
        where = _index_of(frame, expr.a, chunk)
        bounds = index.value_range(frame, where)
        if where.offsets is not None and bounds is not None and bounds[0] >= -(2**31) and bounds[1] < 2**31:
            # Indices that fit in 32 bits are computed in 32 bits: twice the lanes, and faster conversions.
            narrow = Value(index.vector(frame, where, chunk.width, bits=32)[0], "int32", chunk.width)
            return arithmetic.cast(frame, narrow, expr.dtype)
    return arithmetic.cast(frame, evaluate(frame, expr.a, chunk), dtypes.element(expr.dtype))


def _call(frame: Frame, expr: Call, chunk: Chunk) -> Value:
    decayed = decay(expr)
    if decayed is not None:
        expr = decayed
    if is_machine_call(expr.name):
        chunk = _outside_vectors(chunk, expr)
        return calls.machine_call(frame, expr, [evaluate(frame, arg, chunk) for arg in expr.args])
    return calls.math_call(frame, expr.name, [evaluate(frame, arg, chunk) for arg in expr.args])


def load(frame: Frame, expr: Load, chunk: Chunk) -> Value:
    """Load the element of every lane."""
    where = address(frame, expr, chunk)
    if chunk.mask is not None and (in_bounds(frame, expr, chunk) or _may_read_dead_lanes(frame, expr, where)):
        chunk = chunk._replace(mask=None)
    return memory.load(frame, expr, where, chunk)


def _may_read_dead_lanes(frame: Frame, expr: Load, where: Index) -> bool:
    """Decide if dead lanes may read elements of other rows, which saves the mask.

    The program must not write the array: unused elements of other arrays may be subnormal, which slows multiply-adds
    down.
    """
    if expr.buffer not in frame.module.inputs or not dtypes.is_float(expr.dtype) or where.vector is not None:
        return False
    return where.offsets is not None and pattern(where.offsets).dense and memory.is_inside(frame, expr.buffer, where)


def _outside_vectors(chunk: Chunk, expr: Expr) -> Chunk:
    """Refuse code with its own vectors inside vectorized loops."""
    if chunk.lanes is not None:
        raise CompileError(
            f"{expr} is inside a vectorized loop; bodies of tensor intrinsics have their own vectors: leave the loops "
            "around them serial, or unroll them"
        )
    return chunk


def _address(frame: Frame, expr: Address, chunk: Chunk) -> Value:
    where = address(frame, expr, _outside_vectors(chunk, expr))
    for dim, (wanted, found) in enumerate(zip(expr.strides, strides(expr.buffer), strict=True)):
        if wanted is not None and wanted != found and expr.extents[dim] > 1:
            raise CompileError(
                f"{expr}: the called function assumes that neighbours along dimension {dim} are {wanted} elements "
                f"apart, but in {expr.buffer!r} they are {found} apart; pass it the stride, or pack the tile"
            )
    return Value(memory.pointer(frame, expr.buffer, where.terms, where.const), dtypes.HANDLE, 0)


def _vector_load(frame: Frame, expr: VectorLoad, chunk: Chunk) -> Value:
    return memory.load_vector(frame, expr, address(frame, expr, _outside_vectors(chunk, expr)))


def _broadcast(frame: Frame, expr: Broadcast, chunk: Chunk) -> Value:
    value = evaluate(frame, expr.a, _outside_vectors(chunk, expr))
    return Value(memory.broadcast(frame, value, expr.lanes), value.dtype, expr.lanes)


def _reinterpret(frame: Frame, expr: Reinterpret, chunk: Chunk) -> Value:
    dtype, lanes = dtypes.element(expr.dtype), dtypes.lanes(expr.dtype)
    if lanes or dtypes.lanes(expr.a.dtype):
        chunk = _outside_vectors(chunk, expr)
    value = evaluate(frame, expr.a, chunk)
    lanes = lanes or (0 if dtypes.lanes(expr.a.dtype) else value.lanes)
    text = frame.op(f"bitcast {register(value.dtype, value.lanes)} {value.text} to {register(dtype, lanes)}")
    return Value(text, dtype, lanes)


def in_bounds(frame: Frame, load: Load, chunk: Chunk) -> bool:
    """Decide if the load is inside its buffer in every iteration and lane, whatever conditions enclose it."""
    for subscript, count, extent in zip(load.indices, load.box, load.buffer.shape, strict=True):
        form = frame.forms(subscript)
        if not form.is_index:
            return False
        bounds = index.value_range(frame, _resolve(frame, form, chunk))
        if bounds is None or bounds[0] < 0 or bounds[1] + count > extent:
            return False
    return True


def is_guarded(frame: Frame, expr: Expr, chunk: Chunk) -> bool:
    """Decide if the expression may read outside a buffer."""
    return not all(in_bounds(frame, load, chunk) for load in loads(expr))


_HANDLERS: dict[type, Callable[[Frame, Any, Chunk], Value]] = {
    Const: lambda frame, expr, chunk: Value(constant(expr.value, expr.dtype), expr.dtype, 0),
    Var: _index, Binary: _binary, Compare: _compare, Logic: _logic,
    Not: lambda frame, expr, chunk: arithmetic.negate(frame, evaluate(frame, expr.a, chunk)),
    Select: _select, Cast: _cast, Call: _call, Load: load, Address: _address, VectorLoad: _vector_load,
    Stride: lambda frame, expr, chunk: Value(str(strides(expr.buffer)[expr.dim]), dtypes.INDEX, 0),
    Broadcast: _broadcast, Reinterpret: _reinterpret,
}  # fmt: skip
