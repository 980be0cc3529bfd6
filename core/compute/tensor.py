"""Tensors and operations: the nodes of the compute graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from pegbox.compute.axis import IterVar
from pegbox.compute.reducer import Reduce
from pegbox.errors import ComputeError
from pegbox.expr import dtypes
from pegbox.expr.build import as_expr, cast
from pegbox.expr.nodes import Buffer, Expr, Load, Whole
from pegbox.expr.visit import loads
from pegbox.origin import Definition


class Tensor(Whole):
    """One output of an operation: a shape (ints), a dtype, and the buffer that holds it when a program runs.

    `tensor[i, j]` is the element as an expression.
    """

    __slots__ = ("buffer", "op", "value_index")

    def __init__(
        self, op: Operation, value_index: int, name: str, shape: tuple[int, ...], dtype: str, scope: str = "global"
    ) -> None:
        self.op = op
        self.value_index = value_index
        self.buffer: Buffer = TensorBuffer(self, name, shape, dtype, scope)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.buffer.shape

    @property
    def ndim(self) -> int:
        return len(self.buffer.shape)

    @property
    def dtype(self) -> str:
        return self.buffer.dtype

    @property
    def name(self) -> str:
        return self.buffer.name

    def __iter__(self) -> NoReturn:
        # Without this, Python would try t[0], t[1], ... forever.
        raise ComputeError(f"{self.name} is one tensor, not a list of them, and its elements have no order; write [T]")

    def __getitem__(self, indices: object) -> Any:
        """Return an element, or with too few indices a `TensorSlice` that takes the others: `A[i][j]`."""
        parts = indices if isinstance(indices, tuple) else (indices,)
        return TensorSlice(self, parts) if 0 < len(parts) < self.ndim else self(*parts)

    def __call__(self, *indices: object) -> Expr:
        if len(indices) != self.ndim:
            raise ComputeError(
                f"{self.name} has {self.ndim} dimension(s) {list(self.shape)}, but was indexed with {len(indices)}"
            )
        exprs = tuple(as_expr(i) for i in indices)
        for position, expr in enumerate(exprs):
            if not dtypes.is_int(expr.dtype):
                raise ComputeError(
                    f"{self.name}: index {position} is {expr} of dtype {expr.dtype}; "
                    "indices are integers: use te.cast('int64', ...)"
                )
        return Load(self.buffer, tuple(cast(dtypes.INDEX, e) for e in exprs))

    def same_as(self, other: object) -> bool:
        """Decide if another object is this very tensor."""
        return self is other

    def __add__(self, other: object) -> Tensor:
        return OPERATORS["add"](self, other)

    def __radd__(self, other: object) -> Tensor:
        return OPERATORS["add"](other, self)

    def __sub__(self, other: object) -> Tensor:
        return OPERATORS["sub"](self, other)

    def __rsub__(self, other: object) -> Tensor:
        return OPERATORS["sub"](other, self)

    def __mul__(self, other: object) -> Tensor:
        return OPERATORS["mul"](self, other)

    def __rmul__(self, other: object) -> Tensor:
        return OPERATORS["mul"](other, self)

    def __truediv__(self, other: object) -> Tensor:
        return OPERATORS["div"](self, other)

    def __rtruediv__(self, other: object) -> Tensor:
        return OPERATORS["div"](other, self)

    def __neg__(self) -> Tensor:
        return OPERATORS["mul"](self, -1)

    def astype(self, dtype: str) -> Tensor:
        """Convert every element to another type."""
        return OPERATORS["cast"](self, dtype)

    def __repr__(self) -> str:
        return f"Tensor({self.name}: {self.dtype}{list(self.shape)})"


OPERATORS: dict[str, Callable[..., Tensor]] = {}
"""Operators on whole tensors, which make new ones; filled in by `pegbox.compute.elementwise`, which imports this."""


class TensorSlice:
    """A tensor with its first indices; the others may follow in separate brackets, as in TVM."""

    __slots__ = ("indices", "tensor")

    def __init__(self, tensor: Tensor, indices: tuple[object, ...]) -> None:
        self.tensor = tensor
        self.indices = indices

    def __getitem__(self, indices: object) -> Any:
        more = indices if isinstance(indices, tuple) else (indices,)
        known = (*self.indices, *more)
        return self.tensor[known]

    def __iter__(self) -> NoReturn:
        raise ComputeError(self.reading)

    @property
    def dtype(self) -> str:
        return self.tensor.dtype

    @property
    def reading(self) -> str:
        """The reason why a slice is not a number."""
        return (
            f"{self.tensor.name} has {self.tensor.ndim} dimension(s) {list(self.tensor.shape)}, but was indexed with "
            f"{len(self.indices)}"
        )

    def _refuse(self, *_others: object) -> NoReturn:
        raise ComputeError(self.reading)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __neg__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = _refuse

    def __repr__(self) -> str:
        return f"TensorSlice({self.tensor.name}{list(self.indices)})"


class TensorBuffer(Buffer):
    """The buffer of a tensor, with a reference to it."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor, name: str, shape: tuple[int, ...], dtype: str, scope: str = "global") -> None:
        super().__init__(name, shape, dtype, scope)
        self.tensor = tensor

    def in_scope(self, scope: str) -> TensorBuffer:
        return TensorBuffer(self.tensor, self.name, self.shape, self.dtype, scope)


