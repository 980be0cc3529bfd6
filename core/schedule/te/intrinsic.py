"""`te.decl_tensor_intrin`: an operation as the description, a function that returns the statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from pegbox.checks import check_callable, check_flag, check_int, check_keywords, check_list, check_mapping, check_text
from pegbox.compute.tensor import ComputeOp, Operation, Tensor
from pegbox.errors import ScheduleError
from pegbox.expr import dtypes
from pegbox.expr.build import as_expr, cast, index
from pegbox.expr.low_level import Address, Stride, VectorLoad, vector_box
from pegbox.expr.nodes import Buffer, Expr, Load
from pegbox.expr.printer import unused_name
from pegbox.loops.foreign import CLibrary, CSource, ForeignCode, foreign_code
from pegbox.loops.from_compute import function_from_tensors
from pegbox.loops.nodes import Evaluate, Stmt, Store, seq
from pegbox.loops.visit import replace_buffer
from pegbox.schedule.intrinsics.intrinsic import TensorIntrin
from pegbox.shown import value_text

Body: TypeAlias = "Stmt | Expr"
_ACCESS = {"r": "r", "w": "w", "rw": "rw", "wr": "rw", 1: "r", 2: "w", 3: "rw"}


class IntrinBuffer:
    """An operand for an intrinsic's function: elements, vectors of neighbours, a pointer, strides."""

    def __init__(self, buffer: Buffer, strides: Sequence[object] | None, access: str = "rw") -> None:
        self.buffer = buffer
        self._access = access
        listed = [] if strides is None else check_list("decl_buffer: strides", strides, "one for each dimension")
        given = listed or [None] * len(buffer.shape)
        if len(given) != len(buffer.shape):
            raise ScheduleError(
                f"decl_buffer {buffer.name}: {len(given)} stride(s) for {len(buffer.shape)} dimension(s)"
            )
        self._fixed = given
        self.strides: list[Expr] = [self._stride(dim, value) for dim, value in enumerate(given)]

    def _stride(self, dim: int, value: object) -> Expr:
        number = dtypes.integer(value)
        return Stride(self.buffer, dim) if number is None else index(number)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.buffer.shape

    @property
    def dtype(self) -> str:
        return self.buffer.dtype

    @property
    def name(self) -> str:
        return self.buffer.name

    def as_accessed(self, access: str) -> IntrinBuffer:
        """Return the same operand, with `data` as a pointer for this access."""
        return IntrinBuffer(self.buffer, self._fixed, access)

    @property
    def data(self) -> Address:
        """A pointer to the operand: of `te.extern`, an input is read through it and an output written."""
        return self.access_ptr(self._access)

    @property
    def elem_offset(self) -> Expr:
        """The offset of the operand, which is 0: its pointer includes it."""
        return index(0)

    def access_ptr(
        self, access_mask: str | int, ptr_type: str = "handle", content_lanes: int = 1, offset: Any = 0
    ) -> Address:
        """Return a pointer to the operand, for a call: read ("r"), written ("w") or both ("rw").

        Args:
            offset: in elements, of an operand of one dimension.

        Raises:
            ScheduleError: the mask is another, or the offset is into several dimensions.
        """
        if access_mask not in _ACCESS:
            raise ScheduleError(f"access_ptr of {self.name}: {access_mask!r} is not an access", "use 'r', 'w' or 'rw'")
        first = cast(dtypes.INDEX, as_expr(offset))
        start: tuple[Expr, ...] = tuple(index(0) for _ in self.shape)
        extents = self.shape
        moved = dtypes.integer(getattr(first, "value", None)) != 0
        if moved and len(self.shape) != 1:
            raise ScheduleError(
                f"access_ptr of {self.name}: an offset into {len(self.shape)} dimensions",
                "declare the part that is accessed as the operand, or let the function count rows (pass it strides)",
            )
        if moved:
            start, extents = (first,), (1,)
        return Address(self.buffer, start, extents, _ACCESS[access_mask], self._walked() if not moved else None)

    def _walked(self) -> tuple[int | None, ...] | None:
        """Return the strides that the declaration fixes; None where nothing is fixed."""
        fixed = tuple(dtypes.integer(value) for value in self._fixed)
        return fixed if all(value is not None for value in fixed) else None

    def vload(self, begin: Any, dtype: str | None = None) -> Expr:
        """Load elements from `begin` on: one, or as many neighbours as the dtype has lanes."""
        where = indices_of(self.buffer, begin)
        kind = dtypes.check_value(dtype or self.dtype)
        if dtypes.element(kind) != self.dtype:
            raise ScheduleError(
                f"vload of {self.name}: it holds {self.dtype}, not {kind}", "use tir.reinterpret on the value"
            )
        lanes = dtypes.lanes(kind)
        return (
            VectorLoad(self.buffer, where, lanes, vector_box(self.buffer, lanes)) if lanes else Load(self.buffer, where)
        )

    def vstore(self, begin: Any, value: Any) -> Store:
        """Return the statement that stores an element, or a vector to neighbours, from `begin` on."""
        expr = as_expr(value)
        kind = dtypes.vector(self.dtype, lanes) if (lanes := dtypes.lanes(expr.dtype)) else self.dtype
        if dtypes.lanes(kind) > self.shape[-1]:
            raise ScheduleError(f"vstore to {self.name}: {kind} is longer than its last dimension, {self.shape[-1]}")
        return Store(self.buffer, indices_of(self.buffer, begin), cast(kind, expr))

    def __getitem__(self, indices: Any) -> Expr:
        return Load(self.buffer, indices_of(self.buffer, indices))

    def __repr__(self) -> str:
        return f"IntrinBuffer({self.name}: {self.dtype}{list(self.shape)})"


