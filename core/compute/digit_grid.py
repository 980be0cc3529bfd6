"""Grids with a dimension for each digit of a variable, as NumPy's `reshape` gives them for `i // 16` and `i % 16`."""

from __future__ import annotations

from pegbox.compute.reference_grid import Grid
from pegbox.expr.digits import Digit
from pegbox.expr.nodes import Binary, Const, Expr, Var
from pegbox.expr.visit import rewrite, walk


def split_digits(expr: Expr, grid: Grid) -> tuple[Expr, Grid, dict[Var, Digit]]:
    """Two digits in place of each variable that is divided by a single number, where that divides its extent, too.

    Returns:
        the expression, the grid, and the digit that each new variable of the grid is.
    """
    steps = _steps(expr, grid)
    split = {v: (Var(v.name), Var(v.name)) for v in steps}
    if not split:
        return expr, grid, {}

    def leaf(node: Expr) -> Expr | None:
        if isinstance(node, Binary) and node.op in ("floordiv", "floormod"):
            return split[node.a][node.op == "floormod"] if isinstance(node.a, Var) and node.a in split else None
        if isinstance(node, Var) and node in split:
            first, last = split[node]
            return first * steps[node] + last
        return None

    variables: list[Var] = []
    ranges: list[tuple[int, int]] = []
    for v, (start, stop) in zip(grid.variables, grid.ranges, strict=True):
        variables += split.get(v, [v])
        ranges += [(0, stop // steps[v]), (0, steps[v])] if v in split else [(start, stop)]
    digits = {first: Digit(v, steps[v], None) for v, (first, _) in split.items()}
    digits |= {last: Digit(v, 1, steps[v]) for v, (_, last) in split.items()}
    return rewrite(expr, leaf), Grid(tuple(variables), tuple(ranges)), digits


def _steps(expr: Expr, grid: Grid) -> dict[Var, int]:
    """The number that a variable is divided by, for each variable that has two digits."""
    found: dict[Var, set[int]] = {}
    for node in walk(expr):
        if isinstance(node, Binary) and node.op in ("floordiv", "floormod") and isinstance(node.a, Var):
            found.setdefault(node.a, set()).add(node.b.value if isinstance(node.b, Const) else 0)  # type: ignore[arg-type]
    extents = dict(zip(grid.variables, grid.shape, strict=True))
    return {
        v: step
        for v, (step, *others) in ((v, tuple(steps)) for v, steps in found.items())
        if not others and step > 0 and v in extents and extents[v] % step == 0
    }
