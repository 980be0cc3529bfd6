"""The NumPy reference: evaluates a compute graph, to check the results of kernels.

It computes whole arrays at a time, in blocks that bound the memory (about 256 MiB), without Python loops over elements.

Its exactness determines the allowed errors of a correct kernel:
- Integers wrap around as on the machine; they, booleans, minima, maxima and everything without rounding are exact.
- Elementwise float operations round in their own type, as kernels do; intrinsics are computed in float64 and rounded
  once, so a kernel may differ by the errors of its own functions (a few units in the last place).
- Sums of products of float32 go through BLAS in float32, those of float16 in float32 with one rounding at the end;
  every other sum of floats is accumulated in float64. A kernel that adds n terms in another order in a type of unit
  roundoff u differs by at most about n u times the sum of the terms' magnitudes, and typically sqrt(n) u times it;
  compare with a tolerance relative to the largest output rather than to each.
- Float to integer casts of values that the integer type lacks are undefined, as in C.

With `wide`, all floats are float64, even intermediate ones, and rounded once at the end: the errors of kernels are
relative to these values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pegbox.compute.axis import IterVar
from pegbox.compute.graph import post_order
from pegbox.compute.reference_grid import Evaluator, Grid, WideArrays, wide_type
from pegbox.compute.reference_reduce import CHUNK, contract_grid, factors, reduce_grid
from pegbox.compute.scan_op import ScanOp
from pegbox.compute.sizes import check_static
from pegbox.compute.tensor import ComputeOp, ExternOp, Operation, Tensor
from pegbox.errors import ArgumentError, ComputeError
from pegbox.expr.affine import linear
from pegbox.expr.nodes import Binary, Buffer, Expr, Load
from pegbox.expr.visit import loads

Array = NDArray[Any]

_RUNNING: dict[str, np.ufunc] = {"add": np.add, "mul": np.multiply}


def evaluate(outputs: Sequence[Tensor], inputs: Mapping[Tensor, Array], *, wide: bool = False) -> list[Array]:
    """Compute the values of `outputs` from those of the placeholders (or of any intermediate tensors).

    Args:
        wide: compute all floats in float64, and round the outputs to their types.

    Raises:
        ArgumentError: an input is missing, or has another shape or dtype than its tensor.
        IndexOutOfBounds: an element outside a tensor is read.
        ComputeError: a tensor has size variables.
    """
    check_static(post_order([tensor.op for tensor in outputs]))
    arrays: dict[Buffer, Array] = WideArrays() if wide else {}
    for tensor, array in inputs.items():
        checked = _checked(tensor, array)
        arrays[tensor.buffer] = checked.astype(wide_type(tensor.dtype), copy=False) if wide else checked
    with np.errstate(all="ignore"):
        for op in _pending(outputs, arrays):
            if not isinstance(op, ComputeOp):
                raise ArgumentError(f"no array for input {op.outputs[0]!r}; given are {[t.name for t in inputs]}")
            try:
                results = _run(op, arrays)
            except ComputeError as error:
                error.source = error.source or str(op.definition)
                raise
            for tensor, result in zip(op.outputs, results, strict=True):
                arrays.setdefault(tensor.buffer, result)
        return [arrays[t.buffer].astype(t.dtype, copy=False) for t in outputs]


def _pending(outputs: Sequence[Tensor], arrays: Mapping[Buffer, Array]) -> list[Operation]:
    """Return the operations needed for outputs that are not given, producers first."""
    wanted = {t.buffer for t in outputs}
    pending: list[Operation] = []
    for op in reversed(post_order([t.op for t in outputs])):
        if any(t.buffer in wanted and t.buffer not in arrays for t in op.outputs):
            pending.append(op)
            wanted.update(t.buffer for t in op.sources)
    return pending[::-1]


def _checked(tensor: Tensor, array: Array) -> Array:
    if not isinstance(array, np.ndarray) or array.shape != tensor.shape or str(array.dtype) != tensor.dtype:
        got = f"{array.dtype}{list(array.shape)}" if isinstance(array, np.ndarray) else type(array).__name__
        raise ArgumentError(f"input {tensor.name} is {got}; expected an array {tensor.dtype}{list(tensor.shape)}")
    return array


def _run(op: ComputeOp, arrays: Mapping[Buffer, Array]) -> list[Array]:
    if isinstance(op, ExternOp):
        return _extern(op, arrays)
    out = [np.empty(t.shape, _held(t.dtype, arrays)) for t in op.outputs]
    if isinstance(op, ScanOp):
        _scan(op, arrays, out)
    else:
        _compute(op, Grid.of(op.axis), arrays, out)
    return out


def _compute(op: ComputeOp, spatial: Grid, arrays: Mapping[Buffer, Array], out: list[Array]) -> None:
    """Fill the part of the outputs within a grid."""
    reduce = op.reduce
    if reduce is None:
        _elementwise(op, spatial, arrays, out, op.body)
        return
    reduced = Grid.of(reduce.axes)
    pair = factors(reduce, spatial.variables + reduced.variables)
    if pair is None or not contract_grid(pair, reduced, spatial, arrays, out[0]):
        reduce_grid(reduce, spatial, arrays, out)


def _scan(op: ScanOp, arrays: Mapping[Buffer, Array], out: list[Array]) -> None:
    """Compute the rows one after the other, and in each of them the cells first."""
    terms = running_terms(op)
    if terms is not None and out[0].dtype.kind in "fiu":  # rounded after each step, like the rows
        name, later = terms
        _elementwise(op, _row(op, op.scan_axis, 0), arrays, out, op.starts)
        _elementwise(op, _row(op, op.scan_axis, 1, op.scan_axis.extent), arrays, out, [later])
        _RUNNING[name].accumulate(out[0], axis=op.time, out=out[0])
        return
    made = {t.buffer: np.empty(t.shape, _held(t.dtype, arrays)) for cell in op.cells for t in cell.outputs}
    known = (WideArrays if isinstance(arrays, WideArrays) else dict)(
        {**arrays, **made, **dict(zip((t.buffer for t in op.outputs), out, strict=True))}
    )
    for row in range(op.scan_axis.extent):
        for cell, axis in zip(op.cells, op.cell_axes, strict=True) if row >= op.rows else ():
            _compute(cell, _row(cell, axis, row), known, [known[t.buffer] for t in cell.outputs])
        _elementwise(op, _row(op, op.scan_axis, row), known, out, op.steps if row >= op.rows else op.starts)


def _row(op: ComputeOp, axis: IterVar, row: int, end: int = 0) -> Grid:
    """Return the points of a row, or of all rows up to `end`."""
    return Grid(op.axis, tuple((row, end or row + 1) if iv is axis else (0, iv.extent) for iv in op.axis))


def running_terms(op: ScanOp) -> tuple[str, Expr] | None:
    """Return the operation ("add" or "mul") and the terms of a running sum or product; None for another recurrence."""
    step = op.steps[0]
    if len(op.body) != 1 or op.cells or op.rows != 1 or not isinstance(step, Binary) or step.op not in _RUNNING:
        return None
    own = op.outputs[0].buffer
    for before, term in ((step.a, step.b), (step.b, step.a)):
        if isinstance(before, Load) and before.buffer is own and not any(load.buffer is own for load in loads(term)):
            back = [linear(iv).minus(linear(at)) for iv, at in zip(op.axis, before.indices, strict=True)]
            if all(gap.is_const and gap.const == (dim == op.time) for dim, gap in enumerate(back)):
                return step.op, term
    return None


def _extern(op: ExternOp, arrays: Mapping[Buffer, Array]) -> list[Array]:
    if op.evaluate is None:
        raise ComputeError(f"{op.name}: its statement has no reference; give te.extern the argument reference=")
    made = op.evaluate(*(np.ascontiguousarray(arrays[t.buffer], t.dtype) for t in op.inputs))
    results = [np.asarray(each) for each in (made if isinstance(made, tuple | list) else [made])]
    wanted = [(t.shape, t.dtype) for t in op.outputs]
    if [(each.shape, str(each.dtype)) for each in results] != wanted:
        got = ", ".join(f"{each.dtype}{list(each.shape)}" for each in results)
        raise ComputeError(f"{op.name}: its reference gave {got}; expected {', '.join(map(repr, op.outputs))}")
    return [each.astype(_held(str(each.dtype), arrays), copy=False) for each in results]


def _held(dtype: str, arrays: Mapping[Buffer, Array]) -> str:
    """Return the type of the array for values of a type: float64 in a wide evaluation."""
    return wide_type(dtype) if isinstance(arrays, WideArrays) else dtype


def _elementwise(
    op: ComputeOp, spatial: Grid, arrays: Mapping[Buffer, Array], out: list[Array], body: Sequence[Expr]
) -> None:
    for block in spatial.blocks(CHUNK):
        evaluator = Evaluator(block, arrays)
        for array, expr in zip(out, body, strict=True):
            if _held(expr.dtype, arrays) != str(array.dtype):
                raise ComputeError(f"{op.name}: body {expr} has dtype {expr.dtype}, its tensor {array.dtype}")
            array[block.slices] = evaluator.value(expr)
