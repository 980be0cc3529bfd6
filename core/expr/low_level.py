"""Low-level expressions for the bodies of tensor intrinsics: pointers, strides, vectors.

    Expr ::= ... | Address(buffer, indices, extents, access)   a pointer to an element, for calls
           | VectorLoad(buffer, indices, lanes)                neighbours along the last dimension, as one value
           | Stride(buffer, dim)                               elements between neighbours along a dimension
           | Broadcast(a, lanes)                               a scalar in every lane
           | Reinterpret(dtype, a)                             the same bits in another type

The dtype of a vector value is "float32x16"; a `Store` of one writes that many neighbours. Addresses and vector loads
are `Load`s: whatever redirects or moves loads moves them too. `Call`s of machine code have names of their own:
"extern:NAME" calls a C function, "llvm.*" is an LLVM intrinsic, "prefetch" a hint.
"""

from __future__ import annotations

from pegbox.errors import ExprError
from pegbox.expr import dtypes
from pegbox.expr.nodes import Buffer, Call, Expr, Load
from pegbox.shown import value_text

ACCESS = ("r", "w", "rw")
EXTERN = "extern:"
PREFETCH = "prefetch"


class Address(Load):
    """A pointer to `buffer[indices]`.

    `extents` are the numbers of elements touched along each dimension from there on, and `access` is "r", "w" or "rw".
    `strides` are assumptions of the called function: the elements between neighbours along each dimension, None if they
    are its arguments. The code generator refuses a buffer with another layout.
    """

    __slots__ = ("access", "extents", "strides")
    __match_args__ = ("buffer", "indices", "extents", "access", "strides")

    def __init__(
        self,
        buffer: Buffer,
        indices: tuple[Expr, ...],
        extents: tuple[int, ...],
        access: str,
        strides: tuple[int | None, ...] | None = None,
    ) -> None:
        if access not in ACCESS:
            raise ExprError(f"access {access!r} to {buffer.name}: use one of {', '.join(ACCESS)}")
        self.buffer = buffer
        self.indices = indices
        self.extents = extents
        self.access = access
        self.strides = strides or (None,) * len(extents)
        self.dtype = dtypes.HANDLE

    def at(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Address:
        # A buffer with more leading dimensions, such as several copies: one element along those.
        more = len(indices) - len(self.extents)
        return Address(buffer, indices, (1,) * more + self.extents, self.access, (None,) * more + self.strides)

    @property
    def box(self) -> tuple[int, ...]:
        return self.extents


class VectorLoad(Load):
    """A value of `lanes` neighbours in memory from `buffer[indices]` on.

    `extents` are their numbers along each dimension: usually only along the last one, else whole rows.
    """

    __slots__ = ("extents", "lanes")
    __match_args__ = ("buffer", "indices", "lanes", "extents")

    def __init__(
        self, buffer: Buffer, indices: tuple[Expr, ...], lanes: int, extents: tuple[int, ...] | None = None
    ) -> None:
        self.buffer = buffer
        self.indices = indices
        self.lanes = lanes
        self.extents = extents or vector_box(buffer, lanes)
        self.dtype = dtypes.vector(buffer.dtype, lanes)

    def at(self, buffer: Buffer, indices: tuple[Expr, ...]) -> VectorLoad:
        return VectorLoad(buffer, indices, self.lanes, (1,) * (len(indices) - len(self.extents)) + self.extents)

    @property
    def box(self) -> tuple[int, ...]:
        return self.extents


class Stride(Expr):
    """The elements between neighbours of a buffer along a dimension, known once lowering has fixed its shape."""

    __slots__ = ("buffer", "dim")
    __match_args__ = ("buffer", "dim")

    def __init__(self, buffer: Buffer, dim: int) -> None:
        self.buffer = buffer
        self.dim = dim
        self.dtype = dtypes.INDEX


class Broadcast(Expr):
    """A scalar in every lane."""

    __slots__ = ("a", "lanes")
    __match_args__ = ("a", "lanes")

    def __init__(self, a: Expr, lanes: int) -> None:
        self.a = a
        self.lanes = lanes
        self.dtype = dtypes.vector(a.dtype, lanes)


class Reinterpret(Expr):
    __slots__ = ("a",)
    __match_args__ = ("dtype", "a")

    def __init__(self, dtype: str, a: Expr) -> None:
        self.a = a
        self.dtype = dtype


def vector_box(buffer: Buffer, lanes: int) -> tuple[int, ...]:
    """Count the elements along each dimension of a vector of neighbours: part of the last row, or whole rows.

    Raises:
        ExprError: the vector would end inside a row.
    """
    box, rest = [1] * len(buffer.shape), lanes
    for dim in reversed(range(len(box))):
        if rest <= buffer.shape[dim] or dim == 0:
            box[dim] = rest
            return tuple(box)
        if rest % buffer.shape[dim]:
            break
        box[dim], rest = buffer.shape[dim], rest // buffer.shape[dim]
    raise ExprError(f"{lanes} neighbours of {buffer!r} are not whole rows")


def stored_box(indices: tuple[Expr, ...], value: Expr) -> tuple[int, ...]:
    """Count the elements along each dimension that a store of `value` writes: a vector goes along the last one."""
    lanes = dtypes.lanes(value.dtype)
    return (1,) * (len(indices) - 1) + (lanes,) if lanes else (1,) * len(indices)


def is_contiguous(shape: tuple[int, ...], box: tuple[int, ...]) -> bool:
    """Check if the elements of a box are neighbours in memory, row after row."""
    first = next((dim for dim, count in enumerate(box) if count > 1), len(box))
    return all(count == extent for count, extent in zip(box[first + 1 :], shape[first + 1 :], strict=True))


def call_extern(dtype: str, name: str, *args: Expr) -> Call:
    """Return a call of a C function; `Address`es are its pointer arguments."""
    dtypes.check_value(dtype)
    if not isinstance(name, str) or not name.isidentifier():
        raise ExprError(f"call_extern: {value_text(name)} is not a name of a C function")
    return Call(EXTERN + name, args, dtypes.check_value(dtype))


def call_llvm(dtype: str, name: str, *args: Expr) -> Call:
    """Return a call of an LLVM intrinsic by its full name, such as "llvm.fma.v16f32".

    Raises:
        ExprError: the name does not start with "llvm.", or the dtype is unknown.
    """
    if not isinstance(name, str) or not name.startswith("llvm."):
        raise ExprError(f"{value_text(name)} is not an LLVM intrinsic; their names start with 'llvm.'")
    return Call(name, args, dtypes.check_value(dtype))


def is_machine_call(name: str) -> bool:
    """Check if a name means a call of machine code, which interpreters cannot evaluate."""
    return name == PREFETCH or name.startswith((EXTERN, "llvm."))


def reinterpret(dtype: str, a: Expr) -> Expr:
    """Return the same bits as another type of the same size: `reinterpret("int32x16", bytes)` of 64 bytes.

    Raises:
        ExprError: the dtype is unknown, or has another size.
    """
    if dtypes.total_bits(dtypes.check_value(dtype)) != dtypes.total_bits(a.dtype):
        raise ExprError(f"reinterpret({dtype!r}) of {a}, {a.dtype}: the sizes differ")
    return a if a.dtype == dtype else Reinterpret(dtype, a)


def broadcast(a: Expr, lanes: int) -> Expr:
    """Repeat a scalar in every lane (a vector with that many lanes is returned unchanged).

    Raises:
        ExprError: a vector has another number of lanes.
    """
    have = dtypes.lanes(a.dtype)
    if have and have != lanes:
        raise ExprError(f"{a} has {have} lanes, not {lanes}")
    return a if have else Broadcast(a, lanes)
