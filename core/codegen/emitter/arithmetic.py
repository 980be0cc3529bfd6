"""Emission of arithmetic: one table or one small function per family of operations.

The semantics, where LLVM leaves a choice:
- fmul, fadd and fsub may fuse (`contract`); nothing else is relaxed.
- min and max of floats give NaN when either operand is NaN, as np.minimum and np.maximum do.
- Integers wrap. // and % round down. Division by zero gives 0, as in NumPy (no trap and no poison).
- A float that is too large for the integer type it is cast to gives some integer, as the hardware's conversion does in
  C.
"""

from __future__ import annotations

from pegbox.codegen.emitter import narrow_floats
from pegbox.codegen.emitter.frame import Frame, Value
from pegbox.codegen.emitter.index import SIGNED_PREDICATES
from pegbox.codegen.emitter.lltypes import computing, computing_suffix, literal, register, suffix
from pegbox.codegen.emitter.memory import broadcast
from pegbox.codegen.targets import features
from pegbox.errors import CompileError
from pegbox.expr import dtypes

_FLOAT = {"add": "fadd contract", "sub": "fsub contract", "mul": "fmul contract", "div": "fdiv"}
_INT = {"add": "add", "sub": "sub", "mul": "mul"}
_FLOAT_PREDICATES = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
_UNSIGNED_PREDICATES = {"lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge", "eq": "eq", "ne": "ne"}


def match_lanes(frame: Frame, a: Value, b: Value) -> tuple[str, str, int]:
    """Bring both operands to the same number of lanes."""
    if a.lanes == b.lanes:
        return a.text, b.text, a.lanes
    lanes = a.lanes or b.lanes
    return broadcast(frame, a, lanes), broadcast(frame, b, lanes), lanes


def binary(frame: Frame, op: str, a: Value, b: Value) -> Value:
    """Emit add sub mul div floordiv floormod min max of two values of one dtype."""
    dtype = a.dtype
    if narrow_floats.is_emulated(frame, dtype):
        return cast(frame, binary(frame, op, cast(frame, a, "float32"), cast(frame, b, "float32")), dtype)
    if op in ("floordiv", "floormod"):
        return _floor(frame, op, a, b)
    if op in ("min", "max"):
        return extremum(frame, op, a, b)
    x, y, lanes = match_lanes(frame, a, b)
    word = _FLOAT.get(op) if dtypes.is_float(dtype) else _INT.get(op)
    if word is None or dtype == "bool":
        raise CompileError(f"no instruction for {op} on {dtype}")
    if dtype != "float16":
        return Value(frame.op(f"{word} {register(dtype, lanes)} {x}, {y}"), dtype, lanes)
    x, y = (narrow_floats.as_float(frame, text, dtype, lanes) for text in (x, y))
    result = frame.op(f"{word} {computing(dtype, lanes)} {x}, {y}")
    return Value(narrow_floats.as_register(frame, result, dtype, lanes), dtype, lanes)


def extremum(frame: Frame, op: str, a: Value, b: Value) -> Value:
    x, y, lanes = match_lanes(frame, a, b)
    dtype = a.dtype
    ty = register(dtype, lanes)
    if not dtypes.is_float(dtype):
        name = f"@llvm.{'u' if dtypes.is_unsigned(dtype) else 's'}{op}.{suffix(dtype, lanes)}"
        return Value(frame.op(frame.module.call(name, ty, (ty, x), (ty, y))), dtype, lanes)
    x, y = (narrow_floats.as_float(frame, text, dtype, lanes) for text in (x, y))
    ty, i1 = computing(dtype, lanes), register("bool", lanes)
    if a.text[0] == "%" == b.text[0]:
        best = _extremum_or_nan(frame, op, Value(y, dtype, lanes), x)
    else:
        # The machine's minimum returns its second operand if either is NaN, so the literal goes first.
        number, literal_ = (x, y) if b.text[0] != "%" else (y, x)
        less = frame.op(f"fcmp {'olt' if op == 'min' else 'ogt'} {ty} {literal_}, {number}")
        best = frame.op(f"select {i1} {less}, {ty} {literal_}, {ty} {number}")
    return Value(narrow_floats.as_register(frame, best, dtype, lanes), dtype, lanes)


