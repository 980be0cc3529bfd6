"""Sums of products in the NumPy reference, computed by matrix multiplication, so that checks of matmuls are fast.

A source that is a product splits into factors. Each factor is evaluated over its own variables alone (an affine load
is a strided view, for a convolution the sliding windows), and two factors meet in one batched `np.matmul`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pegbox.compute.reducer import Reduce
from pegbox.compute.reference_grid import Arrays, Evaluator, Grid
from pegbox.compute.reference_reduce import Combiner
from pegbox.expr import dtypes
from pegbox.expr.build import TRUE
from pegbox.expr.nodes import Binary, Expr, Var
from pegbox.expr.visit import free_vars

Array = NDArray[Any]

# Elements that one factor may take when it is laid out for the multiplication.
LIMIT = 1 << 24

_EXACT_IN_FLOAT64 = 2**53


class Factor(NamedTuple):
    """An expression and the variables that it depends on, in the order of the grid."""

    expr: Expr
    variables: tuple[Var, ...]


class GridOperand(NamedTuple):
    """An array with one dimension per variable."""

    array: Array
    variables: tuple[Var, ...]


def factors(reduce: Reduce, variables: tuple[Var, ...]) -> tuple[Factor, Factor] | None:
    """The two factors whose product is summed, or None where this is not a plain sum of products."""
    combiner = Combiner.of(reduce)
    if combiner.op != "add" or combiner.identity[0] != 0 or reduce.condition is not TRUE:
        return None
    parts: list[Factor] = []
    for expr in _flatten(reduce.sources[0]):
        free = free_vars(expr)
        parts.append(Factor(expr, tuple(v for v in variables if v in free)))
    if not set(reduce.axes) <= {v for part in parts for v in part.variables}:
        return None  # an axis that only repeats the terms
    parts.sort(key=lambda f: -len(f.variables))
    while len(parts) > 2:  # multiply factors whose variables are among another's
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
    """The variables of a product's batch, rows, columns and reduction, by the variables of its two factors."""
    batch = tuple(v for v in spatial if v in a and v in b)
    rows = tuple(v for v in spatial if v in a and v not in b)
    columns = tuple(v for v in spatial if v in b and v not in a)
    return batch, rows, columns, tuple(v for v in a if v not in spatial)


def contract_grid(pair: tuple[Factor, Factor], reduced: Grid, spatial: Grid, arrays: Arrays, out: Array) -> bool:
    """Fill `out` over `spatial`, a block at a time; False where even one point would take too much memory."""
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
    """Sum of a * b over the variables that `out` lacks, with the dimensions of `out`."""
    a, b = _sum_own(a, b, out, dtype), _sum_own(b, a, out, dtype)
    spatial = out.variables
    batch, rows, columns, inner = matmul_groups(a.variables, b.variables, spatial)
    extent = dict(zip(a.variables + b.variables, a.array.shape + b.array.shape, strict=True))
    extent.update(zip(out.variables, out.shape, strict=True))
    left = _matrix(a, (batch, rows, inner), extent)
    right = _matrix(b, (batch, inner, columns), extent)
    present = (*batch, *rows, *columns)
    if len(left) == 1:  # one plain matrix product, which NumPy hands to BLAS whole
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
    """One dimension per group of variables."""
    order = [operand.variables.index(v) for group in groups for v in group]
    return np.asarray(operand.array.transpose(order).reshape([prod(extent[v] for v in group) for group in groups]))


def _product(a: Array, b: Array, dtype: str) -> Array:
    if dtypes.is_float(dtype):
        wide = np.result_type("float32", a, b)
        return np.asarray(a.astype(wide, copy=False) @ b.astype(wide, copy=False))
    # BLAS knows no integers; float64 is exact while no partial sum can pass 2^53.
    if _magnitude(a) * _magnitude(b) * a.shape[-1] < _EXACT_IN_FLOAT64:
        return np.asarray(a.astype("float64") @ b.astype("float64")).astype("int64").astype(dtype)
    return np.asarray(a.astype("int64") @ b.astype("int64")).astype(dtype)


def _magnitude(a: Array) -> int:
    return max(abs(int(a.min())), abs(int(a.max()))) if a.size else 0
