"""`tvm.topi`: elementwise operators and reductions as computations, and those of neural networks in `nn`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from pegbox import te
from pegbox.compute import elementwise
from pegbox.expr import ARITY
from pegbox.plugins.tvm.absence import names
from pegbox.plugins.tvm.topi import generic as generic
from pegbox.plugins.tvm.topi import nn as nn
from pegbox.plugins.tvm.topi import utils as utils
from pegbox.plugins.tvm.topi.reduction import max as max
from pegbox.plugins.tvm.topi.reduction import min as min
from pegbox.plugins.tvm.topi.reduction import prod as prod
from pegbox.plugins.tvm.topi.reduction import sum as sum

_missing = names(__name__)


def _unary(name: str) -> Callable[[te.Tensor], te.Tensor]:
    function = getattr(te, name)
    return lambda x: elementwise(function, x, name=f"T_{name}")


def _binary(name: str, function: Callable[[Any, Any], object]) -> Callable[[Any, Any], Any]:
    """Make an operator whose operands are broadcast; two numbers give a number."""

    def operator(lhs: Any, rhs: Any) -> Any:
        if isinstance(lhs, te.Tensor) or isinstance(rhs, te.Tensor):
            return elementwise(function, lhs, rhs, name=f"T_{name}")
        return function(lhs, rhs)

    return operator


_UNARY = {"isfinite", "isinf", "isnan", *(name for name, arity in ARITY.items() if arity == 1)}


def __getattr__(name: str) -> Any:
    """Make `exp`, `sqrt` and the other functions of `te` that take one number."""
    return _unary(name) if name in _UNARY else _missing(name)


add = _binary("add", lambda a, b: a + b)
subtract = _binary("subtract", lambda a, b: a - b)
multiply = _binary("multiply", lambda a, b: a * b)
divide = _binary("divide", te.div)
maximum = _binary("maximum", te.maximum)
minimum = _binary("minimum", te.minimum)
power = _binary("power", te.power)


def elemwise_sum(xs: Sequence[te.Tensor]) -> te.Tensor:
    """Add tensors of one shape."""
    return elementwise(lambda *values: reduce(lambda a, b: a + b, values), *xs, name="T_elemwise_sum", tag="elemwise")
