"""Values of inputs that are indices: random ones would be out of bounds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pegbox.compute.subscripts import indirect_extents
from pegbox.errors import IndexOutOfBounds
from pegbox.expr import dtypes
from pegbox.graph.graph import Array, Value
from pegbox.measure.trial.bench import make_inputs
from pegbox.model.node_task import NodeTask


def index_inputs(made: NodeTask, constants: Mapping[Value, Array]) -> dict[str, Array]:
    """Make the integer inputs of a task that reads elements by index; none for another task.

    Constants keep their values. Others are drawn below the smallest extent read by index; they are zeros if those are
    out of bounds, as after arithmetic.
    """
    task = made.task
    if not task.has_indirect_reads:
        return {}
    arguments = zip(task.arguments(), made.arguments, strict=True)
    integers = [(spec, each) for spec, each in arguments if not spec.is_output and dtypes.is_int(spec.dtype)]
    known = {
        spec.name: constants[each.value] if each.pack is None else each.pack(made.task, constants[each.value])
        for spec, each in integers
        if each.value in constants
    }
    drawn = [spec for spec, _ in integers if spec.name not in known]
    if not drawn:
        return known
    rng, most = np.random.default_rng(0), min(indirect_extents([tensor.op for tensor in task.outputs]))
    random = {spec.name: rng.integers(0, max(1, most), spec.shape).astype(spec.dtype) for spec in drawn}
    try:
        task.reference(make_inputs(task.arguments(), seed=0, given={**known, **random}))
    except IndexOutOfBounds:
        random = {name: np.zeros_like(array) for name, array in random.items()}
    return {**known, **random}
