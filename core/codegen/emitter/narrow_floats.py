"""float16 and bfloat16 in LLVM text: stored as integers, computed natively if the target can.

bfloat16 is computed in float32 and rounded after each operation, as by processors without arithmetic for it; so is
float16 if the processor has no arithmetic for it. Conversions that the target lacks are written out
(vector_math.conversions), because LLVM would call functions of a runtime library that few systems have.
"""

from __future__ import annotations

from pegbox.codegen.emitter.frame import Frame
from pegbox.codegen.emitter.lltypes import computing, register
from pegbox.codegen.vector_math import conversion, conversions

NARROW = ("float16", "bfloat16")


def is_emulated(frame: Frame, dtype: str) -> bool:
    """Decide if the type is computed in float32 because the target has no instructions for it."""
    return dtype == "bfloat16" or (dtype == "float16" and not frame.module.computes_float16)


def as_float(frame: Frame, text: str, dtype: str, lanes: int) -> str:
    """Convert a register to an operand of arithmetic."""
    return _bitcast(frame, text, register(dtype, lanes), computing(dtype, lanes))


def as_register(frame: Frame, text: str, dtype: str, lanes: int) -> str:
    """Convert the result of arithmetic to a register."""
    return _bitcast(frame, text, computing(dtype, lanes), register(dtype, lanes))


def _bitcast(frame: Frame, text: str, source: str, target: str) -> str:
    return text if source == target else frame.op(f"bitcast {source} {text} to {target}")


def absolute(frame: Frame, text: str, dtype: str, lanes: int) -> str:
    """Clear the sign bit."""
    return frame.op(f"and {register(dtype, lanes)} {text}, {'splat (i16 32767)' if lanes else '32767'}")


def widen(frame: Frame, text: str, dtype: str, lanes: int) -> str:
    """Convert to float32, exactly."""
    if dtype == "float16" and frame.module.computes_float16:
        half = as_float(frame, text, dtype, lanes)
        return frame.op(f"fpext {computing(dtype, lanes)} {half} to {register('float32', lanes)}")
    function = conversions.float16_to_float32 if dtype == "float16" else conversions.bfloat16_to_float32
    return frame.inlined(conversion(function, "i16", lanes or 1), [text], lanes)


def narrow(frame: Frame, text: str, dtype: str, lanes: int) -> str:
    """Round a float32 to the nearest 16-bit number, ties to even."""
    if dtype == "float16" and frame.module.computes_float16:
        half = frame.op(f"fptrunc {register('float32', lanes)} {text} to {computing(dtype, lanes)}")
        return as_register(frame, half, dtype, lanes)
    function = conversions.float32_to_float16 if dtype == "float16" else conversions.float32_to_bfloat16
    return frame.inlined(conversion(function, "float", lanes or 1), [text], lanes)


def float64_to_float16(frame: Frame, text: str, lanes: int) -> str:
    """Convert with a single rounding."""
    odd = frame.inlined(conversion(conversions.float64_to_odd_float32, "double", lanes or 1), [text], lanes)
    return narrow(frame, odd, "float16", lanes)
