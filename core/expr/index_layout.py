"""Properties of an index map on a shape: injectivity, gaps, new shape, inverse.

Inputs that meet in an index form a group; groups are independent of each other. Each group is usually small enough to
try on all of its elements at once (with NumPy), which is exact. Inverses are guessed from the form of the map and
accepted if they hold for every element.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pegbox.errors import ExprError
from pegbox.expr.affine import Linear, linear
from pegbox.expr.build import all_of, compare, floordiv, floormod, index
from pegbox.expr.nodes import Binary, Const, Expr, Var
from pegbox.expr.numpy_operators import BINARY
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import free_vars, substitute, walk
from pegbox.shown import value_text

if TYPE_CHECKING:
    from pegbox.expr.index_map import IndexMap  # which imports this module

MAX_ELEMENTS = 1 << 22  # the largest number of elements of a group of dependent indices

_Ints = NDArray[np.int64]


@dataclass(frozen=True)
class _Group:
    """A set of dependent inputs and outputs, with the outputs' values, and the inverse, if found."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    shape: tuple[int, ...]
    onto: bool
    back: tuple[Expr, ...] | None


@dataclass(frozen=True)
class Layout:
    """A map applied to a shape. `shape` is the new one; `onto` is True if an element takes every place of it."""

    map: IndexMap
    old_shape: tuple[int, ...]
    shape: tuple[int, ...]
    onto: bool
    places: tuple[Var, ...]
    groups: tuple[_Group, ...] = field(repr=False)

    def inverse(self) -> IndexMap:
        """Return the inverse map, for the taken places.

        Raises:
            ExprError: it was not found.
        """
        back: dict[int, Expr] = {}
        for group in self.groups:
            if group.back is None:
                raise ExprError(f"the inverse of {self.map} for the shape {list(self.old_shape)} was not found")
            back |= dict(zip(group.inputs, group.back, strict=True))
        return type(self.map)(self.places, [back[n] for n in range(len(self.old_shape))])

    def is_element(self, places: Sequence[Expr]) -> Expr:
        """Return the condition for a place of the new shape to hold an element, not padding.

        Raises:
            ExprError: the inverse was not found.
        """
        inverse = self.inverse()
        mapping = dict(zip(self.places, places, strict=True))
        ranges = {v: (0, n - 1) for v, n in zip(places, self.shape, strict=True) if isinstance(v, Var)}
        gaps = {n for group in self.groups if not group.onto for n in group.inputs}
        conditions = []
        for n in sorted(gaps):
            old = simplify(substitute(inverse.final_indices[n], mapping), ranges)
            low, high = compare("ge", old, index(0)), compare("lt", old, index(self.old_shape[n]))
            conditions += [simplify(low, ranges), simplify(high, ranges)]
        return all_of(conditions)


def layout_of(index_map: IndexMap, shape: tuple[int, ...]) -> Layout:
    """Apply a map to a shape.

    Raises:
        ExprError: the number of dimensions is wrong, two elements would share a place, an index is negative, or the
            shape is too large.
    """
    if len(shape) != index_map.ndim:
        raise ExprError(
            f"{index_map} takes {index_map.ndim} indices, the shape {value_text(list(shape))} has {len(shape)}"
        )
    places = tuple(Var(f"y{n}") for n in range(len(index_map.final_indices)))
    groups = tuple(_group(index_map, shape, places, *parts) for parts in _parts(index_map))
    new = {n: extent for g in groups for n, extent in zip(g.outputs, g.shape, strict=True)}
    return Layout(
        index_map, shape, tuple(new[n] for n in range(len(places))), all(g.onto for g in groups), places, groups
    )


def covers(maps: Sequence[tuple[IndexMap, tuple[int, ...]]], shape: tuple[int, ...]) -> bool:
    """Decide if maps, each over its own domain, together reach every place of a shape; False if it is too large."""
    if prod(shape) > MAX_ELEMENTS:
        return False
    reached = np.zeros(shape, bool)
    for index_map, extents in maps:
        if prod(extents) > MAX_ELEMENTS:
            return False
        env = dict(zip(index_map.initial_indices, _grid(extents), strict=True))
        values = [np.broadcast_to(_evaluate(e, env), (prod(extents),)) for e in index_map.final_indices]
        inside = np.all([(v >= 0) & (v < n) for v, n in zip(values, shape, strict=True)], axis=0)
        reached[tuple(v[inside] for v in values)] = True
    return bool(reached.all())


