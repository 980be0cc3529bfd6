"""Operators that compute each element from one element of each broadcast input."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from pegbox import te
from pegbox.compute import elementwise
from pegbox.expr import is_float
from pegbox.plugins.onnx.operator import OperatorNode, operator
from pegbox.plugins.onnx.operators.casts import in_float32
from pegbox.plugins.onnx.operators.computed import computed

Function = Callable[..., Any]

_AT_ONCE = 32
"""The largest number of operands of one expression."""


def _plain(kind: str, function: Function) -> None:
    @operator(kind)
    @in_float32
    def meaning(node: OperatorNode, *tensors: te.Tensor) -> te.Tensor:
        return elementwise(function, *tensors, name=node.kind)


def _chained(kind: str, function: Function) -> None:
    @operator(kind)
    def meaning(node: OperatorNode, *tensors: te.Tensor) -> te.Tensor:
        return _combined(function, tensors, node.kind)


def _combined(function: Function, tensors: Sequence[te.Tensor], name: str) -> te.Tensor:
    """Combine any number of tensors: a few by one expression, more in stages, so that no expression becomes deep."""
    made = list(tensors)
    while len(made) > _AT_ONCE:
        parts = [made[begin : begin + _AT_ONCE] for begin in range(0, len(made), _AT_ONCE)]
        made = [elementwise(lambda *xs: reduce(function, xs), *part, name=name) for part in parts]
    return elementwise(lambda *xs: reduce(function, xs), *made, name=name)


def _divided(x: Any, y: Any) -> Any:
    return x / y if is_float(x.dtype) else te.truncdiv(x, y)


def _sign(x: Any) -> Any:
    return te.if_then_else(x > 0, te.const(1, x.dtype), te.if_then_else(x < 0, te.const(-1, x.dtype), x))


def _softplus(x: Any) -> Any:
    return te.maximum(x, te.const(0, x.dtype)) + te.log1p(te.exp(-te.abs(x)))


_FUNCTIONS: dict[str, Function] = {
    "Abs": te.abs, "Acos": te.acos, "Acosh": te.acosh, "Asin": te.asin, "Asinh": te.asinh, "Atan": te.atan,
    "Atanh": te.atanh, "Ceil": te.ceil, "Cos": te.cos, "Cosh": te.cosh, "Erf": te.erf, "Exp": te.exp,
    "Floor": te.floor, "Log": te.log, "Neg": lambda x: -x, "Not": te.logical_not, "Reciprocal": lambda x: 1 / x,
    "Relu": lambda x: te.maximum(x, te.const(0, x.dtype)), "Round": te.round, "Sigmoid": te.sigmoid,
    "Sin": te.sin, "Sinh": te.sinh, "Softplus": _softplus, "Sqrt": te.sqrt, "Tan": te.tan,
    "Softsign": lambda x: x / (1 + te.abs(x)), "Tanh": te.tanh, "Identity": lambda x: x, "IsNaN": te.isnan,
    "Sign": _sign,
    "Add": lambda x, y: x + y, "Sub": lambda x, y: x - y, "Mul": lambda x, y: x * y, "Div": _divided,
    "And": te.all, "Or": te.any, "Xor": lambda x, y: x ^ y,
    "Equal": lambda x, y: x.equal(y), "Less": lambda x, y: x < y, "LessOrEqual": lambda x, y: x <= y,
    "Greater": lambda x, y: x > y, "GreaterOrEqual": lambda x, y: x >= y,
    "PRelu": lambda x, slope: te.if_then_else(x < 0, x * slope, x), "Where": te.if_then_else,
    "BitwiseAnd": lambda x, y: x & y, "BitwiseOr": lambda x, y: x | y, "BitwiseXor": lambda x, y: x ^ y,
    "BitwiseNot": lambda x: ~x,
}  # fmt: skip
for _name, _function in _FUNCTIONS.items():
    _plain(_name, _function)

for _name, _function in {
    "Max": te.maximum, "Min": te.minimum, "Sum": lambda x, y: x + y,
}.items():  # fmt: skip
    _chained(_name, _function)


def _with(kind: str, function: Function, **defaults: float) -> None:
    """Register a function of one element and of attributes."""

    @operator(kind)
    @in_float32
    def meaning(node: OperatorNode, x: te.Tensor) -> te.Tensor:
        values = {name: te.const(node.get(name, default), x.dtype) for name, default in defaults.items()}
        return elementwise(lambda e: function(e, **values), x, name=kind)


_with("LeakyRelu", lambda x, alpha: te.if_then_else(x < 0, alpha * x, x), alpha=0.01)
_with("Elu", lambda x, alpha: te.if_then_else(x < 0, alpha * (te.exp(x) - 1), x), alpha=1.0)
_with("Celu", lambda x, alpha: te.maximum(x, 0.0) + te.minimum(alpha * (te.exp(x / alpha) - 1), 0.0), alpha=1.0)
_with("ThresholdedRelu", lambda x, alpha: te.if_then_else(x > alpha, x, te.const(0, x.dtype)), alpha=1.0)
_with("HardSigmoid", lambda x, alpha, beta: te.maximum(te.minimum(alpha * x + beta, 1.0), 0.0), alpha=0.2, beta=0.5)
_with(
    "Selu",
    lambda x, alpha, gamma: gamma * te.if_then_else(x > 0, x, alpha * te.exp(x) - alpha),
    alpha=1.67326319217681884765625,
    gamma=1.05070102214813232421875,
)
_with(
    "Shrink",
    lambda x, lambd, bias: te.if_then_else(
        x < -lambd, x + bias, te.if_then_else(x > lambd, x - bias, te.const(0, x.dtype))
    ),
    lambd=0.5,
    bias=0.0,
)


@operator("Mean")
@in_float32
def mean(node: OperatorNode, *tensors: te.Tensor) -> te.Tensor:
    return elementwise(lambda x: x / len(tensors), _combined(lambda x, y: x + y, tensors, "total"), name="Mean")


@operator("IsInf")
def is_inf(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    signs = [
        sign for name, sign in (("detect_positive", math.inf), ("detect_negative", -math.inf)) if node.get(name, 1)
    ]
    return elementwise(lambda e: te.any(*(e.equal(te.const(s, e.dtype)) for s in signs)), x, name="IsInf")


@operator("Mod")
def mod(node: OperatorNode, x: te.Tensor, y: te.Tensor) -> te.Tensor:
    if is_float(x.dtype) and node.get("fmod", 0):
        return elementwise(te.fmod, x, y, name="Mod")
    if is_float(x.dtype):

        def floored(a: Any, b: Any) -> Any:
            rest = te.fmod(a, b)
            apart = te.all(te.logical_not(rest.equal(0)), (rest < 0) ^ (b < 0))
            return te.if_then_else(apart, rest + b, te.if_then_else(rest.equal(0), te.copysign(rest, b), rest))

        return elementwise(floored, x, y, name="Mod")
    function = te.truncmod if node.get("fmod", 0) else te.floormod
    return elementwise(function, x, y, name="Mod")


@operator("BitShift")
def bit_shift(node: OperatorNode, x: te.Tensor, y: te.Tensor) -> te.Tensor:
    left = node.get("direction") == "LEFT"
    return elementwise(lambda a, b: a << b if left else a >> b, x, y, name="BitShift")


@operator("Clip", known=(1, 2))
def clip(node: OperatorNode, x: te.Tensor, low: te.Tensor | None = None, high: te.Tensor | None = None) -> te.Tensor:
    least, most = (
        bound if number is None else te.const(number, x.dtype)
        for bound, number in ((low, node.scalar(1, "min")), (high, node.scalar(2, "max")))
    )

    def clipped(e: Any, *bounds: Any) -> Any:
        given = iter(bounds)
        for bound, function in ((least, te.maximum), (most, te.minimum)):
            if bound is not None:
                e = function(e, next(given) if isinstance(bound, te.Tensor) else bound)
        return e

    return elementwise(clipped, x, *(b for b in (least, most) if isinstance(b, te.Tensor)), name="Clip")


_POWERS: dict[float, Function] = {
    0.5: te.sqrt, 1.0: lambda x: x, 2.0: lambda x: x * x, 3.0: lambda x: x * x * x, -1.0: lambda x: 1 / x,
    -0.5: lambda x: 1 / te.sqrt(x),
}  # fmt: skip


@operator("Pow", known=(1,))
@in_float32
def power(node: OperatorNode, x: te.Tensor, y: te.Tensor | None = None) -> te.Tensor:
    known = node.constants.get(1)
    if (
        known is not None
        and known.size == 1
        and known.ndim <= x.ndim
        and (is_float(x.dtype) or known.item() in (1, 2, 3))
    ):
        exponent = float(known.item())
        function = _POWERS.get(exponent, lambda e: te.pow(e, te.const(exponent, e.dtype)))
        return elementwise(function, x, name="Pow")
    kind = x.dtype if is_float(x.dtype) else "float64"
    return elementwise(lambda e, n: te.cast(x.dtype, te.pow(te.cast(kind, e), te.cast(kind, n))), x, y, name="Pow")


@operator("HardSwish")
@in_float32
def hard_swish(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    return elementwise(lambda e: e * te.maximum(te.minimum(e * (1 / 6) + 0.5, 1.0), 0.0), x, name="HardSwish")


@operator("Mish")
@in_float32
def mish(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    return elementwise(lambda e: e * te.tanh(_softplus(e)), x, name="Mish")


@operator("Swish")
@in_float32
def swish(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    alpha = node.get("alpha", 1.0)
    return elementwise(lambda e: e * te.sigmoid(e if alpha == 1.0 else alpha * e), x, name="Swish")


@operator("Gelu")
@in_float32
def gelu(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    if node.get("approximate", "none") == "tanh":
        return elementwise(
            lambda e: 0.5 * e * (1 + te.tanh(math.sqrt(2 / math.pi) * (e + 0.044715 * e * e * e))), x, name="Gelu"
        )
    return elementwise(lambda e: 0.5 * e * (1 + te.erf(e * math.sqrt(0.5))), x, name="Gelu")


@operator("Dropout", constants=(1, 2))
def dropout(node: OperatorNode, x: te.Tensor) -> te.Tensor | tuple[te.Tensor, ...]:
    if np.any(node.constants.get(2, False)) and np.all(node.constants.get(1, 0.5) > 0):
        raise node.refuse("training mode draws random numbers")
    same = elementwise(lambda e: e, x, name="Dropout")
    return same if node.outputs == 1 else (same, computed(x.shape, lambda *i: te.const(True, "bool"), name="mask"))
