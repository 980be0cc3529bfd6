"""Calls of LLVM functions given as text that are always inlined (vector_math)."""

from __future__ import annotations

from pegbox.codegen.emitter.frame import Frame
from pegbox.codegen.vector_math import MathFunction


def call(frame: Frame, function: MathFunction, operands: list[str], lanes: int) -> str:
    """The result, in as many lanes as the operands have; a function of one lane takes and gives scalars."""
    frame.module.define(function.name, function.text, function.declarations)
    frame.text.inlined += function.text.count("\n")
    typed = list(zip(function.parameters, operands, strict=True))
    if lanes == 1:
        typed = [(ty, frame.op(f"extractelement <1 x {ty}> {text}, i64 0")) for ty, text in typed]
    listed = ", ".join(f"{_type(ty, lanes)} {text}" for ty, text in typed)
    result = frame.op(f"call {_type(function.result, lanes)} @{function.name}({listed})")
    if lanes == 1:
        result = frame.op(f"insertelement <1 x {function.result}> poison, {function.result} {result}, i64 0")
    return result


def _type(element: str, lanes: int) -> str:
    return f"<{lanes} x {element}>" if lanes > 1 else element
