"""A computation as the NumPy program that a person would write, for comparison with a kernel's speed.

It differs from the reference (`pegbox.compute.reference`), whose aim is exactness: here everything is computed in its
own type, sums of products are `np.matmul`, sums over a small window are sums of shifted slices, other reductions are
NumPy's own, borders are filled and copied, and a permutation of elements is a view. Tensors made ahead of time (the
attribute `AHEAD`) are made when the program is prepared. A computation that NumPy cannot express in this way (gathers,
user-defined reducers) has no program, unless its template provides one (`pegbox.compute.numpy_code`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pegbox.compute.graph import post_order
from pegbox.compute.numpy_statement import (
    UFUNCS,
    Destination,
    NoNumpyProgram,
    StatementWriter,
    Storage,
    check_array,
    number,
    row_major,
)
from pegbox.compute.reducer import Reduce
from pegbox.compute.reference_grid import Grid
from pegbox.compute.reference_reduce import Combiner, Factor, factors, matmul_groups
from pegbox.compute.scan_op import ScanOp
from pegbox.compute.tensor import AHEAD, ComputeOp, ExternOp, Operation, PlaceholderOp, Tensor
from pegbox.expr import dtypes
from pegbox.expr.affine import linear
from pegbox.expr.build import TRUE, index, select
from pegbox.expr.digits import digit_of, join, split
from pegbox.expr.nodes import Const, Expr, Load, Select, Var
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import loads, substitute, walk

Array = NDArray[Any]

_Groups: TypeAlias = tuple[tuple[Var, ...], ...]
"""The variables of a product's batch, rows, columns and reduction."""

_MOST_SHIFTS = 64
"""The largest window to write as one statement for each of its points."""


@dataclass(frozen=True)
class NumpyProgram:
    """The text of a function `prepare(inputs)`. It is plain data, so that a process without the computation can run
    it."""

    text: str

    def prepare(self, inputs: Sequence[Array]) -> tuple[Callable[[], None], list[Array]]:
        """Make a function that computes the outputs from the inputs (in call order), and the list of outputs."""
        scope: dict[str, Any] = {"np": np, "view": _view}
        exec(compile(self.text, "<numpy program>", "exec"), scope)
        made: tuple[Callable[[], None], list[Array]] = scope["prepare"]([*map(np.ascontiguousarray, inputs)])
        return made


def numpy_program(tensors: Sequence[Tensor]) -> NumpyProgram:
    """Write the program for a kernel's arguments, inputs and outputs.

    Raises:
        NoNumpyProgram: NumPy cannot express it plainly.
    """
    inputs = [t for t in tensors if isinstance(t.op, PlaceholderOp)]
    outputs = [t for t in tensors if not isinstance(t.op, PlaceholderOp)]
    return _ProgramWriter(inputs=inputs, outputs=outputs).program()


def _view(flat: Array, offset: int, shape: Sequence[int], strides: Sequence[int]) -> Array:
    steps = [step * flat.itemsize for step in strides]
    return np.lib.stride_tricks.as_strided(flat[offset:], shape, steps)