def _extremum_or_nan(frame: Frame, op: str, new: Value, old: str) -> str:
    """Emit the extremum of registers, NaN where either is NaN.

    LLVM keeps NaN by a select, which takes three micro-operations on Intel's processors without mask registers. There,
    all bits are set in lanes whose new number is NaN; an old number that is NaN is returned by the machine's extremum,
    as its second operand.
    """
    dtype, lanes, number = new.dtype, new.lanes, new.text
    ty, i1 = computing(dtype, lanes), register("bool", lanes)
    if not lanes or features.has(frame.module.target, "avx512f") or not features.has(frame.module.target, "avx"):
        # LLVM tests the first operand, which here is not the one that a chain waits for. For scalars, LLVM turns two
        # choices into branches.
        name = f"@llvm.{op}imum.{computing_suffix(dtype, lanes)}"
        return frame.op(frame.module.call(name, ty, (ty, number), (ty, old), flags="nsz "))
    bits = register(f"int{dtypes.BITS[dtype]}", lanes)
    less = frame.op(f"fcmp {'olt' if op == 'min' else 'ogt'} {ty} {number}, {old}")
    best = frame.op(f"select {i1} {less}, {ty} {number}, {ty} {old}")
    is_nan = frame.op(f"fcmp uno {ty} {number}, {number}")
    ones = frame.op(f"sext {i1} {is_nan} to {bits}")
    found = frame.op(f"or {bits} {ones}, {frame.op(f'bitcast {ty} {best} to {bits}')}")
    return frame.op(f"bitcast {bits} {found} to {ty}")


def _floor(frame: Frame, op: str, a: Value, b: Value) -> Value:
    if not dtypes.is_int(a.dtype):
        raise CompileError(f"{op} needs integers, got {a.dtype}; for floats use floor(a / b)")
    divisor = int(b.text) if not b.lanes and b.text[0] != "%" else None
    x, y, lanes = match_lanes(frame, a, b)
    ty = register(a.dtype, lanes)
    if divisor is not None and divisor > 0 and divisor & (divisor - 1) == 0:
        shift = "lshr" if dtypes.is_unsigned(a.dtype) else "ashr"
        word, by = ("and", divisor - 1) if op == "floormod" else (shift, divisor.bit_length() - 1)
        result = frame.op(f"{word} {ty} {x}, {literal(by, a.dtype, lanes)}")
    elif divisor is None or divisor in (0, -1):
        result = _guarded(frame, op, a.dtype, ty, x, y, lanes)
    else:
        result = _quotient(frame, op, a.dtype, ty, x, y, lanes)
    return Value(result, a.dtype, lanes)


def _quotient(frame: Frame, op: str, dtype: str, ty: str, x: str, y: str, lanes: int) -> str:
    """Divide by a number other than 0 and -1: truncate, then step down if the signs of remainder and divisor differ."""
    if dtypes.is_unsigned(dtype):
        return frame.op(f"{'udiv' if op == 'floordiv' else 'urem'} {ty} {x}, {y}")
    i1 = register("bool", lanes)
    remainder = frame.op(f"srem {ty} {x}, {y}")
    zero = literal(0, dtype, lanes)
    differs = frame.op(f"icmp slt {ty} {frame.op(f'xor {ty} {remainder}, {y}')}, {zero}")
    step = frame.op(f"and {i1} {differs}, {frame.op(f'icmp ne {ty} {remainder}, {zero}')}")
    if op == "floormod":
        return frame.op(f"select {i1} {step}, {ty} {frame.op(f'add {ty} {remainder}, {y}')}, {ty} {remainder}")
    quotient = frame.op(f"sdiv {ty} {x}, {y}")
    return frame.op(f"add {ty} {quotient}, {frame.op(f'sext {i1} {step} to {ty}')}")


