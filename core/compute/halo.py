"""Reads beyond the borders of a tensor, as slices of a copy with borders, such as `np.pad` makes.

A stencil reads `A[i - 1]` if that is inside, and a constant elsewhere, or it reads at an index that is clamped,
reflected or taken modulo the extent. All of these are affine reads of one larger tensor, whose lines are those of `A`
or constant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from pegbox.compute.index_condition import MOST_POINTS, hold_together
from pegbox.compute.reference_grid import Evaluator, Grid
from pegbox.expr.affine import Linear, linear
from pegbox.expr.build import all_of
from pegbox.expr.dtypes import INDEX
from pegbox.expr.nodes import Buffer, Const, Expr, Load
from pegbox.expr.visit import free_vars, loads, walk

_OUTSIDE, _UNREAD = -1, -2
_MOST_PIECES = 32


class Line(NamedTuple):
    """One dimension of a halo: the source's index at each position from `first` on, or `_OUTSIDE`, or `_UNREAD`."""

    first: int
    held: tuple[int, ...]


class StridedRun(NamedTuple):
    """Positions of a line that walk through the source in constant steps."""

    place: int
    length: int
    source: int
    step: int


@dataclass(frozen=True)
class BorderedRead:
    """A read of `source` at affine positions of lines; `fill` is the value outside it."""

    source: Buffer
    fill: Const | None
    positions: tuple[Linear, ...]
    lines: tuple[Line, ...]

    @classmethod
    def of(
        cls, load: Load, grid: Grid, condition: Expr | None = None, fill: Const | None = None
    ) -> BorderedRead | None:
        """Describe a read under a condition, with `fill` elsewhere; None if it is not a read of a halo."""
        found = [_line(each, extent, grid) for each, extent in zip(load.indices, load.buffer.shape, strict=True)]
        known = [each for each in found if each is not None]
        if len(known) < len(found):
            return None
        if condition is not None:
            ends = [(each >= 0, each < extent) for each, extent in zip(load.indices, load.buffer.shape, strict=True)]
            if not hold_together(condition, all_of([end for pair in ends for end in pair]), grid):
                return None
        elif any(_OUTSIDE in line.held for _, line in known):
            return None
        return cls(load.buffer, fill, tuple(form for form, _ in known), tuple(line for _, line in known))


@dataclass(frozen=True)
class Halo:
    """A tensor with borders."""

    source: Buffer
    fill: Const | None
    lines: tuple[Line, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(line.held) for line in self.lines)

    @property
    def key(self) -> tuple[object, ...]:
        """The content; equal for halos with equal elements."""
        return self.source, repr(self.fill), self.lines

    @property
    def is_filled(self) -> bool:
        """True if some elements are `fill`."""
        return any(_OUTSIDE in line.held for line in self.lines)

    def pieces(self) -> list[tuple[StridedRun, ...]] | None:
        """Cut it into boxes that are views of the source: a run for each dimension; None if there are too many."""
        runs = [_runs(line.held) for line in self.lines]
        return list(product(*runs)) if prod(map(len, runs)) <= _MOST_PIECES else None

    def merged(self, read: BorderedRead) -> Halo | None:
        """Return a halo for one more read; None if it has other elements at the same place."""
        fills = [each for each in (self.fill, read.fill) if each is not None]
        if self.source is not read.source or len(set(map(repr, fills))) > 1:
            return None
        lines = [_merged(a, b) for a, b in zip(self.lines, read.lines, strict=True)]
        known = [line for line in lines if line is not None]
        return Halo(self.source, fills[0] if fills else None, tuple(known)) if len(known) == len(lines) else None

    def at(self, buffer: Buffer, read: BorderedRead) -> Load:
        """Read an element from the halo in `buffer`."""
        places = zip(read.positions, self.lines, strict=True)
        return Load(buffer, tuple(Linear(form.terms, form.const - line.first).to_expr() for form, line in places))


def halos_of(reads: Mapping[Expr, BorderedRead]) -> list[tuple[Halo, list[Expr]]]:
    """Find as few halos as possible for all reads, each with its reads."""
    found: list[tuple[Halo, list[Expr]]] = []
    for expr, read in reads.items():
        for place, (halo, members) in enumerate(found):
            if (wider := halo.merged(read)) is not None:
                found[place] = wider, [*members, expr]
                break
        else:
            found.append((Halo(read.source, read.fill, read.lines), [expr]))
    return found


def _line(expr: Expr, extent: int, grid: Grid) -> tuple[Linear, Line] | None:
    """Write an index as a function of an affine form of the grid's variables: the form, and the function's values."""
    form, ranges = linear(expr), dict(zip(grid.variables, grid.ranges, strict=True))
    if form.terms.keys() <= ranges.keys():
        ends = [(factor * ranges[v][0], factor * (ranges[v][1] - 1)) for v, factor in form.terms.items()]  # type: ignore[index]
        first, last = form.const + sum(map(min, ends)), form.const + sum(map(max, ends))
        return form, Line(first, tuple(at if 0 <= at < extent else _OUTSIDE for at in range(first, last + 1)))
    variables = free_vars(expr)
    own = grid.only(tuple(variables))
    if any(True for _ in loads(expr)) or not variables <= set(ranges) or own.size > MOST_POINTS:
        return None
    values = Evaluator(own, {}).full(expr)
    for node in walk(expr):
        form = linear(node) if node.dtype == INDEX else Linear({}, 0)
        if form.terms.keys() == variables:
            at = Evaluator(own, {}).full(form.to_expr())
            first = int(at.min())
            held = np.full(int(at.max()) - first + 1, _UNREAD)
            held[at - first] = np.where((values >= 0) & (values < extent), values, _OUTSIDE)
            if np.array_equal(held[at - first], np.where((values >= 0) & (values < extent), values, _OUTSIDE)):
                return _in_place(form, Line(first, tuple(map(int, held))))
    return None


def _in_place(form: Linear, line: Line) -> tuple[Linear, Line]:
    """Shift a line so that most of its positions equal the indices that they hold, as in other lines."""
    whole = max((run for run in _runs(line.held) if run.step == 1), key=lambda run: run.length, default=None)
    moved = 0 if whole is None else whole.source - (line.first + whole.place)
    return Linear(form.terms, form.const + moved), Line(line.first + moved, line.held)


def _runs(held: Sequence[int]) -> list[StridedRun]:
    """Cut a line into the fewest runs, without positions outside."""
    runs, place = list[StridedRun](), 0
    while place < len(held):
        if held[place] < 0:
            place += 1
            continue
        end = place + 1
        step = held[end] - held[place] if end < len(held) and held[end] >= 0 else 0
        while end < len(held) and held[end] >= 0 and held[end] - held[end - 1] == step:
            end += 1
        runs.append(StridedRun(place, end - place, held[place], step))
        place = end
    return runs


def _merged(a: Line, b: Line) -> Line | None:
    first, stop = min(a.first, b.first), max(a.first + len(a.held), b.first + len(b.held))
    held = [_UNREAD] * (stop - first)
    for line in (a, b):
        for place, value in enumerate(line.held, line.first - first):
            if value != _UNREAD and held[place] not in (_UNREAD, value):
                return None
            held[place] = value if value != _UNREAD else held[place]
    return Line(first, tuple(held))