@dataclass(kw_only=True)
class _ProgramWriter(StatementWriter):
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    ready: set[Any] = field(default_factory=set)
    """The buffers of tensors that exist before the program runs."""
    digits: dict[Var, tuple[Var, int]] = field(default_factory=dict)
    """The variable and the step of each variable that is a digit of another."""

    def program(self) -> NumpyProgram:
        """Write the whole program."""
        names = []
        for place, tensor in enumerate(self.inputs):
            check_array(tensor.dtype, tensor.shape)
            names.append(f"t{place}")
            self.storages[tensor.buffer] = Storage(names[-1], row_major(tensor.shape))
            self.ready.add(tensor.buffer)
        ops = post_order([tensor.op for tensor in self.outputs])
        for op in ops:
            _check(op)
        for op in ops:
            if isinstance(op, ComputeOp) and self._is_ahead(op):
                timed, self.steps = self.steps, self.before
                self._op(op)
                self.steps = timed
                self.ready.update(tensor.buffer for tensor in op.outputs)
            elif isinstance(op, ComputeOp):
                self._op(op)
            elif op.outputs[0].buffer not in self.storages:
                raise NoNumpyProgram(f"{op.name} is not an argument")
        made = ", ".join(f"{self.storages[t.buffer].name}.reshape({t.shape})" for t in self.outputs)
        lines = ["def prepare(inputs):"]
        lines += [f"    {name} = inputs[{place}].reshape(-1)" for place, name in enumerate(names)]
        lines += [f"    {line}" for line in self.before]
        lines += ["    def run():", *(f"        {line}" for line in self.steps), f"    return run, [{made}]"]
        return NumpyProgram("\n".join(lines) + "\n")

    def _is_ahead(self, op: ComputeOp) -> bool:
        known = all(tensor.buffer in self.ready for tensor in op.inputs)
        return known and bool(op.attrs.get(AHEAD)) and not any(tensor in self.outputs for tensor in op.outputs)

    def _op(self, op: ComputeOp) -> None:
        if op.reduce is not None:
            self._reduction(op, op.outputs[0])
            return
        for tensor, value in zip(op.outputs, op.body, strict=True):
            plain = Grid.of(op.axis)
            body, grid = self._in_digits(value, plain)
            moved = tensor not in self.outputs and not self._is_ahead(op)
            if moved and isinstance(body, Load) and grid == plain and self.is_within(body, grid):
                self.storages[tensor.buffer] = self.access(body, grid)
            else:
                self.allocate(tensor.buffer, row_major(tensor.shape))
                self.fill(self._place(tensor, grid), body, grid, tensor.dtype)

    def _in_digits(self, expr: Expr, grid: Grid) -> tuple[Expr, Grid]:
        """Return an expression and its grid with a dimension for each digit of a variable, as after `reshape`."""
        parts = {
            v: split(v, end, [expr]) or [(v, end)] for v, (_, end) in zip(grid.variables, grid.ranges, strict=True)
        }
        for v, digits in parts.items():
            steps = row_major([count for _, count in digits])
            self.digits |= {digit: (v, step) for (digit, _), step in zip(digits, steps, strict=True)}
        found = [digit for digits in parts.values() for digit in digits]
        wider = Grid(tuple(v for v, _ in found), tuple((0, count) for _, count in found))
        if not any(map(digit_of, walk(expr))):
            return expr, grid
        values = {v: join(digits) for v, digits in parts.items() if len(digits) > 1}
        return simplify(substitute(expr, values), {v: (0, count - 1) for v, count in found}), wider

    def _reduction(self, op: ComputeOp, tensor: Tensor) -> None:
        reduce = op.reduce
        assert reduce is not None
        combiner = Combiner.of(reduce)
        if len(reduce.sources) != 1:
            raise NoNumpyProgram(f"{op.name} reduces {len(reduce.sources)} values at once")
        if combiner.op is None:
            raise NoNumpyProgram(f"NumPy has no reduction {reduce.reducer.name}")
        spatial = Grid.of(op.axis)
        self.digits |= {v: (v, 1) for v in spatial.variables}
        both = spatial + Grid.of(reduce.axes)
        start = Const(combiner.identity[0].item(), tensor.dtype)
        source = select(reduce.condition, reduce.sources[0], start)
        lower = self.select_below(source, both) if isinstance(source, Select) and combiner.op == "add" else None
        source = self.affine(source if lower is None else lower, both)
        reduce = Reduce(reduce.reducer, (source,), reduce.axes, TRUE, 0)
        window, pair = _window(source, spatial, both), factors(reduce, both.variables)
        if pair is not None and self._product(pair, window, tensor, spatial, both):
            return
        self.allocate(tensor.buffer, row_major(tensor.shape))
        target = self.target(self._place(tensor, spatial), spatial)
        steps = window if window.size <= _MOST_SHIFTS else Grid((), ())
        self._shifted(combiner.op, source, start, target, spatial, both, steps)

    def _product(self, pair: tuple[Factor, Factor], window: Grid, tensor: Tensor, spatial: Grid, both: Grid) -> bool:
        """Write a sum of products as one call of NumPy; False if there is none, or slices are faster."""
        groups = matmul_groups(pair[0].variables, pair[1].variables, spatial.variables)
        slides = window.size > 1 and {*window.variables} == {*groups[-1]}
        if slides and not (groups[1] and groups[2]):
            return self._correlation(pair, tensor, spatial, both) or (
                window.size > _MOST_SHIFTS and self._contraction(pair, groups, tensor, spatial, both)
            )
        return self._contraction(pair, groups, tensor, spatial, both)

    def _correlation(self, pair: tuple[Factor, Factor], tensor: Tensor, spatial: Grid, both: Grid) -> bool:
        """Write a sum over one sliding window as `np.correlate`; False for anything else."""
        signal, taps = pair if len(pair[0].variables) == 2 else pair[::-1]
        if len(both.variables) != 2 or len(taps.variables) != 1 or taps.variables == spatial.variables:
            return False
        if not isinstance(signal.expr, Load) or not isinstance(taps.expr, Load):
            return False
        (length, count), a, b = both.shape, self.access(signal.expr, both), self.access(taps.expr, both)
        step, turn = a.strides[0], a.strides[1]
        if step == 0 or turn not in (step, -step):
            return False
        back = 0 if turn == step else count - 1
        over = self.view(a.name, a.offset - back * step, (length + count - 1,), (step,))
        tap = b.strides[1]
        weights = self.view(b.name, b.offset + back * tap, (count,), (-tap if back else tap,))
        self.allocate(tensor.buffer, row_major(tensor.shape))
        self.step(f"{self.target(self._place(tensor, spatial), spatial)}[...] = np.correlate({over}, {weights})")
        return True

    def _shifted(
        self, op: str, source: Expr, start: Const, target: str, spatial: Grid, both: Grid, window: Grid
    ) -> None:
        """Write a reduction as one statement for each point of a window, which reduces the other axes."""
        ufunc, (low, high) = f"np.{UFUNCS[op]}", dtypes.value_range(start.dtype)
        is_neutral = start.value == {"add": 0, "mul": 1, "max": low, "min": high}[op]
        inner = both.only([v for v in both.variables if v not in window.variables])
        axes = tuple(range(len(spatial.variables), len(inner.variables)))
        for place, point in enumerate(product(*(range(*ends) for ends in window.ranges))):
            values = {v: index(at) for v, at in zip(window.variables, point, strict=True)}
            value = substitute(source, values)
            if axes:
                options = f"axis={axes}, dtype='{start.dtype}', initial={number(start.value)}"
                reduced = f"{ufunc}.reduce({self.full(value, inner)}, {options}"
                self.step(f"{ufunc}({target}, {reduced}), out={target})" if place else f"{reduced}, out={target})")
                continue
            if not place and is_neutral:
                self.assign(target, value, spatial, start.dtype)
                continue
            if not place:
                self.step(f"{target}[...] = {number(start.value)}")
            self.step(f"{ufunc}({target}, {self.text(value, spatial)}, out={target})")

    def _contraction(
        self, pair: tuple[Factor, Factor], groups: _Groups, tensor: Tensor, spatial: Grid, both: Grid
    ) -> bool:
        """Write a sum of products as `np.matmul`; False if a summed axis belongs to only one factor."""
        in_a, in_b = (set(factor.variables) for factor in pair)
        if (in_a ^ in_b) - set(spatial.variables) or not set(spatial.variables) <= in_a | in_b:
            return False
        batch, rows, columns, inner = groups
        left = self._matrix(pair[0], (batch, rows, inner), both)
        right = self._matrix(pair[1], (batch, inner, columns), both)
        order = (*batch, *rows, *columns)
        ranges = dict(zip(spatial.variables, spatial.ranges, strict=True))
        ordered = Grid(order, tuple(ranges[v] for v in order))
        if tensor in self.outputs:
            self.allocate(tensor.buffer, row_major(tensor.shape))
        else:  # in the product's layout, so that nothing is copied
            steps = dict(zip(order, row_major(ordered.shape), strict=True))
            self.allocate(tensor.buffer, tuple(steps[v] for v in spatial.variables))
        whole = self.storages[tensor.buffer]
        in_order = dict(zip(spatial.variables, whole.strides, strict=True))
        if tensor.dtype != "float16" and tuple(in_order[v] for v in order) == row_major(ordered.shape):
            shape = tuple(both.only(group).size for group in (batch, rows, columns))
            shape = shape if shape[0] > 1 else shape[1:]
            out = self.named(f"{whole.name}.reshape({shape})")
            self.step(f"np.matmul({left}, {right}, out={out})")
        else:
            target = self.target(self._place(tensor, ordered), ordered)
            self.step(f"{target}[...] = np.matmul({left}, {right}).reshape({ordered.shape})")
        return True

    def _matrix(self, factor: Factor, groups: Sequence[tuple[Var, ...]], grid: Grid) -> str:
        """Return a factor with one dimension for each group of variables, without a batch of one."""
        own = grid.only(factor.variables)
        ranges = dict(zip(own.variables, own.ranges, strict=True))
        order = tuple(v for group in groups for v in group)
        text = self.full(factor.expr, Grid(order, tuple(ranges[v] for v in order)))
        if factor.expr.dtype == "float16":
            text = f"{text}.astype(np.float32)"  # BLAS does not multiply halves
        shape = tuple(grid.only(group).size for group in groups)
        return f"{text}.reshape({shape if shape[0] > 1 else shape[1:]})"

    def _place(self, tensor: Tensor, grid: Grid) -> Destination:
        """Return the place to write a tensor to, where digits of one variable are adjacent."""
        held = self.storages[tensor.buffer]
        by_axis: dict[Var, int] = dict(zip(tensor.op.axis, held.strides, strict=True))
        steps = {v: by_axis[of] * step for v in grid.variables for of, step in [self.digits[v]]}
        return Destination(held.name, held.offset, steps)


def _check(op: Operation) -> None:
    if isinstance(op, ScanOp):
        raise NoNumpyProgram(f"{op.name} is a scan, whose rows depend on earlier ones")
    if isinstance(op, ExternOp):
        raise NoNumpyProgram(f"{op.name} is a statement of te.extern")
    if isinstance(op, ComputeOp) and not all(axis.dom.min == 0 for axis in op.axis):
        raise NoNumpyProgram(f"an axis of {op.name} does not begin at 0")


def _window(source: Expr, spatial: Grid, both: Grid) -> Grid:
    """Return the axes of a reduction that slide over a tensor, because an index adds them to an axis of the output."""
    outer = {v for v, n in zip(spatial.variables, spatial.shape, strict=True) if n > 1}
    sliding = set[Var]()
    for load in loads(source):
        for form in map(linear, load.indices):
            if not outer.isdisjoint(form.terms):
                sliding |= {v for v in both.variables if v in form.terms and v not in spatial.variables}
    return both.only(tuple(sliding))