def indices_of(buffer: Buffer, given: Any) -> tuple[Expr, ...]:
    """Read the indices between the brackets of a buffer.

    Raises:
        ScheduleError: their number is not that of the buffer's dimensions.
    """
    parts = tuple(given) if isinstance(given, tuple | list) else (given,)
    shape = buffer.shape
    if len(parts) != len(shape):
        raise ScheduleError(f"{buffer.name} has {len(shape)} dimension(s) {list(shape)}, indexed with {len(parts)}")
    return tuple(cast(dtypes.INDEX, as_expr(part)) for part in parts)


def decl_buffer(
    shape: Sequence[int],
    dtype: str = "float32",
    name: str = "buffer",
    data: object = None,
    strides: Sequence[object] | None = None,
    elem_offset: object = None,
    scope: str = "",
    data_alignment: int = -1,
    offset_factor: int = 0,
) -> IntrinBuffer:
    """Declare the memory layout of a tensor intrinsic's operand.

    Args:
        strides: elements between neighbours along each dimension: numbers, or variables whose values the
            statements get (`buffer.strides[0]`). Without any, rows follow each other without gaps.
        data, elem_offset, scope, data_alignment, offset_factor: accepted as in TVM; here, a tile may begin anywhere.
    """
    check_text("decl_buffer: name", name, error=ScheduleError)
    check_text("decl_buffer: scope", scope, error=ScheduleError)
    extents = check_list("decl_buffer: shape", shape, "a list of extents", error=ScheduleError)
    whole = tuple(check_int("decl_buffer: extent", extent, minimum=0, error=ScheduleError) for extent in extents)
    buffer = Buffer(name, whole, dtypes.check_value(dtype), scope or "global")
    return IntrinBuffer(buffer, strides)


