"""Running sums and products in the NumPy reference, in NumPy's own words: without a step of Python for each row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pegbox.compute.reference_grid import Arrays, Evaluator, Grid
from pegbox.compute.scan_op import ScanOp
from pegbox.expr.affine import linear
from pegbox.expr.nodes import Binary, Expr, Load
from pegbox.expr.visit import loads

_UFUNCS: dict[str, np.ufunc] = {"add": np.add, "mul": np.multiply}


def accumulate(op: ScanOp, arrays: Arrays, out: NDArray[Any]) -> bool:
    """Fill `out` if the scan is a running sum or product, which is rounded after each step; False if it is not."""
    terms = running_terms(op)
    if terms is None or out.dtype.kind not in "fiu":
        return False
    name, terms_of = terms
    ranges = [(0, iv.extent) for iv in op.axis]
    before, after = list(ranges), list(ranges)
    before[op.time], after[op.time] = (0, 1), (1, ranges[op.time][1])
    for part, expr in ((before, op.starts[0]), (after, terms_of)):
        where = tuple(slice(first, stop) for first, stop in part)
        out[where] = Evaluator(Grid(op.axis, tuple(part)), arrays).value(expr)
    _UFUNCS[name].accumulate(out, axis=op.time, out=out)
    return True


def running_terms(op: ScanOp) -> tuple[str, Expr] | None:
    """The operation ("add" or "mul") and the terms of a running sum or product; None for another recurrence."""
    step = op.steps[0]
    if len(op.body) != 1 or op.cells or op.rows != 1 or not isinstance(step, Binary) or step.op not in _UFUNCS:
        return None
    for before, term in ((step.a, step.b), (step.b, step.a)):
        if _is_row_before(op, before) and not any(load.buffer is op.outputs[0].buffer for load in loads(term)):
            return step.op, term
    return None


def _is_row_before(op: ScanOp, expr: Expr) -> bool:
    if not isinstance(expr, Load) or expr.buffer is not op.outputs[0].buffer:
        return False
    back = [linear(iv).minus(linear(at)) for iv, at in zip(op.axis, expr.indices, strict=True)]
    return all(gap.is_const and gap.const == (dim == op.time) for dim, gap in enumerate(back))