def _parts(index_map: IndexMap) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield the groups as (numbers of inputs, numbers of outputs)."""
    number = {v: n for n, v in enumerate(index_map.initial_indices)}
    uses = [{number[v] for v in free_vars(e)} for e in index_map.final_indices]
    left = set(range(index_map.ndim))
    constants = tuple(n for n, use in enumerate(uses) if not use)
    if constants:
        yield (), constants
    while left:
        inputs = {min(left)}
        while True:
            outputs = [n for n, use in enumerate(uses) if use & inputs]
            more = inputs.union(*(uses[n] for n in outputs))
            if more == inputs:
                break
            inputs = more
        left -= inputs
        yield tuple(sorted(inputs)), tuple(outputs)


def _group(
    index_map: IndexMap,
    shape: tuple[int, ...],
    places: tuple[Var, ...],
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
) -> _Group:
    variables = [index_map.initial_indices[n] for n in inputs]
    exprs = [index_map.final_indices[n] for n in outputs]
    extents = [shape[n] for n in inputs]
    if len(exprs) == len(variables) == 1 and exprs[0] is variables[0]:
        return _Group(inputs, outputs, (extents[0],), True, (places[outputs[0]],))
    if prod(extents) > MAX_ELEMENTS:
        raise ExprError(
            f"{index_map} mixes {prod(extents)} elements of the shape {list(shape)}, of which at most {MAX_ELEMENTS} "
            "can be checked"
        )
    grid = _grid(extents)
    env = dict(zip(variables, grid, strict=True))
    values = [np.broadcast_to(_evaluate(e, env), (grid.shape[1],)) for e in exprs]
    new = _new_shape(index_map, values)
    flat = np.ravel_multi_index(tuple(values), new) if values else np.zeros(grid.shape[1], np.int64)
    taken, first = np.unique(flat, return_index=True)
    if len(taken) < grid.shape[1]:
        raise ExprError(_twice(index_map, variables, grid, flat, first))
    onto = len(taken) == prod(new)
    back = _inverse(variables, extents, exprs, values, [places[n] for n in outputs], grid)
    if back is not None and not onto and not _tells_gaps(back, [places[n] for n in outputs], new, extents, taken):
        back = None
    return _Group(inputs, outputs, new, onto, back)


def _grid(extents: Sequence[int]) -> _Ints:
    """Return the values of each index at all elements of a shape."""
    return np.indices(extents, np.int64).reshape(len(extents), prod(extents))


def _new_shape(index_map: IndexMap, values: Sequence[_Ints]) -> tuple[int, ...]:
    if any(int(v.min()) < 0 for v in values):
        raise ExprError(f"{index_map} gives negative indices")
    new = tuple(int(v.max()) + 1 for v in values)
    if prod(new) > 64 * MAX_ELEMENTS:
        raise ExprError(f"{index_map} would need a buffer of {list(new)}")
    return new


def _twice(index_map: IndexMap, variables: Sequence[Var], grid: _Ints, flat: _Ints, first: _Ints) -> str:
    """Return the message for a map that is not one to one, with two elements that meet."""
    other = int(np.setdiff1d(np.arange(len(flat)), first)[0])
    one = int(np.flatnonzero(flat == flat[other])[0])
    names = ", ".join(v.name for v in variables)
    a, b = ([int(x) for x in grid[:, n]] for n in (one, other))
    return f"{index_map} is not one to one: ({names}) = {a} and {b} would share one place"


def _evaluate(expr: Expr, env: dict[Var, _Ints]) -> _Ints:
    match expr:
        case Const(value):
            return np.asarray(value, np.int64)
        case Var():
            return env[expr]
        case Binary("add" | "sub" | "mul" | "floordiv" | "floormod" as op, a, b):
            found: _Ints = BINARY[op](_evaluate(a, env), _evaluate(b, env))
            return found
    raise TypeError(f"{expr} is not affine")


def _inverse(
    variables: Sequence[Var],
    extents: Sequence[int],
    exprs: Sequence[Expr],
    values: Sequence[_Ints],
    places: Sequence[Var],
    grid: _Ints,
) -> tuple[Expr, ...] | None:
    """Find expressions of `places` for the variables, and test each on all elements."""
    env = dict(zip(places, values, strict=True))
    bases = [(linear(v), v) for v in variables] + [(linear(e), e) for e in _sums(exprs)]
    found: dict[Var, Expr] = {}

    def take(var: Var, digit: Expr) -> None:
        """Accept a digit that equals the variable everywhere."""
        row = grid[list(variables).index(var)]
        if var not in found and np.array_equal(np.broadcast_to(_evaluate(digit, env), row.shape), row):
            found[var] = digit

    for form, expr in bases:
        if not set(form.terms) <= set(variables) or set(form.terms) <= set(found):
            continue
        target = np.broadcast_to(_evaluate(expr, dict(zip(variables, grid, strict=True))), (grid.shape[1],))
        total = _combination(values, places, target)
        for var, digit in _digits(form, total) if total is not None else ():
            take(var, digit)
    for var, digit in _from_parts(exprs, places):
        if var in variables:
            take(var, digit)
    for var, extent in zip(variables, extents, strict=True):
        if extent == 1:
            found.setdefault(var, index(0))
    return tuple(found[v] for v in variables) if len(found) == len(variables) else None


def _from_parts(exprs: Sequence[Expr], places: Sequence[Var]) -> Iterator[tuple[Var, Expr]]:
    """Combine variables and operands of // and % from their parts in several outputs."""
    parts: dict[Expr, Expr] = {}
    for expr, place in zip(exprs, places, strict=True):
        form = linear(expr)
        rest = Linear({place: 1}, -form.const).to_expr()
        for term, coefficient in sorted(form.terms.items(), key=lambda t: -t[1]):
            if coefficient <= 0:
                break
            parts.setdefault(term, floordiv(rest, index(coefficient)))
            rest = floormod(rest, index(coefficient))
    for term, low in parts.items():
        if isinstance(term, Var):
            yield term, low
        elif isinstance(term, Binary) and term.op == "floormod":
            high = parts.get(floordiv(term.a, term.b))
            if high is not None:
                yield from _digits(linear(term.a), high * term.b + low)