def decl_tensor_intrin(
    op: Operation,
    fcompute: Callable[..., Any],
    name: str = "tensor_intrin",
    binds: Mapping[Tensor, IntrinBuffer] | None = None,
    scalar_params: Sequence[object] | None = None,
    default_buffer_params: Mapping[str, Any] | None = None,
    *,
    code: CSource | CLibrary | Iterable[ForeignCode] = (),
) -> TensorIntrin:
    """Return a tensor intrinsic for `s[C].tensorize(axis, intrin)`.

    Args:
        op: the computation of the intrinsic, on tensors as large as the tile.
        fcompute: a function of the operands (ins, outs) that returns the statements: one for all, or (body, reset,
            update) for a reduction that may continue outside the tile. A missing part is `None`.
        binds: the layouts of single operands (`decl_buffer`); others follow `default_buffer_params`.
        code: the C functions that the statements call: `tir.c_source(text)`, `tir.c_library(path)`.

    Raises:
        ScheduleError: the description is malformed, or statements leave the operands.
    """
    if not isinstance(op, ComputeOp):
        raise ScheduleError(f"decl_tensor_intrin: {value_text(op)} computes nothing", "give the op of a te.compute")
    if scalar_params is not None and check_flag("scalar_params", scalar_params, error=ScheduleError):
        raise ScheduleError(
            "decl_tensor_intrin: scalar_params are not supported", "let the tile's size be part of the name"
        )
    wanted = "a function of (ins, outs), the lists of operands"
    check_callable("decl_tensor_intrin: fcompute", fcompute, wanted, error=ScheduleError, arguments=2)
    check_text("decl_tensor_intrin: name", name, error=ScheduleError)
    bound = _bound(binds)
    wanted = "arguments of te.decl_buffer by name"
    given = {} if default_buffer_params is None else default_buffer_params
    options = check_mapping("decl_tensor_intrin: default_buffer_params", given, wanted, error=ScheduleError)
    check_keywords(decl_buffer, options)
    tensors = [*op.inputs, *op.outputs]
    description = function_from_tensors(tensors, name)
    operands = {t: _operand(t, bound, options) for t in tensors}
    made = fcompute([operands[t] for t in op.inputs], [operands[t] for t in op.outputs])
    body, reset, update = [*made, None, None][:3] if isinstance(made, tuple | list) else (made, None, None)
    swap = {operands[t].buffer: t.buffer for t in tensors}
    parts = [None if part is None else replace_buffer(statement_of(part, name), swap) for part in (body, reset, update)]
    # Many intrinsics have the default name.
    label = unused_name(name, TensorIntrin.registered_names())
    intrin = TensorIntrin(label, description, parts[0], parts[1], parts[2], foreign_code(code))
    return intrin.registered()


def _bound(binds: object) -> Mapping[Tensor, IntrinBuffer]:
    if binds is None:
        return {}
    if isinstance(binds, Mapping) and all(isinstance(buffer, IntrinBuffer) for buffer in binds.values()):
        return binds
    raise ScheduleError(
        f"decl_tensor_intrin: binds={value_text(binds)} is not a mapping to buffers",
        "give {tensor: te.decl_buffer(...)}",
    )


def _operand(tensor: Tensor, binds: Mapping[Tensor, IntrinBuffer], options: dict[str, Any]) -> IntrinBuffer:
    bound = next((b for t, b in binds.items() if t is tensor), None)
    if bound is None:
        return decl_buffer(tensor.shape, tensor.dtype, tensor.name, **options)
    if bound.shape != tensor.shape or bound.dtype != tensor.dtype:
        raise ScheduleError(
            f"decl_tensor_intrin: {tensor!r} is bound to {bound!r}", "give a buffer of its shape and dtype"
        )
    return bound


def statement_of(part: object, name: str) -> Stmt:
    """Convert the result of an intrinsic's or a `te.extern`'s function to a statement.

    Raises:
        ScheduleError: it is not a statement.
    """
    if isinstance(part, Expr):
        return Evaluate(part)
    if isinstance(part, list | tuple):
        return seq(*(statement_of(each, name) for each in part))
    if not isinstance(part, Stmt):
        raise ScheduleError(f"{name}: {part!r} is not a statement", "give a call, or what ir_builder's get() gives")
    return part