class Operation:
    """Base of operations. `axis` and `reduce_axis` are the iteration variables, `inputs` the tensors read."""

    __slots__ = ("name", "outputs")
    name: str
    outputs: tuple[Tensor, ...]

    @property
    def axis(self) -> tuple[IterVar, ...]:
        return ()

    @property
    def reduce_axis(self) -> tuple[IterVar, ...]:
        return ()

    @property
    def loop_axes(self) -> tuple[IterVar, ...]:
        """All axes, in the order of the loops of the plain nest."""
        return (*self.axis, *self.reduce_axis)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return ()

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors that it reads, by TVM's name."""
        return self.inputs

    @property
    def members(self) -> tuple[Operation, ...]:
        """The operations that run together with this one, in order, and this one."""
        return (self,)

    @property
    def sources(self) -> tuple[Tensor, ...]:
        """The tensors that the members read and do not compute."""
        return self.inputs

    @property
    def num_outputs(self) -> int:
        return len(self.outputs)

    def output(self, index: int) -> Tensor:
        return self.outputs[index]

    def same_as(self, other: object) -> bool:
        """Decide if another object is this very operation."""
        return self is other

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


class PlaceholderOp(Operation):
    """An input of the computation."""

    __slots__ = ("attrs", "tag")

    def __init__(self, name: str, shape: tuple[int, ...], dtype: str) -> None:
        self.name = name
        self.tag = ""
        self.attrs: dict[str, Any] = {}
        self.outputs = (Tensor(self, 0, name, shape, dtype),)


AHEAD = "ahead_of_time"
"""The attribute of a computation done once for many calls, such as packing or unpacking weights."""


