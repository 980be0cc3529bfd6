"""A computation as the NumPy program that a person would write, for a comparison with the speed of a kernel.

It differs from the reference (`pegbox.compute.reference`), which is made to be exact: here everything is computed in
its own type, sums of products are `np.matmul`, other reductions NumPy's own, padding fills and copies, a permutation of
elements is a view, and a part that a statement needs twice has a name. Tensors made ahead of time (the attribute
`AHEAD`) are made when the program is prepared. A computation that NumPy has no such words for (gathers, reducers of
one's own) has none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import isfinite, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pegbox.compute.graph import post_order
from pegbox.compute.reference_contract import Factor, factors, matmul_groups
from pegbox.compute.reference_grid import Evaluator, Grid
from pegbox.compute.reference_reduce import Combiner
from pegbox.compute.scan_op import ScanOp
from pegbox.compute.tensor import AHEAD, ComputeOp, PlaceholderOp, Tensor
from pegbox.expr import dtypes
from pegbox.expr.build import TRUE
from pegbox.expr.digits import digit_of, join, split
from pegbox.expr.intrinsics import NUMPY
from pegbox.expr.nodes import Binary, Buffer, Call, Cast, Compare, Const, Expr, Load, Logic, Not, Select, Var
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import loads, substitute, walk

Array = NDArray[Any]

MOST_ELEMENTS = 1 << 26
"""The largest array that the program makes; beyond, memory would be measured."""

_DTYPES = frozenset(dtypes.BITS) - {"bfloat16"}
_UFUNCS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "min": "minimum", "max": "maximum",
    "floordiv": "floor_divide", "floormod": "remainder", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal", "eq": "equal", "ne": "not_equal", "and": "logical_and", "or": "logical_or",
    **NUMPY,
}  # fmt: skip
_SYMBOL = re.compile(r"\{(\d+)\}")
_FORMULAS = {
    "rsqrt": "np.reciprocal(np.sqrt({}))",
    "sigmoid": "np.reciprocal(1 + np.exp(-({})))",
    "exp10": "np.power(10, {})",
}


class _Unspoken(Exception):
    """An exception for a computation that NumPy has no plain words for."""


@dataclass(frozen=True)
class NumpyProgram:
    """The text of a function `prepare(inputs)`, and the shapes of its outputs.

    It is plain data, so that a process without the computation can run it.
    """

    text: str
    shapes: tuple[tuple[int, ...], ...]

    def prepare(self, inputs: Sequence[Array]) -> tuple[Callable[[], None], list[Array]]:
        """A function that computes the outputs from the inputs (in call order), and the arrays that it writes."""
        scope: dict[str, Any] = {"np": np, "view": _view}
        exec(compile(self.text, "<numpy program>", "exec"), scope)
        run, outputs = scope["prepare"]([np.ascontiguousarray(array).reshape(-1) for array in inputs])
        return run, [array.reshape(shape) for array, shape in zip(outputs, self.shapes, strict=True)]


def numpy_program(tensors: Sequence[Tensor]) -> NumpyProgram | None:
    """The program for a kernel's arguments, inputs and outputs; None where NumPy has no plain words for it."""
    inputs = [t for t in tensors if isinstance(t.op, PlaceholderOp)]
    outputs = [t for t in tensors if not isinstance(t.op, PlaceholderOp)]
    try:
        return _ProgramWriter(inputs, outputs).program()
    except _Unspoken:
        return None


def _view(flat: Array, offset: int, shape: Sequence[int], strides: Sequence[int]) -> Array:
    steps = [step * flat.itemsize for step in strides]
    return np.lib.stride_tricks.as_strided(flat[offset:], shape, steps)


@dataclass(frozen=True)
class _Storage:
    """The place of a tensor: in a flat array, from `offset` on, with steps in elements."""

    name: str
    strides: tuple[int, ...]
    offset: int = 0


