"""Conditions on indices, evaluated on a grid: the points where they hold, if these form a box."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pegbox.compute.reference_grid import Evaluator, Grid
from pegbox.expr.build import all_of, conjuncts, logical_not
from pegbox.expr.nodes import Expr, Select, Var
from pegbox.expr.visit import free_vars, loads

MOST_POINTS = 1 << 24
"""The largest grid on which a condition is evaluated."""


def reads_nothing(expr: Expr) -> bool:
    """Decide if a value depends on indices alone."""
    return not any(True for _ in loads(expr))


def box_of(condition: Expr, grid: Grid) -> Grid | None:
    """Find the part of the grid where a condition on its variables holds; None if that is not a box."""
    ranges = dict(zip(grid.variables, grid.ranges, strict=True))
    for part in _groups_of_shared_variables(conjuncts(condition)):
        own = _grid_of(part, grid)
        mask = _mask(part, own)
        if mask is None:
            return None
        if not mask.any():
            return Grid(grid.variables, tuple((first, first) for first, _ in grid.ranges))
        for dim, (variable, (first, _)) in enumerate(zip(own.variables, own.ranges, strict=True)):
            held = np.flatnonzero(mask.any(axis=tuple(set(range(mask.ndim)) - {dim})))
            ranges[variable] = (first + int(held[0]), first + int(held[-1]) + 1)
        if np.count_nonzero(mask) != prod(stop - first for first, stop in (ranges[v] for v in own.variables)):
            return None
    return Grid(grid.variables, tuple(ranges[v] for v in grid.variables))


def side_with_box(select: Select, grid: Grid) -> tuple[Grid, Expr, Expr] | None:
    """Find the box of a choice, the value there, and the value elsewhere."""
    if (box := box_of(select.cond, grid)) is not None:
        return box, select.a, select.b
    box = box_of(logical_not(select.cond), grid)
    return None if box is None else (box, select.b, select.a)


def around(grid: Grid, box: Grid) -> Iterator[Grid]:
    """Cut the part of a grid outside a box into boxes."""
    left = list(grid.ranges)
    for dim, ((first, stop), (low, high)) in enumerate(zip(grid.ranges, box.ranges, strict=True)):
        for part in ((first, low), (high, stop)):
            if part[0] < part[1]:
                yield Grid(grid.variables, (*left[:dim], part, *left[dim + 1 :]))
        left[dim] = (low, high)


def hold_together(a: Expr, b: Expr, grid: Grid) -> bool:
    """Decide if two conditions hold at the same points of a grid."""
    sides = conjuncts(a), conjuncts(b)
    for part in _groups_of_shared_variables([*sides[0], *sides[1]]):
        own = _grid_of(part, grid)
        first, second = (_mask([c for c in part if any(c is each for each in side)], own) for side in sides)
        if first is None or second is None or not np.array_equal(first, second):
            return False
    return True


def _groups_of_shared_variables(conditions: Sequence[Expr]) -> list[list[Expr]]:
    """Group conditions by the variables that they share."""
    groups: list[tuple[set[Var], list[Expr]]] = []
    for condition in conditions:
        variables, members = free_vars(condition), [condition]
        for group in [each for each in groups if each[0] & variables]:
            groups.remove(group)
            variables, members = group[0] | variables, [*group[1], *members]
        groups.append((variables, members))
    return [members for _, members in groups]


def _grid_of(conditions: Sequence[Expr], grid: Grid) -> Grid:
    return grid.only([v for each in conditions for v in free_vars(each)])


def _mask(conditions: Sequence[Expr], grid: Grid) -> NDArray[Any] | None:
    """Evaluate a conjunction; None if there are too many points."""
    return Evaluator(grid, {}).full(all_of(conditions)) if grid.size <= MOST_POINTS else None
