"""The statements of a NumPy program: expressions on views of flat arrays, written in place.

A read is a slice; beyond the borders of a tensor, it is a slice of a copy with borders (`pegbox.compute.halo`). A value
that depends only on indices is computed when the program is prepared, and a part that a statement needs twice gets a
name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, prod

from pegbox.compute.halo import BorderedRead, Halo, halos_of
from pegbox.compute.index_condition import around, box_of, reads_nothing, side_with_box
from pegbox.compute.reference_grid import Grid
from pegbox.expr import dtypes
from pegbox.expr.affine import Linear
from pegbox.expr.build import cast, mul, select
from pegbox.expr.intrinsics import NUMPY
from pegbox.expr.nodes import Binary, Buffer, Call, Cast, Compare, Const, Expr, Load, Logic, Not, Select, Var
from pegbox.expr.visit import children, free_vars, loads, rewrite

MOST_ELEMENTS = 1 << 26
"""The largest array that the program makes; with larger ones, the time would be that of memory."""

DTYPES = frozenset(dtypes.BITS) - {"bfloat16"}
"""The types that NumPy has."""

UFUNCS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "min": "minimum", "max": "maximum",
    "floordiv": "floor_divide", "floormod": "remainder", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal", "eq": "equal", "ne": "not_equal", "and": "logical_and", "or": "logical_or",
    **NUMPY,
}  # fmt: skip
"""NumPy's names of operations and intrinsics."""

_SYMBOL = re.compile(r"\{(\d+)\}")
_FORMULAS = {
    "rsqrt": "np.reciprocal(np.sqrt({}))",
    "sigmoid": "np.reciprocal(1 + np.exp(-({})))",
    "exp10": "np.power(10, {})",
}


class NoNumpyProgram(Exception):
    """NumPy cannot express a computation plainly, for the given reason."""


@dataclass(frozen=True)
class Storage:
    """The place of a tensor in a flat array, from `offset` on, with steps in elements."""

    name: str
    strides: tuple[int, ...]
    offset: int = 0


@dataclass(frozen=True)
class Destination:
    """The place to write a grid to: the offset of the point where all variables are 0, and their steps."""

    name: str
    offset: int
    steps: Mapping[Var, int]