def _guarded(frame: Frame, op: str, dtype: str, ty: str, x: str, y: str, lanes: int) -> str:
    """Divide by any number: 0 gives 0, and -1 negates, because a quotient that overflows would trap."""
    i1 = register("bool", lanes)
    zero, one = literal(0, dtype, lanes), literal(1, dtype, lanes)
    is_zero = frame.op(f"icmp eq {ty} {y}, {zero}")
    if dtypes.is_unsigned(dtype):
        safe = frame.op(f"select {i1} {is_zero}, {ty} {one}, {ty} {y}")
        result = _quotient(frame, op, dtype, ty, x, safe, lanes)
        return frame.op(f"select {i1} {is_zero}, {ty} {zero}, {ty} {result}")
    is_minus = frame.op(f"icmp eq {ty} {y}, {literal(-1, dtype, lanes)}")
    special = frame.op(f"or {i1} {is_zero}, {is_minus}")
    safe = frame.op(f"select {i1} {special}, {ty} {one}, {ty} {y}")
    result = _quotient(frame, op, dtype, ty, x, safe, lanes)
    if op == "floordiv":
        negated = frame.op(f"sub {ty} {zero}, {x}")
        result = frame.op(f"select {i1} {is_minus}, {ty} {negated}, {ty} {result}")
    return frame.op(f"select {i1} {is_zero}, {ty} {zero}, {ty} {result}")


def compare(frame: Frame, op: str, a: Value, b: Value) -> Value:
    """Emit lt le gt ge eq ne; every comparison with NaN is false except ne."""
    if narrow_floats.is_emulated(frame, a.dtype):
        a, b = cast(frame, a, "float32"), cast(frame, b, "float32")
    x, y, lanes = match_lanes(frame, a, b)
    if dtypes.is_float(a.dtype):
        x, y = (narrow_floats.as_float(frame, text, a.dtype, lanes) for text in (x, y))
        return Value(frame.op(f"fcmp {_FLOAT_PREDICATES[op]} {computing(a.dtype, lanes)} {x}, {y}"), "bool", lanes)
    table = _UNSIGNED_PREDICATES if dtypes.is_unsigned(a.dtype) else SIGNED_PREDICATES
    return Value(frame.op(f"icmp {table[op]} {register(a.dtype, lanes)} {x}, {y}"), "bool", lanes)


def logic(frame: Frame, op: str, a: Value, b: Value) -> Value:
    """Emit `and` or `or` of conditions; literals are folded."""
    for this, other in ((a, b), (b, a)):
        if this.text in ("true", "false"):
            return other if (this.text == "true") == (op == "and") else this
    x, y, lanes = match_lanes(frame, a, b)
    return Value(frame.op(f"{op} {register('bool', lanes)} {x}, {y}"), "bool", lanes)


def negate(frame: Frame, a: Value) -> Value:
    if a.text in ("true", "false"):
        return Value("false" if a.text == "true" else "true", "bool", 0)
    true = "splat (i1 true)" if a.lanes else "true"
    return Value(frame.op(f"xor {register('bool', a.lanes)} {a.text}, {true}"), "bool", a.lanes)


def select(frame: Frame, cond: Value, a: Value, b: Value) -> Value:
    """Choose a or b per lane, both already computed."""
    if cond.text in ("true", "false"):
        return a if cond.text == "true" else b
    lanes = cond.lanes or a.lanes or b.lanes
    ty = register(a.dtype, lanes)
    x, y = broadcast(frame, a, lanes), broadcast(frame, b, lanes)
    return Value(frame.op(f"select {register('bool', cond.lanes)} {cond.text}, {ty} {x}, {ty} {y}"), a.dtype, lanes)