class ComputeOp(Operation):
    """An elementwise or reducing computation: for each point of `axis`, `body[i]` is the element of output i.

    `definition` is the place of the function passed to `te.compute`.
    """

    __slots__ = ("_axis", "_inputs", "attrs", "body", "definition", "tag")

    def __init__(
        self,
        name: str,
        axis: tuple[IterVar, ...],
        body: tuple[Expr, ...],
        attrs: Mapping[str, Any] | None = None,
        tag: str = "",
        definition: Definition | None = None,
    ) -> None:
        self.name = name
        self.tag = tag
        self.definition = definition or Definition()
        self._axis = axis
        self.body = body
        self.attrs = dict(attrs or {})
        shape = tuple(iv.extent for iv in axis)
        self.outputs = outputs_of(self, [(shape, expr.dtype) for expr in body])
        self._inputs = tuple(owner(b) for b in dict.fromkeys(read_buffers(body)))

    def rebuilt(self, body: tuple[Expr, ...]) -> ComputeOp:
        """Return another computation of the same outputs (the very same tensors), for rewrites of the graph."""
        op = ComputeOp.__new__(ComputeOp)
        op.name, op._axis, op.body, op.attrs, op.outputs = self.name, self._axis, body, self.attrs, self.outputs
        op.tag, op.definition = self.tag, self.definition
        op._inputs = tuple(owner(b) for b in dict.fromkeys(read_buffers(body)))
        return op

    def in_scope(self, scope: str) -> ComputeOp:
        """Return the same computation, whose outputs are new tensors in memory of that scope."""
        op = self.rebuilt(self.body)
        op.outputs = tuple(Tensor(op, n, t.name, t.shape, t.dtype, scope) for n, t in enumerate(self.outputs))
        return op

    @property
    def axis(self) -> tuple[IterVar, ...]:
        return self._axis

    @property
    def reduce(self) -> Reduce | None:
        """The reduction at the top of the body, or None."""
        first = self.body[0]
        return first if isinstance(first, Reduce) else None

    @property
    def reduce_axis(self) -> tuple[IterVar, ...]:
        reduce = self.reduce
        return () if reduce is None else reduce.axes

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self._inputs


class ExternOp(ComputeOp):
    """A computation by an opaque statement, usually the call of a C function.

    It has no axes and no expressions. `statement` (of the loop IR) may touch the buffers of `inputs` and `outputs` as a
    whole. `evaluate` computes the outputs' arrays from those of the inputs, and `code` is the called C code.
    """

    __slots__ = ("code", "evaluate", "statement")

    def __init__(
        self,
        name: str,
        inputs: Sequence[Tensor],
        outputs: Sequence[tuple[tuple[int, ...], str]],
        attrs: Mapping[str, Any] | None = None,
        tag: str = "",
    ) -> None:
        super().__init__(name, (), (), attrs, tag)
        self._inputs = tuple(inputs)
        self.outputs = outputs_of(self, outputs)
        self.statement: Any = None
        self.evaluate: Callable[..., Any] | None = None
        self.code: tuple[Any, ...] = ()

    def rebuilt(self, body: tuple[Expr, ...]) -> ComputeOp:
        raise ComputeError(f"{self.name} is a statement of te.extern, which cannot be rewritten")

    @property
    def reduce(self) -> Reduce | None:
        return None


def outputs_of(op: Operation, types: Sequence[tuple[tuple[int, ...], str]]) -> tuple[Tensor, ...]:
    """Make the outputs of an operation, of these shapes and dtypes; several are numbered."""
    numbers = [""] if len(types) == 1 else [f"_{n}" for n in range(len(types))]
    return tuple(Tensor(op, n, f"{op.name}{numbers[n]}", *shape_and_type) for n, shape_and_type in enumerate(types))


def owner(buffer: Buffer) -> Tensor:
    """Return the tensor that a buffer belongs to.

    Raises:
        ComputeError: the buffer was not made by placeholder or compute.
    """
    if not isinstance(buffer, TensorBuffer):
        raise ComputeError(f"{buffer} belongs to no tensor; index tensors made by te.placeholder or te.compute")
    return buffer.tensor


def read_buffers(body: tuple[Expr, ...]) -> list[Buffer]:
    """Return the buffers that a computation's expressions read, once for each load."""
    return [load.buffer for load in body_loads(body)]


def body_loads(body: Iterable[Expr]) -> list[Load]:
    """Return every load of a computation's expressions."""
    return [load for part in body_parts(body) for load in loads(part)]


def body_parts(body: Iterable[Expr]) -> list[Expr]:
    """Return the plain expressions of a computation's body, in order."""
    return [part for expr in body for part in parts_of(expr)]


def parts_of(expr: Expr) -> tuple[Expr, ...]:
    """Return the plain expressions in one expression of a body, which may be a reduction."""
    return (*expr.sources, expr.condition) if isinstance(expr, Reduce) else (expr,)
