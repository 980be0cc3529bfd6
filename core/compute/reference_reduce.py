"""Reductions in the NumPy reference: matrix multiplication, NumPy's own reductions, or a tree of combinations.

A sum of products splits into factors. Each factor is evaluated only over its own variables (an affine load is a strided
view, such as a convolution's sliding windows), and two factors meet in one batched `np.matmul`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pegbox.compute.reducer import Reduce, Reducer
from pegbox.compute.reference_grid import Arrays, Evaluator, Grid, WideArrays
from pegbox.expr import dtypes
from pegbox.expr.build import TRUE
from pegbox.expr.nodes import Binary, Expr, Var
from pegbox.expr.visit import free_vars

Array = NDArray[Any]

# The largest number of elements of a factor, laid out for the multiplication.
LIMIT = 1 << 24

_EXACT_IN_FLOAT64 = 2**53

# Grid points evaluated at once: about eight temporary arrays of 8-byte numbers live together, 256 MiB in total.
CHUNK = 1 << 22

_UFUNCS: dict[str, np.ufunc] = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


class Combiner:
    """The combination of two arrays of partial results, and the reduction of an array along its last dimension.

    Sums and products of floats are accumulated in float64 and those of integers in 64 bits, whose low bits are those of
    every narrower type; user-defined combinations use the types of their values, neighbours first, which keeps the
    left-to-right order of a plain loop.
    """

    def __init__(self, reducer: Reducer, types: tuple[str, ...], *, wide: bool = False) -> None:
        self.types = types
        self._none = WideArrays() if wide else {}
        self.left = tuple(Var(f"a{i}", t) for i, t in enumerate(types))
        self.right = tuple(Var(f"b{i}", t) for i, t in enumerate(types))
        self.parts: tuple[Expr, ...] = reducer.combine(self.left, self.right)
        self.op: str | None = None
        """The equivalent NumPy operation, if there is one."""
        match self.parts:
            case [Binary(op, a, b)] if op in _UFUNCS and {id(a), id(b)} == {id(self.left[0]), id(self.right[0])}:
                self.op = op
        scalar = Evaluator(Grid((), ()), {})
        self.identity = [scalar.value(e).astype(t) for e, t in zip(reducer.identity(types), types, strict=True)]

    @classmethod
    def of(cls, reduce: Reduce, *, wide: bool = False) -> Combiner:
        """Make the combiner of a reduction.

        Args:
            wide: hold floats as float64.
        """
        return cls(reduce.reducer, tuple(source.dtype for source in reduce.sources), wide=wide)

    def start(self, shape: tuple[int, ...]) -> list[Array]:
        """Make arrays full of the identity, in the types of accumulation."""
        return [np.full(shape, value, self._accumulator(t)) for value, t in zip(self.identity, self.types, strict=True)]

    def _accumulator(self, dtype: str) -> str:
        return dtypes.accumulator(dtype) if self.op in ("add", "mul") else dtype

    def combine(self, a: list[Array], b: list[Array]) -> list[Array]:
        if self.op is not None:
            return [_UFUNCS[self.op](a[0], b[0])]
        bindings = dict(zip((*self.left, *self.right), (*a, *b), strict=True))
        evaluator = Evaluator(Grid((), ()), self._none, bindings)
        shape = np.broadcast_shapes(*(v.shape for v in (*a, *b)))
        return [np.broadcast_to(evaluator.value(e), shape) for e in self.parts]

    def reduce(self, values: list[Array]) -> list[Array]:
        """Reduce along the last dimension, which is not empty."""
        if self.op is not None:
            accumulator = self._accumulator(self.types[0])
            return [np.asarray(_UFUNCS[self.op].reduce(values[0], axis=-1, dtype=accumulator))]
        while (n := values[0].shape[-1]) > 1:
            even = n - n % 2
            pairs = self.combine([v[..., 0:even:2] for v in values], [v[..., 1:even:2] for v in values])
            values = [np.concatenate([p, v[..., even:]], axis=-1) for p, v in zip(pairs, values, strict=True)]
        return [v[..., 0] for v in values]


def reduce_grid(reduce: Reduce, spatial: Grid, arrays: Arrays, out: list[Array]) -> None:
    """Fill `out` (whole arrays) over the points of `spatial`, a block at a time."""
    combiner, every = Combiner.of(reduce, wide=isinstance(arrays, WideArrays)), Grid.of(reduce.axes)
    for outer in spatial.blocks(max(CHUNK // every.size, 1)):
        result = combiner.start(outer.shape)
        for inner in every.blocks(CHUNK):
            evaluator = Evaluator(outer + inner, arrays)
            mask = None if reduce.condition is TRUE else evaluator.full(reduce.condition)
            values = [evaluator.full(source, mask) for source in reduce.sources]
            if mask is not None:
                values = [np.where(mask, v, i) for v, i in zip(values, combiner.identity, strict=True)]
            partial = combiner.reduce([v.reshape(*outer.shape, inner.size) for v in values])
            result = combiner.combine(result, partial)
        for array, value in zip(out, result, strict=True):
            array[outer.slices] = value.astype(array.dtype)


class Factor(NamedTuple):
    """An expression with its variables, in the order of the grid."""

    expr: Expr
    variables: tuple[Var, ...]


class GridOperand(NamedTuple):
    """An array with one dimension per variable."""

    array: Array
    variables: tuple[Var, ...]


def factors(reduce: Reduce, variables: tuple[Var, ...]) -> tuple[Factor, Factor] | None:
    """Return the two factors whose product is summed, or None if this is not a plain sum of products."""
    combiner = Combiner.of(reduce)
    if combiner.op != "add" or combiner.identity[0] != 0 or reduce.condition is not TRUE:
        return None
    parts: list[Factor] = []
    for expr in _flatten(reduce.sources[0]):
        free = free_vars(expr)
        parts.append(Factor(expr, tuple(v for v in variables if v in free)))
    if not set(reduce.axes) <= {v for part in parts for v in part.variables}:
        return None  # an axis only repeats the terms
    parts.sort(key=lambda f: -len(f.variables))
    while len(parts) > 2:  # multiply factors whose variables are a subset of another's
        small = parts.pop()
        host = next((i for i, f in enumerate(parts) if set(small.variables) <= set(f.variables)), None)
        if host is None:
            return None
        parts[host] = Factor(Binary("mul", parts[host].expr, small.expr), parts[host].variables)
    return (parts[0], parts[1]) if len(parts) == 2 else None


def _flatten(expr: Expr) -> list[Expr]:
    if isinstance(expr, Binary) and expr.op == "mul":
        return _flatten(expr.a) + _flatten(expr.b)
    return [expr]


def matmul_groups(a: Sequence[Var], b: Sequence[Var], spatial: Sequence[Var]) -> tuple[tuple[Var, ...], ...]:
    """Return the variables of a product's batch, rows, columns and reduction, by the variables of its two factors."""
    batch = tuple(v for v in spatial if v in a and v in b)
    rows = tuple(v for v in spatial if v in a and v not in b)
    columns = tuple(v for v in spatial if v in b and v not in a)
    return batch, rows, columns, tuple(v for v in a if v not in spatial)