def cast(frame: Frame, value: Value, dtype: str) -> Value:
    """Convert as C does; a bool is `value != 0`."""
    source, lanes, text = value.dtype, value.lanes, value.text
    if source == dtype:
        return value
    if source in narrow_floats.NARROW or dtype in narrow_floats.NARROW:
        return _cast_narrow(frame, value, dtype)
    from_ty, wider = register(source, lanes), dtypes.BITS[dtype] > dtypes.BITS[source]
    if dtype == "bool":
        zero = "zeroinitializer" if lanes else ("0.0" if dtypes.is_float(source) else "0")
        word = "fcmp une" if dtypes.is_float(source) else "icmp ne"
        return Value(frame.op(f"{word} {from_ty} {text}, {zero}"), dtype, lanes)
    match dtypes.is_float(source), dtypes.is_float(dtype):
        case True, True:
            word = "fpext" if wider else "fptrunc"
        case True, False:
            return _to_int(frame, text, from_ty, dtype, lanes)
        case False, True:
            word = "uitofp" if dtypes.is_unsigned(source) else "sitofp"
        case _:
            if dtypes.BITS[dtype] == dtypes.BITS[source]:
                return Value(text, dtype, lanes)
            word = "trunc" if not wider else "zext" if dtypes.is_unsigned(source) else "sext"
    return Value(frame.op(f"{word} {from_ty} {text} to {register(dtype, lanes)}"), dtype, lanes)


def _cast_narrow(frame: Frame, value: Value, dtype: str) -> Value:
    """Convert from or to a 16-bit float through float32, which holds every float16 and bfloat16.

    Integers that float32 would round are too large for float16 anyway; a float64 need not be, and must be rounded only
    once.
    """
    source, lanes = value.dtype, value.lanes
    if (source, dtype) == ("float64", "float16"):
        return Value(narrow_floats.float64_to_float16(frame, value.text, lanes), dtype, lanes)
    if source in narrow_floats.NARROW:
        wide = narrow_floats.widen(frame, value.text, source, lanes)
        return cast(frame, Value(wide, "float32", lanes), dtype)
    single = cast(frame, value, "float32")
    return Value(narrow_floats.narrow(frame, single.text, dtype, lanes), dtype, lanes)


def _to_int(frame: Frame, text: str, from_ty: str, dtype: str, lanes: int) -> Value:
    """Convert through a wider signed type, as hardware (so NumPy) does; freeze the result, which may be poison."""
    if dtype == "uint64":
        return _to_uint64(frame, text, from_ty, lanes)
    wide = "int64" if dtype == "uint32" else dtype if dtypes.BITS[dtype] >= 32 else "int32"
    wide_ty = register(wide, lanes)
    number = frame.op(f"freeze {wide_ty} {frame.op(f'fptosi {from_ty} {text} to {wide_ty}')}")
    if wide != dtype:
        number = frame.op(f"trunc {wide_ty} {number} to {register(dtype, lanes)}")
    return Value(number, dtype, lanes)


def _to_uint64(frame: Frame, text: str, from_ty: str, lanes: int) -> Value:
    """Convert to uint64; values that are too large for int64 are converted without their highest bit."""
    ty, i1 = register("uint64", lanes), register("bool", lanes)
    half = "0x43E0000000000000"  # 2^63
    if lanes:
        half = f"splat ({from_ty.rpartition(' ')[2].rstrip('>')} {half})"
    is_high = frame.op(f"fcmp oge {from_ty} {text}, {half}")
    rest = frame.op(f"select {i1} {is_high}, {from_ty} {frame.op(f'fsub {from_ty} {text}, {half}')}, {from_ty} {text}")
    number = frame.op(f"freeze {ty} {frame.op(f'fptosi {from_ty} {rest} to {ty}')}")
    bit = literal(-(2**63), "int64", lanes)
    return Value(
        frame.op(f"select {i1} {is_high}, {ty} {frame.op(f'xor {ty} {number}, {bit}')}, {ty} {number}"), "uint64", lanes
    )