@dataclass
class StatementWriter:
    """A writer of statements into `steps`, and into `before` if they run when the program is prepared."""

    storages: dict[Buffer, Storage] = field(default_factory=dict)
    before: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    views: dict[str, str] = field(default_factory=dict)
    halos: dict[tuple[object, ...], Buffer] = field(default_factory=dict)
    terms: dict[str, str] = field(default_factory=dict)
    """The text of each part of the current statement, with its symbol."""
    shared: int = 0

    def fill(self, place: Destination, expr: Expr, grid: Grid, dtype: str) -> None:
        """Write a value to all points of a grid: a choice by indices box by box, as a person fills borders."""
        if isinstance(expr, Select) and reads_nothing(expr.cond) and (found := side_with_box(expr, grid)) is not None:
            box, inside, outside = found
            whole = box.size and isinstance(outside, Const | Load) and self.is_within(outside, grid)
            for part in [grid] if whole else around(grid, box) if box.size else [grid]:
                self.fill(place, outside, part, dtype)
            if box.size:
                self.fill(place, inside, box, dtype)
        else:
            self.assign(self.target(place, grid), self.affine(expr, grid), grid, dtype)

    def affine(self, expr: Expr, grid: Grid) -> Expr:
        """Rewrite a value so that all its reads are affine within a tensor: of halos, and parts filled box by box."""
        reads: dict[Expr, BorderedRead] = {}

        def read(e: Expr) -> Expr | None:
            match e:
                case Select(cond, a, b) if reads_nothing(cond):
                    box = box_of(cond, grid)
                    if box is not None and box.size in (0, grid.size):  # the condition is constant
                        return rewrite(a if box.size else b, read)
                    if self.is_within(e, grid):
                        return None
                    if isinstance(a, Load) and isinstance(b, Const) and (found := BorderedRead.of(a, grid, cond, b)):
                        reads[e] = found
                        return e
                    lower = self.select_below(e, grid)
                    return self._part(e, grid) if lower is None else rewrite(lower, read)
                case Load() if not self.is_within(e, grid):
                    found = BorderedRead.of(e, grid)
                    if found is None:
                        raise NoNumpyProgram(_unread(e))
                    reads[e] = found
                    return e
            return None

        expr = rewrite(expr, read)
        moved: dict[Expr, Load] = {}
        for halo, members in halos_of(reads):
            buffer = self._halo(halo)
            moved |= {e: halo.at(buffer, reads[e]) for e in members}
        return rewrite(expr, lambda e: moved.get(e) if isinstance(e, Load | Select) else None)

    def is_within(self, expr: Expr, grid: Grid) -> bool:
        """Decide if all reads are affine ones within a tensor."""
        held = self.storages
        return all(each.buffer in held and grid.walk(each, held[each.buffer].strides) for each in loads(expr))

    def select_below(self, expr: Select, grid: Grid) -> Expr | None:
        """Move a choice of zero into the factor that needs it; None if there is none."""
        if not isinstance(expr.b, Const) or expr.b.value != 0:
            return None
        match expr.a:
            case Cast(dtype, a):
                return cast(dtype, select(expr.cond, a, Const(type(expr.b.value)(0), a.dtype)))
            case Binary("mul", a, b):
                for chosen, other in ((a, b), (b, a)):
                    if not self.is_within(chosen, grid) or free_vars(expr.cond) <= free_vars(chosen):
                        return mul(select(expr.cond, chosen, expr.b), other)
                return None
            case _:
                return None

    def _part(self, expr: Select, grid: Grid) -> Expr:
        """Fill an array with a choice, and read from it."""
        own = grid.only(tuple(free_vars(expr)))
        if side_with_box(expr, own) is None:
            raise NoNumpyProgram(f"a choice where {expr.cond}, which is no slice of an array")
        steps = dict(zip(own.variables, row_major(own.shape), strict=True))
        firsts = {v: first for v, (first, _) in zip(own.variables, own.ranges, strict=True)}
        buffer = Buffer("part", own.shape, expr.dtype)
        name = self.allocate(buffer, tuple(steps.values()))
        self.fill(Destination(name, -sum(firsts[v] * steps[v] for v in steps), steps), expr, own, expr.dtype)
        return Load(buffer, tuple(Linear({v: 1}, -first).to_expr() for v, first in firsts.items()))

    def _halo(self, halo: Halo) -> Buffer:
        """Copy a tensor with borders, or reuse an existing copy."""
        key = (self.steps is self.before, *halo.key)
        if key in self.halos:
            return self.halos[key]
        source, pieces = self.storages[halo.source], halo.pieces()
        if pieces is None:
            raise NoNumpyProgram(f"NumPy has no slices of {halo.source.name} in the order in which it is read")
        buffer = self.halos[key] = Buffer(f"{halo.source.name}_halo", halo.shape, halo.source.dtype)
        steps = row_major(halo.shape)
        name = self.allocate(buffer, steps)
        if halo.is_filled:
            assert halo.fill is not None
            self.steps.append(f"{name}[...] = {number(halo.fill.value)}")
        for runs in pieces:
            shape = tuple(run.length for run in runs)
            to = self.view(name, sum(run.place * step for run, step in zip(runs, steps, strict=True)), shape, steps)
            offset = source.offset + sum(run.source * step for run, step in zip(runs, source.strides, strict=True))
            strides = tuple(run.step * step for run, step in zip(runs, source.strides, strict=True))
            self.steps.append(f"{to}[...] = {self.view(source.name, offset, shape, strides)}")
        return buffer

    def full(self, expr: Expr, grid: Grid) -> str:
        """Return the text of a value with the grid's whole shape."""
        if grid.size > MOST_ELEMENTS:
            raise NoNumpyProgram(f"an array of {grid.size} elements would be needed")
        text, moving = self.text(expr, grid), set[Var]()
        for part in _values(expr):
            if isinstance(part, Load):
                moving |= {v for v, step in zip(grid.variables, self.access(part, grid).strides, strict=True) if step}
            elif isinstance(part, Var):
                moving.add(part)
        if moving and all(n == 1 or v in moving for v, n in zip(grid.variables, grid.shape, strict=True)):
            return text
        return f"np.broadcast_to({text}, {grid.shape})"

    def assign(self, target: str, expr: Expr, grid: Grid, dtype: str) -> None:
        """Write a value to a view."""
        match expr:
            case Binary() | Compare() if expr.dtype == dtype:
                operands = [self.text(expr.a, grid), self.text(expr.b, grid)]
                self.step(f"np.{UFUNCS[expr.op]}({', '.join(operands)}, out={target})")
            case Call(name, args) if name in UFUNCS and expr.dtype == dtype:
                operands = [self.text(arg, grid) for arg in args]
                self.step(f"np.{UFUNCS[name]}({', '.join(operands)}, out={target})")
            case _:
                self.step(f"{target}[...] = {self.text(expr, grid)}")

    def step(self, text: str) -> None:
        """Add a statement, preceded by one for each part that it needs more than once."""
        parts, self.terms = {symbol: part for part, symbol in self.terms.items()}, {}
        uses = Counter(found[0] for each in (*parts.values(), text) for found in _SYMBOL.finditer(each))
        for symbol, part in parts.items():
            parts[symbol] = _SYMBOL.sub(lambda found: parts[found[0]], part)
            if uses[symbol] > 1:
                self.steps.append(f"x{self.shared} = {parts[symbol]}")
                parts[symbol] = f"x{self.shared}"
                self.shared += 1
        self.steps.append(_SYMBOL.sub(lambda found: parts[found[0]], text))

    def text(self, expr: Expr, grid: Grid) -> str:
        """Return the text of a value, or a symbol for `step` if it is computed."""
        match expr:
            case Const():
                return number(expr.value)
            case Var():
                place = grid.variables.index(expr)
                shape = tuple(-1 if dim == place else 1 for dim in range(len(grid.variables)))
                first, stop = grid.ranges[place]
                return self.named(f"np.arange({first}, {stop}, dtype='{expr.dtype}').reshape({shape})")
            case Load():
                found = self.access(expr, grid)
                shape = tuple(n if step else 1 for n, step in zip(grid.shape, found.strides, strict=True))
                return self.view(found.name, found.offset, shape, found.strides)
            case _ if reads_nothing(expr):
                return self.named(self._computed(expr, grid))
            case _:
                return self.terms.setdefault(self._computed(expr, grid), f"{{{len(self.terms)}}}")

    def _computed(self, expr: Expr, grid: Grid) -> str:
        match expr:
            case Binary(op, a, b) | Compare(op, a, b) | Logic(op, a, b):
                return f"np.{UFUNCS[op]}({self.text(a, grid)}, {self.text(b, grid)})"
            case Not(a):
                return f"np.logical_not({self.text(a, grid)})"
            case Select(cond, a, b):
                values = (_scalar(part) if isinstance(part, Const) else self.text(part, grid) for part in (a, b))
                return f"np.where({self.text(cond, grid)}, {', '.join(values)})"
            case Cast(dtype, a) if dtype in DTYPES:
                return f"({_scalar(a) if isinstance(a, Const) else self.text(a, grid)}).astype('{dtype}')"
            case Call(name, args) if name in UFUNCS:
                return f"np.{UFUNCS[name]}({', '.join(self.text(arg, grid) for arg in args)})"
            case Call(name, (arg,)) if name in _FORMULAS:
                return _FORMULAS[name].format(self.text(arg, grid))
            case Call(name):
                raise NoNumpyProgram(f"NumPy has no {name}")
            case _:
                raise NoNumpyProgram(f"NumPy has no {expr.dtype}")

    def access(self, load: Load, grid: Grid) -> Storage:
        """Locate the elements, with a step for each variable of the grid."""
        held = self.storages.get(load.buffer)
        found = None if held is None else grid.walk(load, held.strides)
        if held is None or found is None:
            raise NoNumpyProgram(_unread(load))
        origin, steps = found
        offset = held.offset + sum(at * stride for at, stride in zip(origin, held.strides, strict=True))
        return Storage(held.name, tuple(steps.values()), offset)

    def target(self, place: Destination, grid: Grid) -> str:
        """Return the view through which the points of a grid are written, with a dimension for each variable."""
        steps = tuple(place.steps[v] for v in grid.variables)
        offset = place.offset + sum(first * step for (first, _), step in zip(grid.ranges, steps, strict=True))
        return self.view(place.name, offset, grid.shape, steps)

    def allocate(self, buffer: Buffer, strides: tuple[int, ...]) -> str:
        """Make an array for a buffer."""
        check_array(buffer.dtype, buffer.shape)
        name = f"t{len(self.storages)}"
        self.before.append(f"{name} = np.empty({prod(buffer.shape)}, '{buffer.dtype}')")
        self.storages[buffer] = Storage(name, strides)
        return name

    def view(self, name: str, offset: int, shape: Sequence[int], strides: Sequence[int]) -> str:
        """Return the name of a view of a flat array."""
        return self.named(f"view({name}, {offset}, {tuple(shape)}, {tuple(strides)})")

    def named(self, text: str) -> str:
        """Return the name of a value made when the program is prepared."""
        if text not in self.views:
            self.views[text] = f"v{len(self.views)}"
            self.before.append(f"{self.views[text]} = {text}")
        return self.views[text]


