"""`te.extern`: operations defined by a statement, and their values for the reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING, Any

from pegbox.checks import check_callable, check_list, check_mapping, check_text
from pegbox.compute.ops import shape_of
from pegbox.compute.sizes import check_static
from pegbox.compute.tag import tag_of
from pegbox.compute.tensor import ExternOp, Tensor
from pegbox.errors import ComputeError
from pegbox.expr import dtypes
from pegbox.expr.nodes import Buffer, Expr
from pegbox.loops.access.region import read_below, written_below
from pegbox.loops.foreign import CLibrary, CSource, ForeignCode, foreign_code
from pegbox.loops.from_compute import function_from_ops
from pegbox.loops.nodes import Alloc, Function, Stmt
from pegbox.loops.passes import lower_function
from pegbox.loops.script.race import race
from pegbox.loops.visit import replace_buffer, walk
from pegbox.schedule.te.intrinsic import IntrinBuffer, statement_of

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
    """Make tensors that a statement computes, usually the call of a C function on whole buffers.

    Other stages can provide its inputs and read its outputs. It has no loops to schedule, and is always computed as a
    whole.

    Args:
        shape: the output's shape, or a list of one shape for each output.
        inputs: the tensors that are read.
        fcompute: a function of the buffers (ins, outs) that returns the statement: `te.call_extern("int32", "f",
            ins[0].data, outs[0].data)`, a list of calls, or a program of `tir.ir_builder`. Buffers are dense, row after
            row.
        dtype: the outputs' type; by default that of the inputs.
        in_buffers, out_buffers: the buffers' layouts in memory (`te.decl_buffer`), in place of dense ones.
        code: the C functions that are called: `tir.c_source(text)`, `tir.c_library(path)`.
        reference: a function that computes the outputs' arrays from the inputs' arrays, to check results. By default,
            the statement itself runs alone.

    Raises:
        ComputeError: an argument is malformed, or the statement leaves its buffers, does not write all outputs, or has
            parallel iterations that conflict.
        ScheduleError: `fcompute` did not return a statement.
    """
    what = f"extern {check_text('extern: name', name, error=ComputeError)!r}"
    given = check_list(f"{what}: inputs", inputs, "the tensors that are read", error=ComputeError, of=Tensor)
    check_callable(f"{what}: fcompute", fcompute, "a function of (ins, outs)", error=ComputeError, arguments=2)
    if attrs is not None:
        attrs = check_mapping(f"{what}: attrs", attrs, "a dict of notes by name", error=ComputeError)
    shapes = [shape_of(each, name) for each in _shapes(shape)]
    check_static([tensor.op for tensor in given])
    kinds = _dtypes(what, dtype, given, len(shapes))
    op = ExternOp(name, given, list(zip(shapes, kinds, strict=True)), attrs, tag_of(what, tag))
    ins = _operands(what, op.inputs, in_buffers, "r")
    outs = _operands(what, op.outputs, out_buffers, "w")
    swap = {
        operand.buffer: tensor.buffer
        for operand, tensor in zip([*ins, *outs], [*op.inputs, *op.outputs], strict=True)
        if operand.buffer is not tensor.buffer
    }
    op.statement = replace_buffer(statement_of(fcompute(ins, outs), what), swap)
    op.code = foreign_code(code)
    _check(what, op)
    found = race(_alone(op))
    if found is not None:
        raise ComputeError(f"{what}: {found.reason}; {found.remedy}")
    op.evaluate = partial(_run_alone, op)
    if reference is not None:
        op.evaluate = check_callable(f"{what}: reference", reference, "a function of arrays")
    return op.outputs[0] if len(op.outputs) == 1 else list(op.outputs)


def _shapes(shape: Any) -> list[Any]:
    """List one shape for each output, as TVM reads them: a shape, or a list of shapes."""
    if isinstance(shape, Expr) or dtypes.integer(shape) is not None:
        return [(shape,)]
    listed = check_list("extern: shape", shape, "a shape, or a list of shapes", error=ComputeError)
    several = bool(listed) and all(isinstance(each, list | tuple) for each in listed)
    return listed if several else [tuple(listed)]


def _dtypes(what: str, dtype: str | Sequence[str] | None, inputs: Sequence[Tensor], count: int) -> list[str]:
    if dtype is None:
        kinds = list(dict.fromkeys(t.dtype for t in inputs))
        if len(kinds) != 1:
            raise ComputeError(f"{what}: its inputs are {', '.join(kinds) or 'none'}; give dtype= of the outputs")
        return kinds * count
    wanted = "a type, or one for each output"
    listed = [dtype] * count if isinstance(dtype, str) else check_list(f"{what}: dtype", dtype, wanted)
    if len(listed) != count:
        raise ComputeError(f"{what}: dtype={dtype!r} for {count} output(s); give one for each")
    return [dtypes.check(each) for each in listed]


def _operands(
    what: str, tensors: Sequence[Tensor], declared: IntrinBuffer | Sequence[IntrinBuffer] | None, access: str
) -> list[IntrinBuffer]:
    """List the buffers as the function sees them: dense, row after row, unless declared otherwise."""
    if declared is None:
        return [IntrinBuffer(t.buffer, _row_major(t.buffer), access) for t in tensors]
    wanted = "what te.decl_buffer makes, one for each tensor"
    listed = [declared] if isinstance(declared, IntrinBuffer) else declared
    given = check_list(f"{what}: buffers", listed, wanted, error=ComputeError, of=IntrinBuffer)
    if [(b.shape, b.dtype) for b in given] != [(t.shape, t.dtype) for t in tensors]:
        raise ComputeError(f"{what}: the buffers {given!r} are declared for {list(tensors)!r}; give one like each")
    return [b.as_accessed(access) for b in given]


def _row_major(buffer: Buffer) -> list[int]:
    return [*accumulate(buffer.shape[:0:-1], mul, initial=1)][::-1] if buffer.shape else []


def _check(what: str, op: ExternOp) -> None:
    """Raise `ComputeError` if the statement reads or writes another buffer, or does not write an output."""
    stmt: Stmt = op.statement
    own = {s.buffer for s in walk(stmt) if isinstance(s, Alloc)}
    ins, outs = ({t.buffer for t in tensors} for tensors in (op.inputs, op.outputs))
    writes, reads = written_below(stmt), read_below(stmt)
    for buffer in writes:
        if buffer not in outs | own:
            raise ComputeError(f"{what}: its statement writes {buffer.name}, which is not one of its outputs")
    for buffer in reads:
        if buffer not in ins | outs | own:
            raise ComputeError(f"{what}: its statement reads {buffer.name}, which is not one of its inputs")
    for buffer in outs - set(writes):
        raise ComputeError(f"{what}: its statement never writes the output {buffer.name}; pass it outs[...].data")


def _run_alone(op: ExternOp, *arrays: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Return the outputs' arrays, computed by a kernel of this operation alone."""
    import numpy as np  # needed only for the reference

    from pegbox.codegen import build, emit  # kept out of `import pegbox`
    from pegbox.codegen.targets.target import Target

    made = [np.empty(t.shape, dtypes.numpy_dtype(t.dtype)) for t in op.outputs]
    build(emit(lower_function(_alone(op)), Target.host(num_cores=1)))(*arrays, *made)
    return made


def _alone(op: ExternOp) -> Function:
    """Return the program of this operation alone."""
    outputs = [t.buffer for t in op.outputs]
    return function_from_ops([op], [*(t.buffer for t in op.inputs), *outputs], outputs, "statement")