def _sums(exprs: Sequence[Expr]) -> Iterator[Expr]:
    """Yield the operands of // and %, and the outputs themselves."""
    for expr in exprs:
        yield expr
        for node in walk(expr):
            if isinstance(node, Binary) and node.op in ("floordiv", "floormod"):
                yield node.a


def _combination(values: Sequence[_Ints], places: Sequence[Var], target: _Ints) -> Expr | None:
    """Find a sum of coefficient × place that equals the target everywhere."""
    table = np.stack([*values, np.ones_like(target)], axis=1)
    step = max(1, len(target) // 4096)
    # The row with an index's largest value shows its weight.
    largest = [int(np.argmax(column)) for column in table.T]
    rows = np.unique(np.concatenate([np.arange(0, len(target), step), np.array(largest, np.int64)]))
    solution = np.linalg.lstsq(table[rows].astype(float), target[rows].astype(float), rcond=None)[0]
    weights = np.rint(solution).astype(np.int64)
    if not np.array_equal(table @ weights, target):
        return None
    terms: dict[Expr, int] = {p: int(w) for p, w in zip(places, weights[:-1], strict=True) if w}
    return Linear(terms, int(weights[-1])).to_expr()


def _digits(form: Linear, total: Expr) -> Iterator[tuple[Var, Expr]]:
    """Read the variables back from `sum of coefficient × variable`, the largest coefficient first."""
    rest = total if not form.const else Linear({**linear(total).terms}, linear(total).const - form.const).to_expr()
    for term, coefficient in sorted(form.terms.items(), key=lambda t: -t[1]):
        if coefficient <= 0 or not isinstance(term, Var):
            return
        yield term, floordiv(rest, index(coefficient))
        rest = floormod(rest, index(coefficient))


def _tells_gaps(
    back: Sequence[Expr], places: Sequence[Var], new: tuple[int, ...], extents: Sequence[int], taken: _Ints
) -> bool:
    """Check if the inverse leaves the old shape exactly at the places that hold no element."""
    env = dict(zip(places, _grid(new), strict=True))
    inside = np.ones(prod(new), bool)
    for expr, extent in zip(back, extents, strict=True):
        value = _evaluate(expr, env)
        inside &= (value >= 0) & (value < extent)
    return np.array_equal(np.flatnonzero(inside), taken)
