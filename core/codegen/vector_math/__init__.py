"""Vector functions that LLVM would turn into one library call per lane, as LLVM assembly text.

Each is a branch-free polynomial, generic over the number of lanes. Largest errors found, in units in the last place:

    ==========  ====  ====  ====  =======  ====  ====  =====
    type        exp   log   tanh  sigmoid  erf   pow   rsqrt
    ==========  ====  ====  ====  =======  ====  ====  =====
    float32     1.1   0.9   2.4   2.3      1.3   0.51  1.5
    float64     1.0   0.8   2.5   2.4      2     1.2   1.5
    ==========  ====  ====  ====  =======  ====  ====  =====

with fused multiply-add; float16 computes in float32 and rounds. Infinities, NaN, zeros and subnormal
numbers behave as in NumPy; no floating-point exception flags are promised.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

from pegbox.codegen.vector_math.error_function import erf
from pegbox.codegen.vector_math.exponential import exp, sigmoid, tanh
from pegbox.codegen.vector_math.logarithm import log
from pegbox.codegen.vector_math.power import pow_
from pegbox.codegen.vector_math.values import SUFFIX, Body, Value
from pegbox.errors import CompileError


def rsqrt(x: Value) -> Value:
    """1 / sqrt(x): two correctly rounded operations, signed infinity at signed zero."""
    return 1.0 / x.sqrt()


FUNCTIONS: Final[dict[str, tuple[int, Callable[..., Value]]]] = {
    "exp": (1, exp), "log": (1, log), "tanh": (1, tanh), "sigmoid": (1, sigmoid), "erf": (1, erf),
    "pow": (2, pow_), "rsqrt": (1, rsqrt),
}  # fmt: skip

_ELEMENTS: Final = {"float16": "half", "float32": "float", "float64": "double"}


@cache
def definition(name: str, dtype: str, lanes: int) -> tuple[str, str, frozenset[str]]:
    """An internal, always inlined function of `lanes` numbers (scalar types when that is 1).

    Returns:
        The function's name without `@`; the text of its `define`; the `declare` lines it needs, which a module may
        hold only once.

    Raises:
        CompileError: there is no such function for the type.
    """
    if name not in FUNCTIONS or dtype not in _ELEMENTS or lanes < 1:
        raise CompileError(
            f"no vector function {name}({dtype} x {lanes}); there are {', '.join(FUNCTIONS)} "
            f"of {', '.join(_ELEMENTS)} and one lane or more"
        )
    arity, function = FUNCTIONS[name]
    element = _ELEMENTS[dtype]
    body = Body(lanes)
    arguments = [Value(body, f"%{letter}", element) for letter in "xy"[:arity]]
    wide = "float" if element == "half" else element
    result = function(*(a.to_float(wide) for a in arguments)).to_float(element)
    ty = body.type(element)
    symbol = f"pegbox.{name}.{SUFFIX[element] if lanes == 1 else f'v{lanes}{SUFFIX[element]}'}"
    parameters = ", ".join(f"{ty} {a.text}" for a in arguments)
    lines = [f"define internal {ty} @{symbol}({parameters}) alwaysinline nounwind {{", *body.lines]
    text = "\n".join([*lines, f"  ret {ty} {result.text}", "}", ""])
    return symbol, text, frozenset(body.declares)
