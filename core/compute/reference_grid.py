"""Evaluation of expressions on whole grids of index values, for the NumPy reference.

Every variable of the grid is one dimension of the arrays; an expression's value has length one along variables on which
it does not depend, so that NumPy broadcasts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pegbox.compute.axis import IterVar
from pegbox.compute.graph import placeholders
from pegbox.compute.tensor import owner
from pegbox.errors import IndexOutOfBounds
from pegbox.expr import dtypes
from pegbox.expr.affine import linear
from pegbox.expr.low_level import Reinterpret
from pegbox.expr.nodes import Binary, Buffer, Call, Cast, Compare, Const, Expr, Load, Logic, Not, Select, Var
from pegbox.expr.numpy_operators import BINARY, FUNCTIONS
from pegbox.expr.operators import COMPARE
from pegbox.expr.visit import loads

Array = NDArray[Any]
Arrays = Mapping[Buffer, Array]
Mask = Array | None


class WideArrays(dict[Buffer, Array]):
    """The arrays of an evaluation in float64, in which all arrays of floats are float64."""


_OPERATORS: dict[Any, Callable[[Array, Array], Array]] = {**BINARY, **COMPARE}


@dataclass(frozen=True)
class Grid:
    """Variables in the order of their dimensions, each with its (first, one past the last) value."""

    variables: tuple[Var, ...]
    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, axes: Sequence[IterVar]) -> Grid:
        """Return all points of some axes."""
        return cls(tuple(axes), tuple((iv.dom.min, iv.dom.min + iv.dom.extent) for iv in axes))

    def __add__(self, inner: Grid) -> Grid:
        return Grid(self.variables + inner.variables, self.ranges + inner.ranges)

    @property
    def slices(self) -> tuple[slice, ...]:
        """Return the grid's part of an array with one dimension for each variable."""
        return tuple(slice(first, stop) for first, stop in self.ranges)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(stop - start for start, stop in self.ranges)

    @property
    def size(self) -> int:
        return prod(self.shape)

    def only(self, variables: Sequence[Var]) -> Grid:
        """Return the grid of some of the variables, in this grid's order."""
        kept = [(v, r) for v, r in zip(self.variables, self.ranges, strict=True) if v in set(variables)]
        return Grid(tuple(v for v, _ in kept), tuple(r for _, r in kept))

    def walk(self, load: Load, strides: Sequence[int]) -> tuple[list[int], dict[Var, int]] | None:
        """Return the first indices of a load, and the step of each variable through memory with these strides.

        None if the indices are not affine in the grid's variables or leave the buffer (a mask may allow that).
        """
        ranges: dict[Expr, tuple[int, int]] = dict(zip(self.variables, self.ranges, strict=True))
        origin, steps = list[int](), dict.fromkeys(self.variables, 0)
        for index, extent, stride in zip(load.indices, load.buffer.shape, strides, strict=True):
            form = linear(index)
            if not form.terms.keys() <= ranges.keys():
                return None
            ends = [(factor * ranges[v][0], factor * (ranges[v][1] - 1)) for v, factor in form.terms.items()]
            if form.const + sum(map(min, ends)) < 0 or form.const + sum(map(max, ends)) >= extent:
                return None
            origin.append(form.const + sum(first for first, _ in ends))
            for variable, factor in form.terms.items():
                steps[variable] += factor * stride  # type: ignore[index]
        return origin, steps

    def values(self, variable: Var) -> Array:
        """Return the variable's values along its dimension."""
        dim = self.variables.index(variable)
        start, stop = self.ranges[dim]
        return np.arange(start, stop).reshape([-1 if d == dim else 1 for d in range(len(self.variables))])

    def blocks(self, limit: int) -> Iterator[Grid]:
        """Yield parts of at most `limit` points (or one point) in row-major order, cutting outer dimensions first."""
        sizes = list(self.shape)
        for dim, extent in enumerate(sizes):
            rest = prod(sizes[dim + 1 :])
            if extent * rest <= limit:
                break
            sizes[dim] = max(limit // rest, 1)
        steps = [
            [(first, min(first + size, stop)) for first in range(start, stop, size)]
            for (start, stop), size in zip(self.ranges, sizes, strict=True)
        ]
        for ranges in product(*steps):
            yield Grid(self.variables, ranges)


class Evaluator:
    """An evaluator of expressions over `grid`; `bindings` are the values of other variables."""

    def __init__(self, grid: Grid, arrays: Arrays, bindings: Mapping[Var, Array] | None = None) -> None:
        self.grid = grid
        self.arrays = arrays
        self.bindings = bindings or {}
        self.wide = isinstance(arrays, WideArrays)

    def value(self, expr: Expr, mask: Mask = None) -> Array:
        """Compute the array of values; where `mask` is false they are arbitrary, and indices may be out of range."""
        match expr:
            case Const():
                return np.asarray(expr.value, dtype=expr.dtype)
            case Var():
                return self.bindings[expr] if expr in self.bindings else self.grid.values(expr)
            case Binary(op, a, b) | Compare(op, a, b):
                return _OPERATORS[op](self.value(a, mask), self.value(b, mask))
            case Logic(op, a, b):
                first = self.value(a, mask)
                combine = np.logical_and if op == "and" else np.logical_or
                return np.asarray(combine(first, self.value(b, both(mask, first if op == "and" else ~first))))
            case Not(a):
                return np.asarray(~self.value(a, mask))
            case Select(cond, a, b):
                chosen = self.value(cond, mask)
                return np.where(chosen, self.value(a, both(mask, chosen)), self.value(b, both(mask, ~chosen)))
            case Cast(dtype, a):
                # As in C, where floats outside the range of an integer type are undefined.
                value = np.asarray(self.value(a, mask))
                cast: Array = np.not_equal(value, 0) if dtype == "bool" else value.astype(self._type(dtype), copy=False)
                return cast
            case Reinterpret(dtype, a):
                return np.array(self.value(a, mask), dtype=a.dtype).view(dtype)
            case Call(name, args):
                values = [self.value(a, mask) for a in args]
                if dtypes.is_float(expr.dtype):  # round narrow ones, as kernels do
                    values = [np.asarray(value, dtype="float64") for value in values]
                found: Array = np.asarray(FUNCTIONS[name](*values)).astype(self._type(expr.dtype), copy=False)
                return found
            case Load():
                array = self.arrays[expr.buffer]
                walk = self.grid.walk(expr, array.strides)
                if walk is None:
                    return self._gather(expr, mask)
                origin, steps = walk
                shape = [n if step else 1 for n, step in zip(self.grid.shape, steps.values(), strict=True)]
                first = array[tuple(slice(at, at + 1) for at in origin)]
                # A view without copying, within the array, because indices walk through memory in constant steps.
                return np.lib.stride_tricks.as_strided(first, shape, [*steps.values()], writeable=False)
            case _:
                raise TypeError(f"unknown expression node {type(expr).__name__}")

    def _type(self, dtype: str) -> str:
        return wide_type(dtype) if self.wide else dtype

    def full(self, expr: Expr, mask: Mask = None) -> Array:
        """Return the value, with the grid's whole shape (read-only where it repeats)."""
        return np.broadcast_to(self.value(expr, mask), self.grid.shape)

    def _gather(self, load: Load, mask: Mask) -> Array:
        indices = []
        for dim, (index, extent) in enumerate(zip(load.indices, load.buffer.shape, strict=True)):
            values = self.value(index, mask)
            inside = np.clip(values, 0, extent - 1)
            outside = both(mask, values != inside)
            if outside is not None and outside.any():
                wrong = np.broadcast_to(values, outside.shape)[outside].flat[0]
                raise IndexOutOfBounds(
                    f"{load} reads index {wrong} in dimension {dim} of {load.buffer.name}, whose shape is "
                    f"{list(load.buffer.shape)}; guard it with te.if_then_else",
                    tuple(t.name for t in placeholders([owner(each.buffer) for each in loads(index)])),
                )
            indices.append(inside)
        return np.asarray(self.arrays[load.buffer][tuple(indices)])


def wide_type(dtype: str) -> str:
    """Return float64 for a type of floats, and any other type unchanged."""
    return "float64" if dtypes.is_float(dtype) else dtype


def both(a: Mask, b: Mask) -> Mask:
    """Return the lanes that are in both masks; None means all."""
    if a is None or b is None:
        return b if a is None else a
    return a & b
