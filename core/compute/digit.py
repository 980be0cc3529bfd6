"""Digits of variables: what `i // 16` and `i % 16` index has a dimension for each, as NumPy's `reshape` gives."""

from __future__ import annotations

from collections.abc import Mapping

from pegbox.compute.reference_grid import Grid
from pegbox.expr.nodes import Binary, Const, Expr, Var
from pegbox.expr.visit import rewrite, walk


class Digit(Var):
    """A digit of another variable: `whole // step`, or, where it is the `last`, `whole % step`."""

    __slots__ = ("last", "step", "whole")

    def __init__(self, whole: Var, step: int, last: bool) -> None:
        super().__init__(whole.name)
        self.whole, self.step, self.last = whole, step, last


def digit_step(digit: Var, by_axis: Mapping[Var, int]) -> int:
    """The step of a digit, given those of the whole variables."""
    assert isinstance(digit, Digit)
    return by_axis[digit.whole] * (1 if digit.last else digit.step)


def split_digits(expr: Expr, grid: Grid) -> tuple[Expr, Grid]:
    """Two digits in place of each variable that is divided by a single number, where that divides its extent, too."""
    split = _pairs(expr, grid)
    if not split:
        return expr, grid

    def leaf(node: Expr) -> Expr | None:
        if isinstance(node, Binary) and node.op in ("floordiv", "floormod"):
            return split[node.a][node.op == "floormod"] if isinstance(node.a, Var) and node.a in split else None
        if isinstance(node, Var) and node in split:
            first, last = split[node]
            return first * first.step + last
        return None

    variables: list[Var] = []
    ranges: list[tuple[int, int]] = []
    for v, (start, stop) in zip(grid.variables, grid.ranges, strict=True):
        pair = split.get(v)
        variables += pair or [v]
        ranges += [(0, stop // pair[0].step), (0, pair[0].step)] if pair else [(start, stop)]
    return rewrite(expr, leaf), Grid(tuple(variables), tuple(ranges))


def _pairs(expr: Expr, grid: Grid) -> dict[Var, tuple[Digit, Digit]]:
    """The two digits of each variable that has them."""
    found: dict[Var, set[int]] = {}
    for node in walk(expr):
        if isinstance(node, Binary) and node.op in ("floordiv", "floormod") and isinstance(node.a, Var):
            found.setdefault(node.a, set()).add(node.b.value if isinstance(node.b, Const) else 0)  # type: ignore[arg-type]
    extents = dict(zip(grid.variables, grid.shape, strict=True))
    return {
        v: (Digit(v, step, False), Digit(v, step, True))
        for v, (step, *others) in ((v, tuple(steps)) for v, steps in found.items())
        if not others and step > 0 and v in extents and extents[v] % step == 0
    }
