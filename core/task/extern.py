"""`te.extern`: operations whose inside is a statement, and their values for the reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pegbox.checks import check_callable
from pegbox.compute.tensor import ExternOp, Tensor
from pegbox.errors import ComputeError
from pegbox.expr import dtypes
from pegbox.loops.foreign import CLibrary, CSource, ForeignCode
from pegbox.loops.from_compute import function_from_ops
from pegbox.loops.nodes import Function
from pegbox.loops.passes import lower_function
from pegbox.loops.script.race import race
from pegbox.schedule.te.extern import extern_op
from pegbox.schedule.te.intrinsic import IntrinBuffer

if TYPE_CHECKING:
    import numpy as np


def extern(
    shape: Any,
    inputs: Sequence[Tensor],
    fcompute: Callable[..., Any],
    name: str = "extern",
    dtype: str | Sequence[str] | None = None,
    in_buffers: IntrinBuffer | Sequence[IntrinBuffer] | None = None,
    out_buffers: IntrinBuffer | Sequence[IntrinBuffer] | None = None,
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
    *,
    code: CSource | CLibrary | Iterable[ForeignCode] = (),
    reference: Callable[..., Any] | None = None,
) -> Tensor | list[Tensor]:
    """Tensors that a statement computes, mostly the call of a C function on whole buffers.

    Other stages can feed and read it. There are no loops in it to schedule, and it cannot be computed in part.

    Args:
        shape: of the output, or a list of shapes, one for each output.
        inputs: the tensors that are read.
        fcompute: takes the buffers (ins, outs) and gives the statement: `te.call_extern("int32", "f", ins[0].data,
            outs[0].data)`, a list of calls, or a program of `tir.ir_builder`. Buffers are dense, row after row.
        dtype: of the outputs; by default that of the inputs.
        in_buffers, out_buffers: how the buffers lie in memory (`te.decl_buffer`), in place of that.
        code: the C functions that are called: `tir.c_source(text)`, `tir.c_library(path)`.
        reference: the same on arrays, for the check of results: gives the outputs' arrays for those of the inputs. By
            default the statement itself runs, alone.

    Raises:
        ComputeError: malformed arguments, or a statement that leaves its buffers, or writes not all outputs, or whose
            iterations that run at once get in each other's way.
        ScheduleError: `fcompute` gave no statement.
    """
    op = extern_op(shape, inputs, fcompute, name, dtype, in_buffers, out_buffers, tag, attrs, code)
    found = race(_alone(op))
    if found is not None:
        raise ComputeError(f"extern {name!r}: {found.problem}; {found.remedy}")
    op.evaluate = partial(_run_alone, op)
    if reference is not None:
        op.evaluate = check_callable(f"extern {name!r}: reference", reference, "a function of arrays")
    return op.outputs[0] if len(op.outputs) == 1 else list(op.outputs)


def _run_alone(op: ExternOp, *arrays: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """The outputs' arrays, as a kernel of this operation only makes them."""
    import numpy as np  # only the reference needs it

    from pegbox.codegen import build, emit  # kept out of `import pegbox`
    from pegbox.codegen.targets.target import Target

    made = [np.empty(t.shape, dtypes.numpy_dtype(t.dtype)) for t in op.outputs]
    build(emit(lower_function(_alone(op)), Target.host(num_cores=1)))(*arrays, *made)
    return made


def _alone(op: ExternOp) -> Function:
    """The program of this operation only."""
    outputs = [t.buffer for t in op.outputs]
    return function_from_ops([op], [*(t.buffer for t in op.inputs), *outputs], outputs, "statement")
