"""Random computations of one expression, of every operation on every type, with constants at the edges of each.

Nothing is done for their values: they are for what prints and reads expressions. Constants stand wherever they may, on
the left of a comparison too, and beside each other.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from fuzz.drawing import Graph
from pegbox import te
from pegbox.expr import build, dtypes
from pegbox.expr.nodes import Const, Expr

_FLOATS = ("float64", "float32", "float32", "float32", "float16", "bfloat16")
_INTEGERS = tuple(dtype for dtype in dtypes.BITS if dtypes.is_int(dtype))
_TYPES = (*_FLOATS, *_INTEGERS, "int64", "int64", "bool")
_SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.1, 1e30, 16777216.0, 1e-45, float("inf"), float("-inf"), float("nan"))
_ONE = (te.exp, te.sqrt, te.floor, te.round, te.abs, te.log1p, te.isnan, te.isinf, te.isfinite, te.relu, te.tanh)
_TWO = (te.pow, te.fmod, te.copysign, te.hypot, te.atan2)
_COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")
_SHAPE = (4, 3)

_PLUS = te.comm_reducer(lambda a, b: a + b, lambda t: te.const(0, t), name="plus")
_LARGEST = te.comm_reducer(
    lambda a, b: (te.if_then_else(te.const(0, a[1].dtype) < a[1] - b[1], a[0], b[0]), te.max(a[1], b[1])),
    lambda i, v: (te.const(-1, i), te.min_value(v)),
    name="largest",
)


def draw_expression_graph(rng: random.Random) -> Graph:
    """A computation of a random type, reduced in one of three cases."""
    inputs = {dtype: te.placeholder(_SHAPE, dtype, f"X_{dtype}") for dtype in dtypes.BITS}
    k = te.reduce_axis((rng.choice((0, 0, 2)), 4), "k")
    reduced = rng.random() < 0.33
    dtype = rng.choice(_TYPES if not reduced else _TYPES[:-1])
    seed, depth = rng.randrange(10**9), rng.choice((1, 2, 3, 4))

    def body(i: Any, j: Any) -> Any:
        draw = _Expressions(random.Random(seed), [i, j, k] if reduced else [i, j], inputs)
        if not reduced:
            return draw.of(dtype, depth)
        where = draw.of("bool", 2) if draw.rng.random() < 0.4 else None
        return _reduction(draw, dtype, depth, k, where)

    made = te.compute(_SHAPE, body, "Y")
    outputs = made if isinstance(made, tuple) else (made,)
    used = [t for t in inputs.values() if t in outputs[0].op.inputs]
    return Graph("expression", (*used, *outputs), outputs, exact=False)


def _reduction(draw: _Expressions, dtype: str, depth: int, k: Any, where: Any) -> Any:
    if draw.rng.random() < 0.2:
        return _LARGEST((draw.of("int32", depth), draw.of(dtype, depth)), axis=k, where=where)
    reduce: Callable[..., Any] = draw.rng.choice((te.sum, te.prod, te.max, te.min, _PLUS))
    return reduce(draw.of(dtype, depth), axis=k, where=where)


class _Expressions:
    def __init__(self, rng: random.Random, axes: Sequence[Any], inputs: dict[str, te.Tensor]) -> None:
        self.rng, self.axes, self.inputs = rng, axes, inputs

    def of(self, dtype: str, depth: int) -> Expr:
        """An expression of a type."""
        if depth <= 0 or self.rng.random() < 0.1:
            return self.leaf(dtype)
        if self.rng.random() < 0.12:
            return self.select(dtype, depth)
        if dtype == "bool":
            return self.condition(depth)
        if self.rng.random() < 0.12:
            return te.cast(dtype, self.of(self.rng.choice(_TYPES), depth - 1))
        return self.number(dtype, depth)

    def two(self, dtype: str, depth: int) -> tuple[Expr, Expr]:
        return self.of(dtype, depth - 1), self.of(dtype, depth - self.rng.choice((1, 2)))

    def leaf(self, dtype: str) -> Expr:
        if self.rng.random() < 0.5:
            return self.constant(dtype)
        if dtype == "int64" and self.rng.random() < 0.5:
            return self.rng.choice(self.axes)
        return self.inputs[dtype][self.index(_SHAPE[0]), self.index(_SHAPE[1])]

    def index(self, extent: int) -> Any:
        axis = self.rng.choice(self.axes)
        return self.rng.choice((axis % extent, te.minimum(axis, extent - 1), extent - 1, te.max(axis - 1, 0)))

    def constant(self, dtype: str) -> Const:
        if dtype == "bool":
            return te.const(self.rng.random() < 0.5)
        if dtypes.is_float(dtype):
            return te.const(self.rng.choice(_SPECIAL), dtype)
        low, high = (int(n) for n in dtypes.value_range(dtype))
        return te.const(self.rng.choice((low, low + 1, max(low, -1), 0, 1, 2, 7, high - 1, high)), dtype)

    def select(self, dtype: str, depth: int) -> Expr:
        return te.if_then_else(self.of("bool", depth - 1), *self.two(dtype, depth))

    def condition(self, depth: int) -> Expr:
        match self.rng.randrange(6):
            case 0:
                return te.all(*self.two("bool", depth), *self.two("bool", depth))
            case 1:
                return te.any(*self.two("bool", depth))
            case 2:
                return te.logical_not(self.of("bool", depth - 1))
            case 3:
                return self.of(self.rng.choice(_FLOATS), depth - 1) != self.constant("float64")
            case _:
                return build.compare(self.rng.choice(_COMPARE), *self.two(self.rng.choice(_TYPES), depth))

    def number(self, dtype: str, depth: int) -> Expr:
        a, b = self.two(dtype, depth)
        common = [te.maximum, te.minimum, build.add, build.sub, build.mul]
        if self.rng.random() < 0.6:
            return self.rng.choice(common)(a, b)
        if dtypes.is_float(dtype):
            return self.float(dtype, a, b)
        divisor = te.const(3, dtype) if isinstance(b, Const) and b.value == 0 else b
        one = [lambda x: -x, te.abs, te.popcount, te.clz, te.bitwise_not]
        two = [
            build.floordiv, build.floormod, te.truncdiv, te.truncmod, te.ceildiv,
            te.bitwise_and, te.bitwise_or, te.bitwise_xor, te.shift_left, te.shift_right,
        ]  # fmt: skip
        return self.rng.choice(one)(a) if self.rng.random() < 0.3 else self.rng.choice(two)(a, divisor)

    def float(self, dtype: str, a: Expr, b: Expr) -> Expr:
        match self.rng.randrange(4):
            case 0:
                return te.cast(dtype, self.rng.choice(_ONE)(a))
            case 1:
                return self.rng.choice(_TWO)(a, b)
            case 2:
                return -a if self.rng.random() < 0.5 else te.ldexp(a, self.of("int32", 1))
            case _:
                return a / b