def check_array(dtype: str, shape: Sequence[int]) -> None:
    """Raise `NoNumpyProgram` for an array that NumPy does not have, or that is too large."""
    if dtype not in DTYPES:
        raise NoNumpyProgram(f"NumPy has no {dtype}")
    if prod(shape) > MOST_ELEMENTS:
        raise NoNumpyProgram(f"an array of {prod(shape)} elements would be needed")
    if not prod(shape):
        raise NoNumpyProgram("there is nothing to compute")


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the steps of a dense array."""
    return tuple(prod(shape[dim + 1 :]) for dim in range(len(shape)))


def number(value: float) -> str:
    """Return the text of a constant."""
    return repr(value) if not isinstance(value, float) or isfinite(value) else f"float('{value}')"


def _unread(load: Load) -> str:
    """Explain why a read is not a slice."""
    if all(map(reads_nothing, load.indices)):
        return f"the elements {load} are not a slice"
    return f"{load} has an index that is read from memory"


def _scalar(const: Const) -> str:
    """Write a constant with its type, because no other operand has one."""
    return f"np.dtype('{const.dtype}').type({number(const.value)})"


def _values(expr: Expr) -> Iterator[Expr]:
    """Yield the parts of a value, without the indices of its reads."""
    yield expr
    if not isinstance(expr, Load):
        for child in children(expr):
            yield from _values(child)