def contract_grid(pair: tuple[Factor, Factor], reduced: Grid, spatial: Grid, arrays: Arrays, out: Array) -> bool:
    """Fill `out` over `spatial`, a block at a time; False if even one point would take too much memory."""
    if max(reduced.only(f.variables).size for f in pair) > LIMIT:
        return False
    for block in _blocks(pair, reduced, spatial):
        grids = [(block + reduced).only(f.variables) for f in pair]
        arrays_of = [Evaluator(grid, arrays).full(f.expr) for grid, f in zip(grids, pair, strict=True)]
        a, b = (GridOperand(array, f.variables) for array, f in zip(arrays_of, pair, strict=True))
        out[block.slices] = _contract(a, b, block, str(out.dtype))
    return True


def _blocks(pair: tuple[Factor, Factor], reduced: Grid, spatial: Grid) -> list[Grid]:
    """Halve the number of points until both factors of every block fit."""
    limit = spatial.size
    while True:
        blocks = list(spatial.blocks(limit))
        grid = blocks[0] + reduced
        if limit == 1 or all(grid.only(f.variables).size <= LIMIT for f in pair):
            return blocks
        limit = (limit + 1) // 2


def _contract(a: GridOperand, b: GridOperand, out: Grid, dtype: str) -> Array:
    """Sum a * b over the variables that `out` lacks, with the dimensions of `out`."""
    a, b = _sum_own(a, b, out, dtype), _sum_own(b, a, out, dtype)
    spatial = out.variables
    batch, rows, columns, inner = matmul_groups(a.variables, b.variables, spatial)
    extent = dict(zip(a.variables + b.variables, a.array.shape + b.array.shape, strict=True))
    extent.update(zip(out.variables, out.shape, strict=True))
    left = _matrix(a, (batch, rows, inner), extent)
    right = _matrix(b, (batch, inner, columns), extent)
    present = (*batch, *rows, *columns)
    if len(left) == 1:  # one plain matrix product, which NumPy passes to BLAS as a whole
        left, right = left[0], right[0]
    result = _product(left, right, dtype).reshape([extent[v] for v in present])
    result = result.transpose([present.index(v) for v in spatial if v in present])
    return np.asarray(result.reshape([extent[v] if v in present else 1 for v in spatial]))


def _sum_own(operand: GridOperand, other: GridOperand, out: Grid, dtype: str) -> GridOperand:
    """Sum over the variables that only this operand has."""
    own = [i for i, v in enumerate(operand.variables) if v not in other.variables and v not in out.variables]
    if not own:
        return operand
    array = np.asarray(operand.array.sum(axis=tuple(own), dtype=dtypes.accumulator(dtype)))
    return GridOperand(array, tuple(v for i, v in enumerate(operand.variables) if i not in own))


def _matrix(operand: GridOperand, groups: tuple[tuple[Var, ...], ...], extent: dict[Var, int]) -> Array:
    """Return one dimension per group of variables."""
    order = [operand.variables.index(v) for group in groups for v in group]
    return np.asarray(operand.array.transpose(order).reshape([prod(extent[v] for v in group) for group in groups]))


def _product(a: Array, b: Array, dtype: str) -> Array:
    if dtypes.is_float(dtype):
        wide = np.result_type("float32", a, b)
        return np.asarray(a.astype(wide, copy=False) @ b.astype(wide, copy=False))
    # BLAS lacks integers; float64 is exact while no partial sum can exceed 2^53.
    if _magnitude(a) * _magnitude(b) * a.shape[-1] < _EXACT_IN_FLOAT64:
        return np.asarray(a.astype("float64") @ b.astype("float64")).astype("int64").astype(dtype)
    return np.asarray(a.astype("int64") @ b.astype("int64")).astype(dtype)


def _magnitude(a: Array) -> int:
    return max(abs(int(a.min())), abs(int(a.max()))) if a.size else 0
