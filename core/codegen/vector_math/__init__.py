"""Math functions on vectors as LLVM text, which LLVM would otherwise turn into one library call per lane.

Each works on any number of lanes without branches, except that sin and cos branch for huge arguments. They are
polynomials, whose coefficients or factors may come from a table. Largest errors found, in units in the last place:

    ==========  ====  ====  ====  ====  =======  ====  ====  =====
    type        exp   exp2  log   tanh  sigmoid  erf   pow   rsqrt
    ==========  ====  ====  ====  ====  =======  ====  ====  =====
    float32     1.1   1.3   0.9   2.4   2.3      1.9   0.51  1.5
    float64     1.0   1.3   0.8   2.5   2.4      2     1.2   1.5
    ==========  ====  ====  ====  ====  =======  ====  ====  =====

with fused multiply-add. sin and cos have 1.5; they exist for float32 only. gate has 2.5, gate2 2.3. In float32, where
permutations of AVX2 (AVX-512) pick from tables, erf has 2.3 (0.8), sigmoid 2.7 (2.3), gate 2.8 (3.1) and gate2 2.6 (3).
With AVX2, tanh is a quotient in float32 and has 3.6. Infinities, NaN, zeros and subnormal numbers behave as in NumPy;
no floating-point exception flags are promised. 16-bit floats are converted (conversions), computed in float32, and
rounded.

gate(a, b) = a / (1 + e^-b) and gate2(a, b) = a / (1 + 2^-b) are zero where the power overflows, and NaN for infinite a:
where b < -88.72 and b <= -128, in float64 b < -709.78 and b <= -1024. The product with an exact sigmoid would differ
from this zero by less than 2^-128 |a| (2^-1024 |a|).

decay(x) = 2^x and exp_decay(x) = e^x for x <= 0 take fewer operations than exp2 and exp, and with AVX-512 they compute
no subnormal powers: below 2^-126 (2^-1022), the result is any number from 0 to that. Above that, the errors are those
of exp2 and exp, except that decay has 2 in float32 with AVX-512.

erf_gate(a, b) = a (1 + erf(b)) has 2 ulp for b >= 0. For b < 0, 1 + erf(b) has few correct digits: the error is at most
2^-23 |a|. In float32 with AVX2 or AVX-512 it is a + a erf(b): NaN for infinite a and negative b, and zeros are positive
there. gelu(x) = erf_gate(x / 2, x / sqrt(2)) has the same errors; in float32 with AVX2 it is zero below -5.72, down to
minus infinity, and zeros keep their sign.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Final, NamedTuple

from pegbox.codegen.vector_math.exponential import (
    decay,
    erf,
    erf_gate,
    exp,
    exp2,
    exp_decay,
    gate,
    gate2,
    gelu,
    sigmoid,
    tanh,
)
from pegbox.codegen.vector_math.logarithm import log
from pegbox.codegen.vector_math.power import pow_
from pegbox.codegen.vector_math.trigonometric import cos, sin
from pegbox.codegen.vector_math.values import SUFFIX, Body, VectorValue
from pegbox.errors import CompileError


def rsqrt(x: VectorValue) -> VectorValue:
    """Compute 1 / sqrt(x) by two correctly rounded operations; signed infinity at signed zero."""
    return 1.0 / x.sqrt()


FUNCTIONS: Final[dict[str, tuple[int, Callable[..., VectorValue]]]] = {
    "exp": (1, exp), "exp2": (1, exp2), "log": (1, log), "tanh": (1, tanh), "sigmoid": (1, sigmoid), "erf": (1, erf),
    "pow": (2, pow_), "rsqrt": (1, rsqrt), "gate": (2, gate), "gate2": (2, gate2), "erf_gate": (2, erf_gate),
    "gelu": (1, gelu), "decay": (1, decay), "exp_decay": (1, exp_decay),
}  # fmt: skip

OF_FLOAT32: Final[dict[str, tuple[int, Callable[..., VectorValue]]]] = {"sin": (1, sin), "cos": (1, cos)}
"""The functions that have no algorithm for float64."""

_ELEMENTS: Final = {"float32": "float", "float64": "double"}


class MathFunction(NamedTuple):
    """An internal, always inlined function of `lanes` numbers (scalar types when that is 1).

    name: the function's name without `@`. text: its `define`. declarations: the `declare` lines that it needs, which a
    module may contain only once. parameters, result: element types in LLVM's words.
    """

    name: str
    text: str
    declarations: frozenset[str]
    parameters: tuple[str, ...]
    result: str


@cache
def definition(name: str, dtype: str, lanes: int, *, register_lanes: int = 0) -> MathFunction:
    """Define a mathematical function, from numbers of a type to the same type.

    `register_lanes` is as in `values.Body`: x86 instructions replace steps of powers, sigmoid, gates and erf.

    Raises:
        CompileError: there is no such function for the type.
    """
    known = FUNCTIONS | OF_FLOAT32 if dtype == "float32" else FUNCTIONS
    if name not in known or dtype not in _ELEMENTS or lanes < 1:
        raise CompileError(
            f"no vector function {name}({dtype} x {lanes}); there are {', '.join(known)} "
            f"of {', '.join(_ELEMENTS)} and one lane or more"
        )
    arity, function = known[name]
    return _define(name, function, (_ELEMENTS[dtype],) * arity, lanes, register_lanes=register_lanes)


@cache
def conversion(function: Callable[[VectorValue], VectorValue], element: str, lanes: int) -> MathFunction:
    """Define one of the functions in `conversions`; `element` is LLVM's name for the argument's element type."""
    return _define(function.__name__, function, (element,), lanes)


@cache
def in_turns(function: MathFunction, lanes: int, count: int) -> MathFunction:
    """Define a function that takes the arguments of `count` calls, call by call, and returns a struct of their results.

    The calls' instructions alternate. Within one call, most instructions wait for the previous one, and a processor
    does not look ahead far enough to overlap consecutive calls.
    """
    body, last = function.text.splitlines()[1:-2], function.text.splitlines()[-2]
    ty = f"<{lanes} x {function.result}>" if lanes > 1 else function.result
    struct = f"{{{', '.join([ty] * count)}}}"
    copied = [_renamed(line, number) for line in body for number in range(count)]
    given = [
        f"{f'<{lanes} x {element}>' if lanes > 1 else element} %{letter}.{number}"
        for number in range(count)
        for letter, element in zip("xy", function.parameters, strict=False)
    ]
    struct_of, results = "poison", []
    for number in range(count):
        result = _renamed(last, number).rpartition(" ")[2]
        results.append(f"  %all.{number} = insertvalue {struct} {struct_of}, {ty} {result}, {number}")
        struct_of = f"%all.{number}"
    name = f"{function.name}.x{count}"
    head = f"define internal {struct} @{name}({', '.join(given)}) alwaysinline nounwind {{"
    text = "\n".join([head, *copied, *results, f"  ret {struct} {struct_of}", "}", ""])
    return MathFunction(name, text, function.declarations, function.parameters * count, struct)


def _renamed(line: str, number: int) -> str:
    """Rename the registers in an instruction for one of several calls."""
    return re.sub(r"%\w+", rf"\g<0>.{number}", line)


def _define(
    name: str, function: Callable[..., VectorValue], elements: tuple[str, ...], lanes: int, *, register_lanes: int = 0
) -> MathFunction:
    body = Body(lanes, register_lanes=register_lanes)
    arguments = [VectorValue(body, f"%{letter}", element) for letter, element in zip("xy", elements, strict=False)]
    result = function(*arguments)
    kind = SUFFIX.get(elements[0], elements[0])
    symbol = f"pegbox.{name}.{kind if lanes == 1 else f'v{lanes}{kind}'}"
    ty = body.type(result.element)
    parameters = ", ".join(f"{body.type(a.element)} {a.text}" for a in arguments)
    lines = [f"define internal {ty} @{symbol}({parameters}) alwaysinline nounwind {{", *body.lines]
    text = "\n".join([*lines, f"  ret {ty} {result.text}", "}", ""])
    return MathFunction(symbol, text, frozenset(body.declares), elements, result.element)