@dataclass
class _ProgramWriter:
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    storages: dict[Buffer, _Storage] = field(default_factory=dict)
    before: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    views: dict[str, str] = field(default_factory=dict)
    ready: set[Buffer] = field(default_factory=set)
    """The tensors that exist before the program runs."""
    terms: dict[str, str] = field(default_factory=dict)
    """The text of each part of the statement that is being written, with its symbol."""
    digits: dict[Var, tuple[Var, int]] = field(default_factory=dict)
    """The variable and the step of each variable that is a digit of another."""
    shared: int = 0

    def program(self) -> NumpyProgram:
        names = []
        for place, tensor in enumerate(self.inputs):
            _check(tensor)
            names.append(f"t{place}")
            self.storages[tensor.buffer] = _Storage(names[-1], _row_major(tensor.shape))
            self.ready.add(tensor.buffer)
        for op in post_order([tensor.op for tensor in self.outputs]):
            if isinstance(op, ComputeOp) and self._is_ahead(op):
                timed, self.steps = self.steps, self.before
                self._op(op)
                self.steps = timed
                self.ready.update(tensor.buffer for tensor in op.outputs)
            elif isinstance(op, ComputeOp):
                self._op(op)
            elif op.outputs[0].buffer not in self.storages:
                raise _Unspoken
        made = ", ".join(self.storages[tensor.buffer].name for tensor in self.outputs)
        lines = ["def prepare(inputs):", *(f"    {name} = inputs[{place}]" for place, name in enumerate(names))]
        lines += [f"    {line}" for line in self.before]
        lines += ["    def run():", *(f"        {line}" for line in self.steps), f"    return run, [{made}]"]
        return NumpyProgram("\n".join(lines) + "\n", tuple(tensor.shape for tensor in self.outputs))

    def _is_ahead(self, op: ComputeOp) -> bool:
        known = all(tensor.buffer in self.ready for tensor in op.inputs)
        return known and bool(op.attrs.get(AHEAD)) and not any(tensor in self.outputs for tensor in op.outputs)

    def _op(self, op: ComputeOp) -> None:
        if isinstance(op, ScanOp) or len(op.body) != 1 or not all(axis.dom.min == 0 for axis in op.axis):
            raise _Unspoken
        tensor = op.outputs[0]
        _check(tensor)
        if op.reduce is not None:
            self._reduction(op, tensor)
            return
        plain = Grid.of(op.axis)
        body, grid = self._in_digits(op.body[0], plain)
        moved = tensor not in self.outputs and not self._is_ahead(op)
        if moved and isinstance(body, Load) and grid == plain:
            self.storages[tensor.buffer] = self._access(body, grid)
            return
        self._allocate(tensor, _row_major(tensor.shape))
        if isinstance(body, Select) and not any(True for _ in loads(body.cond)):
            self._padding(tensor, body, grid)
        else:
            self._assign(self._target(tensor, grid), body, grid, tensor.dtype)

    def _in_digits(self, expr: Expr, grid: Grid) -> tuple[Expr, Grid]:
        """An expression and its grid with a dimension for each digit of a variable, as `reshape` gives them."""
        parts = {
            v: split(v, end, [expr]) or [(v, end)] for v, (_, end) in zip(grid.variables, grid.ranges, strict=True)
        }
        for v, digits in parts.items():
            steps = _row_major([count for _, count in digits])
            self.digits |= {digit: (v, step) for (digit, _), step in zip(digits, steps, strict=True)}
        found = [digit for digits in parts.values() for digit in digits]
        wider = Grid(tuple(v for v, _ in found), tuple((0, count) for _, count in found))
        if not any(map(digit_of, walk(expr))):
            return expr, grid
        values = {v: join(digits) for v, digits in parts.items() if len(digits) > 1}
        return simplify(substitute(expr, values), {v: (0, count - 1) for v, count in found}), wider

    def _padding(self, tensor: Tensor, body: Select, grid: Grid) -> None:
        """Write a box of values into a constant."""
        if not isinstance(body.b, Const):
            raise _Unspoken
        mask = Evaluator(grid, {}).full(body.cond)
        self.steps.append(f"{self._target(tensor, grid)}[...] = {_number(body.b.value)}")
        if not mask.any():
            return
        where = [np.flatnonzero(mask.any(axis=tuple(set(range(mask.ndim)) - {dim}))) for dim in range(mask.ndim)]
        box = Grid(grid.variables, tuple((int(held[0]), int(held[-1]) + 1) for held in where))
        if box.size != np.count_nonzero(mask):
            raise _Unspoken
        self._assign(self._target(tensor, box), body.a, box, tensor.dtype)

    def _reduction(self, op: ComputeOp, tensor: Tensor) -> None:
        reduce = op.reduce
        assert reduce is not None
        combiner = Combiner.of(reduce)
        if combiner.op is None or reduce.condition is not TRUE or len(reduce.sources) != 1:
            raise _Unspoken
        spatial = Grid.of(op.axis)
        self.digits |= {v: (v, 1) for v in spatial.variables}
        both = spatial + Grid.of(reduce.axes)
        pair = factors(reduce, both.variables)
        if pair is not None and self._contraction(pair, tensor, spatial, both):
            return
        self._allocate(tensor, _row_major(tensor.shape))
        axes = tuple(range(len(spatial.variables), len(both.variables)))
        values = self._full(reduce.sources[0], both)
        self._step(
            f"np.{_UFUNCS[combiner.op]}.reduce({values}, axis={axes}, dtype='{tensor.dtype}', "
            f"initial={_number(combiner.identity[0].item())}, out={self._target(tensor, spatial)})"
        )

    def _contraction(self, pair: tuple[Factor, Factor], tensor: Tensor, spatial: Grid, both: Grid) -> bool:
        """Write a sum of products as `np.matmul`; False where a factor has an axis to itself that is summed."""
        in_a, in_b = (set(factor.variables) for factor in pair)
        if (in_a ^ in_b) - set(spatial.variables) or not set(spatial.variables) <= in_a | in_b:
            return False
        batch, rows, columns, inner = matmul_groups(pair[0].variables, pair[1].variables, spatial.variables)
        left = self._matrix(pair[0], (batch, rows, inner), both)
        right = self._matrix(pair[1], (batch, inner, columns), both)
        order = (*batch, *rows, *columns)
        ranges = dict(zip(spatial.variables, spatial.ranges, strict=True))
        ordered = Grid(order, tuple(ranges[v] for v in order))
        if tensor in self.outputs:
            self._allocate(tensor, _row_major(tensor.shape))
        else:  # laid out as the product is, so that nothing is copied
            steps = dict(zip(order, _row_major(ordered.shape), strict=True))
            self._allocate(tensor, tuple(steps[v] for v in spatial.variables))
        whole = self.storages[tensor.buffer]
        in_order = dict(zip(spatial.variables, whole.strides, strict=True))
        if tensor.dtype != "float16" and tuple(in_order[v] for v in order) == _row_major(ordered.shape):
            shape = tuple(both.only(group).size for group in (batch, rows, columns))
            shape = shape if shape[0] > 1 else shape[1:]
            out = self._named(f"{whole.name}.reshape({shape})")
            self._step(f"np.matmul({left}, {right}, out={out})")
        else:
            self._step(f"{self._target(tensor, ordered)}[...] = np.matmul({left}, {right}).reshape({ordered.shape})")
        return True

    def _matrix(self, factor: Factor, groups: Sequence[tuple[Var, ...]], grid: Grid) -> str:
        """A factor with one dimension for each group of variables; without the batch where that is one."""
        own = grid.only(factor.variables)
        ranges = dict(zip(own.variables, own.ranges, strict=True))
        order = tuple(v for group in groups for v in group)
        text = self._full(factor.expr, Grid(order, tuple(ranges[v] for v in order)))
        if factor.expr.dtype == "float16":
            text = f"{text}.astype(np.float32)"  # no BLAS multiplies halves
        shape = tuple(grid.only(group).size for group in groups)
        return f"{text}.reshape({shape if shape[0] > 1 else shape[1:]})"

    def _full(self, expr: Expr, grid: Grid) -> str:
        """The text of a value with the grid's whole shape."""
        if grid.size > MOST_ELEMENTS:
            raise _Unspoken
        text = self._text(expr, grid)
        moving = [self._access(load, grid).strides for load in loads(expr)]
        if moving and all(n == 1 or any(steps) for n, steps in zip(grid.shape, zip(*moving, strict=True), strict=True)):
            return text
        return f"np.broadcast_to({text}, {grid.shape})"

    def _assign(self, target: str, expr: Expr, grid: Grid, dtype: str) -> None:
        match expr:
            case Binary() | Compare() if expr.dtype == dtype:
                operands = [self._text(expr.a, grid), self._text(expr.b, grid)]
                self._step(f"np.{_UFUNCS[expr.op]}({', '.join(operands)}, out={target})")
            case Call(name, args) if name in _UFUNCS and expr.dtype == dtype:
                operands = [self._text(arg, grid) for arg in args]
                self._step(f"np.{_UFUNCS[name]}({', '.join(operands)}, out={target})")
            case _:
                self._step(f"{target}[...] = {self._text(expr, grid)}")

    def _step(self, text: str) -> None:
        """Add a statement, and before it one for each part that it needs more than once."""
        parts, self.terms = {symbol: part for part, symbol in self.terms.items()}, {}
        uses = Counter(found[0] for each in (*parts.values(), text) for found in _SYMBOL.finditer(each))
        for symbol, part in parts.items():
            parts[symbol] = _SYMBOL.sub(lambda found: parts[found[0]], part)
            if uses[symbol] > 1:
                self.steps.append(f"x{self.shared} = {parts[symbol]}")
                parts[symbol] = f"x{self.shared}"
                self.shared += 1
        self.steps.append(_SYMBOL.sub(lambda found: parts[found[0]], text))

    def _text(self, expr: Expr, grid: Grid) -> str:
        """The text of a value; a symbol for `_step` where it is computed."""
        match expr:
            case Const():
                return _number(expr.value)
            case Load():
                place = self._access(expr, grid)
                shape = tuple(n if step else 1 for n, step in zip(grid.shape, place.strides, strict=True))
                return self._named(f"view({place.name}, {place.offset}, {shape}, {place.strides})")
            case _:
                return self.terms.setdefault(self._computed(expr, grid), f"{{{len(self.terms)}}}")

    def _computed(self, expr: Expr, grid: Grid) -> str:
        match expr:
            case Binary(op, a, b) | Compare(op, a, b) | Logic(op, a, b):
                return f"np.{_UFUNCS[op]}({self._text(a, grid)}, {self._text(b, grid)})"
            case Not(a):
                return f"np.logical_not({self._text(a, grid)})"
            case Select(cond, a, b):
                values = (_scalar(part) if isinstance(part, Const) else self._text(part, grid) for part in (a, b))
                return f"np.where({self._text(cond, grid)}, {', '.join(values)})"
            case Cast(dtype, a) if dtype in _DTYPES:
                return f"({_scalar(a) if isinstance(a, Const) else self._text(a, grid)}).astype('{dtype}')"
            case Call(name, args) if name in _UFUNCS:
                return f"np.{_UFUNCS[name]}({', '.join(self._text(arg, grid) for arg in args)})"
            case Call(name, (arg,)) if name in _FORMULAS:
                return _FORMULAS[name].format(self._text(arg, grid))
            case _:
                raise _Unspoken

    def _access(self, load: Load, grid: Grid) -> _Storage:
        """Locate the elements, with a step for each variable of the grid."""
        held = self.storages.get(load.buffer)
        found = None if held is None else grid.walk(load, held.strides)
        if held is None or found is None:
            raise _Unspoken
        origin, steps = found
        offset = held.offset + sum(at * stride for at, stride in zip(origin, held.strides, strict=True))
        return _Storage(held.name, tuple(steps.values()), offset)

    def _target(self, tensor: Tensor, grid: Grid) -> str:
        """The view that a tensor is written through: one dimension for each variable, digits of one side by side."""
        held = self.storages[tensor.buffer]
        by_axis: dict[Var, int] = dict(zip(tensor.op.axis, held.strides, strict=True))
        steps = tuple(by_axis[v] * step for v, step in (self.digits[v] for v in grid.variables))
        offset = sum(first * step for (first, _), step in zip(grid.ranges, steps, strict=True))
        return self._named(f"view({held.name}, {held.offset + offset}, {grid.shape}, {steps})")

    def _allocate(self, tensor: Tensor, strides: tuple[int, ...]) -> None:
        name = f"t{len(self.storages)}"
        self.before.append(f"{name} = np.empty({prod(tensor.shape)}, '{tensor.dtype}')")
        self.storages[tensor.buffer] = _Storage(name, strides)

    def _named(self, text: str) -> str:
        if text not in self.views:
            self.views[text] = f"v{len(self.views)}"
            self.before.append(f"{self.views[text]} = {text}")
        return self.views[text]


def _check(tensor: Tensor) -> None:
    if tensor.dtype not in _DTYPES or prod(tensor.shape) > MOST_ELEMENTS or not prod(tensor.shape):
        raise _Unspoken


def _row_major(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(prod(shape[dim + 1 :]) for dim in range(len(shape)))


def _number(value: float) -> str:
    return repr(value) if not isinstance(value, float) or isfinite(value) else f"float('{value}')"


def _scalar(const: Const) -> str:
    """Write a constant with its type, where nothing else has one."""
    return f"np.dtype('{const.dtype}').type({_number(const.value)})"
