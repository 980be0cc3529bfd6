"""Evaluation of expressions on whole grids of index values, for the NumPy reference.

Every variable of the grid is one dimension of the arrays; an expression's value has length one in the dimensions of
the variables that it does not depend on, so that NumPy broadcasts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pegbox.compute.graph import placeholders
from pegbox.compute.reference_math import BINARY, COMPARE, call, cast
from pegbox.compute.tensor import owner
from pegbox.errors import IndexOutOfBounds
from pegbox.expr.affine import linear
from pegbox.expr.nodes import Binary, Buffer, Call, Cast, Compare, Const, Expr, Load, Logic, Not, Select, Var
from pegbox.expr.visit import loads

Array = NDArray[Any]
Arrays = Mapping[Buffer, Array]
Mask = Array | None


@dataclass(frozen=True)
class Grid:
    """Variables in the order of their dimensions, each with its (first, one past the last) value."""

    variables: tuple[Var, ...]
    ranges: tuple[tuple[int, int], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(stop - start for start, stop in self.ranges)

    @property
    def size(self) -> int:
        return prod(self.shape)

    def only(self, variables: Sequence[Var]) -> Grid:
        """The grid of some of the variables, in this grid's order."""
        pairs = [(v, r) for v, r in zip(self.variables, self.ranges, strict=True) if v in set(variables)]
        return Grid(tuple(v for v, _ in pairs), tuple(r for _, r in pairs))

    def values(self, variable: Var) -> Array:
        """The variable's values along its dimension."""
        dim = self.variables.index(variable)
        start, stop = self.ranges[dim]
        return np.arange(start, stop).reshape([-1 if d == dim else 1 for d in range(len(self.variables))])

    def blocks(self, limit: int) -> Iterator[Grid]:
        """Parts of at most `limit` points (or single points) in row-major order: outer dimensions are cut first."""
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
    """Evaluates expressions over `grid`; `bindings` give values to variables that are not in it."""

    def __init__(self, grid: Grid, arrays: Arrays, bindings: Mapping[Var, Array] | None = None) -> None:
        self.grid = grid
        self.arrays = arrays
        self.bindings = bindings or {}

    def value(self, expr: Expr, mask: Mask = None) -> Array:
        """The array of values; where `mask` is false they are arbitrary, and indices there may be out of range."""
        match expr:
            case Const():
                return np.asarray(expr.value, dtype=expr.dtype)
            case Var():
                return self.bindings[expr] if expr in self.bindings else self.grid.values(expr)
            case Binary(op, a, b):
                return BINARY[op](self.value(a, mask), self.value(b, mask))
            case Compare(op, a, b):
                return COMPARE[op](self.value(a, mask), self.value(b, mask))
            case Logic(op, a, b):
                first = self.value(a, mask)
                return BINARY[op](first, self.value(b, both(mask, first if op == "and" else ~first)))
            case Not(a):
                return np.asarray(~self.value(a, mask))
            case Select(cond, a, b):
                chosen = self.value(cond, mask)
                return np.where(chosen, self.value(a, both(mask, chosen)), self.value(b, both(mask, ~chosen)))
            case Cast(dtype, a):
                return cast(dtype, self.value(a, mask))
            case Call(name, args):
                return call(name, expr.dtype, [self.value(a, mask) for a in args])
            case Load():
                return self._load(expr, mask)
            case _:
                raise TypeError(f"unknown expression node {type(expr).__name__}")

    def full(self, expr: Expr, mask: Mask = None) -> Array:
        """The value, with the grid's whole shape (read-only where it repeats)."""
        return np.broadcast_to(self.value(expr, mask), self.grid.shape)

    def _load(self, load: Load, mask: Mask) -> Array:
        view = self._view(load)
        return self._gather(load, mask) if view is None else view

    def _view(self, load: Load) -> Array | None:
        """The elements without copying: affine indices walk through memory in constant steps.

        None where the indices are not affine in the grid's variables or leave the buffer (a mask may allow that).
        """
        array = self.arrays[load.buffer]
        position: dict[Expr, int] = dict(zip(self.grid.variables, range(len(self.grid.variables)), strict=True))
        steps = [0] * len(position)
        depends = [False] * len(position)
        origin = []
        for index, extent, stride in zip(load.indices, array.shape, array.strides, strict=True):
            form = linear(index)
            if not form.terms.keys() <= position.keys():
                return None
            first, lowest, highest = form.const, 0, 0
            for variable, factor in form.terms.items():
                dim = position[variable]
                start, stop = self.grid.ranges[dim]
                first += factor * start
                reach = factor * (stop - 1 - start)
                lowest, highest = lowest + min(reach, 0), highest + max(reach, 0)
                steps[dim] += factor * stride
                depends[dim] = True
            if first + lowest < 0 or first + highest >= extent:
                return None
            origin.append(slice(first, first + 1))
        shape = [n if d else 1 for n, d in zip(self.grid.shape, depends, strict=True)]
        # The bounds are checked above: the view stays within the array.
        return np.lib.stride_tricks.as_strided(array[tuple(origin)], shape, steps, writeable=False)

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


def both(a: Mask, b: Mask) -> Mask:
    """The lanes that are in both masks; None stands for all."""
    if a is None or b is None:
        return b if a is None else a
    return a & b
