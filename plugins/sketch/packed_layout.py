"""`PackedLayout`: the layout of an operand packed ahead of time, and computations that read this layout.

A tiled stage reads such an operand in packed form: Liu et al., "Optimizing CNN Model Inference on CPUs", ATC 2019.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pegbox.checks import check_array
from pegbox.codegen import Target, lanes_of
from pegbox.compute import AHEAD, ComputeOp, PlaceholderOp, Tensor, map_body, post_order
from pegbox.errors import TemplateError
from pegbox.expr import Buffer, Expr, Load, floordiv, floormod, free_vars, rewrite, unused_name
from pegbox.plugins.sketch.analysis import loads_of, needs_multi_level_tiling
from pegbox.plugins.sketch.limit import vectors_of
from pegbox.plugins.sketch.register_tile import fills_vectors
from pegbox.plugins.sketch.state import has_few_divisors
from pegbox.te import compute, placeholder

if TYPE_CHECKING:
    import numpy as np

LAYOUT_FREE = "layout_free_placeholders"
"""The attribute of an operation that lists inputs whose layout is free; the name is TVM's."""

_WIDEST = 4  # vectors in a panel, if an extent is not a multiple of one


@dataclass(frozen=True)
class PackedLayout:
    """An operand with an axis cut into panels, so that the innermost loops of a tile read consecutive elements.

    B[k, j] of a product is stored as (ceil(n / width), k, width): all rows of the first columns, then those of the
    next.

    Attributes:
        name, shape, dtype: those of the unpacked operand.
        axis: the number of the cut axis.
        width: the elements of that axis in a panel; the last panel is filled up with zeros.
        order: the axes of the operand in memory, outermost first; `axis` is the number of the panel. The place in the
            panel comes last.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    axis: int
    width: int
    order: tuple[int, ...]

    @property
    def count(self) -> int:
        return -(-self.shape[self.axis] // self.width)

    @property
    def packed_shape(self) -> tuple[int, ...]:
        return (*(self.count if n == self.axis else self.shape[n] for n in self.order), self.width)

    def indices(self, plain: Sequence[Expr]) -> tuple[Expr, ...]:
        """Map the indices of an element in the original operand to those in the packed one."""
        index = plain[self.axis]
        outer = (floordiv(index, self.width) if n == self.axis else plain[n] for n in self.order)
        return (*outer, floormod(index, self.width))

    @property
    def padding(self) -> tuple[tuple[int, int], ...]:
        """The numbers of zeros before and after each axis, as for `numpy.pad`."""
        missing = self.count * self.width - self.shape[self.axis]
        return tuple((0, missing if n == self.axis else 0) for n in range(len(self.shape)))

    @property
    def cut_shape(self) -> tuple[int, ...]:
        """The padded shape with two axes for the cut one."""
        return (*self.shape[: self.axis], self.count, self.width, *self.shape[self.axis + 1 :])

    @property
    def cut_order(self) -> tuple[int, ...]:
        """The axes of `cut_shape` in memory order."""
        return (*(n + (n > self.axis) for n in self.order), self.axis + 1)

    def unpacked(self, packed: Tensor) -> Tensor:
        """Compute the original operand from the packed one, ahead of time."""
        whole = tuple(self.count * self.width if n == self.axis else size for n, size in enumerate(self.shape))
        ahead = {AHEAD: True}
        padded = compute(whole, lambda *at: packed(*self.indices(at)), name=f"{self.name}_padded", attrs=ahead)
        return compute(self.shape, lambda *at: padded(*at), name=self.name, attrs=ahead)

    def pack(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Copy an operand into its packed layout.

        Raises:
            ArgumentError: it has another shape or dtype than the operand.
        """
        import numpy as np  # slow to import

        check_array(f"pack_weights: {self.name} is", array, self.shape, self.dtype)
        return np.ascontiguousarray(np.pad(array, self.padding).reshape(self.cut_shape).transpose(self.cut_order))


def pack_ahead(
    arguments: Sequence[Tensor], target: Target, names: Sequence[str] = ()
) -> tuple[tuple[Tensor, ...], tuple[PackedLayout, ...], tuple[Tensor, ...]]:
    """Rewrite a computation to read inputs with a free layout in panels; return its arguments and the layouts.

    The third result has the outputs of the original computation, over the unpacked operands; empty if no layout is
    free.

    Args:
        arguments: all arguments of the kernel.
        names: inputs with a free layout, in addition to those in the operations' attribute.

    Raises:
        TemplateError: one is not an input, or not read by exactly one tiled stage, or not along an axis of that stage.
    """
    ops = [op for op in post_order([t.op for t in arguments]) if isinstance(op, ComputeOp)]
    inputs = {t.name: t for t in arguments if isinstance(t.op, PlaceholderOp)}
    marked = [*_marked(ops, inputs), *(_named(name, "layout_free", inputs) for name in names)]
    if not marked:
        return tuple(arguments), (), ()
    layouts = {t.buffer: _layout(t, ops, target) for t in dict.fromkeys(marked)}
    taken = [op.name for op in post_order([t.op for t in arguments])]
    packed = {
        buffer: placeholder(each.packed_shape, each.dtype, unused_name(f"{each.name}_packed", taken))
        for buffer, each in layouts.items()
    }
    unpacked = {buffer: each.unpacked(packed[buffer]) for buffer, each in layouts.items()}
    plain = _rewritten([t for t in arguments if isinstance(t.op, ComputeOp)], unpacked, {})
    return _rewritten(arguments, packed, layouts), tuple(layouts.values()), plain


def _marked(ops: Sequence[ComputeOp], inputs: Mapping[str, Tensor]) -> list[Tensor]:
    found = []
    for op in ops:
        listed = op.attrs.get(LAYOUT_FREE, ())
        if not isinstance(listed, list | tuple):
            raise TemplateError(f"{op.name}: {LAYOUT_FREE}={listed!r} is not a list; give the inputs as a list")
        for each in listed:
            if isinstance(each, Tensor) and each not in inputs.values():
                raise TemplateError(
                    f"{op.name}: {LAYOUT_FREE}: {each.name} is not an input of the kernel; leave it out"
                )
            found.append(each if isinstance(each, Tensor) else _named(each, f"{op.name}: {LAYOUT_FREE}", inputs))
    return found


def _named(name: object, where: str, inputs: Mapping[str, Tensor]) -> Tensor:
    if not isinstance(name, str) or name not in inputs:
        raise TemplateError(f"{where}: there is no input {name!r}; the inputs are {', '.join(inputs) or 'none'}")
    return inputs[name]


def _layout(operand: Tensor, ops: Sequence[ComputeOp], target: Target) -> PackedLayout:
    """Return the layout of an operand in the order in which its reader's tiles traverse it."""
    readers = [op for op in ops if operand in op.inputs]
    if len(readers) != 1:
        by = ", ".join(op.name for op in readers) or "no stage"
        raise TemplateError(f"the layout of {operand.name} cannot be free: it is read by {by}; let one stage read it")
    op = readers[0]
    if not needs_multi_level_tiling(op):
        raise TemplateError(
            f"the layout of {operand.name} cannot be free: {op.name}, which reads it, is not tiled, as it has no reuse "
            "of data; leave its layout as it is, or read it in a stage that is tiled"
        )
    indices = next(load.indices for load in loads_of(op) if load.buffer is operand.buffer)
    cut = max(range(len(indices)), key=lambda n: _position(op, indices[n]), default=-1)
    if cut < 0 or _position(op, indices[cut]) < 0:
        raise TemplateError(
            f"the layout of {operand.name} cannot be free: none of its indices in {op.name} is an axis by itself"
        )
    lanes = lanes_of(target, op.outputs[0].dtype)
    order = sorted(range(len(indices)), key=lambda n: _depth(op, indices[n]))
    return PackedLayout(
        operand.name, operand.shape, operand.dtype, cut, _width(operand.shape[cut], lanes), tuple(order)
    )


def _position(op: ComputeOp, index: Expr) -> int:
    """Return the number of the spatial axis that an index equals; -1 for others."""
    return next((n for n, axis in enumerate(op.axis) if index is axis), -1)


def _depth(op: ComputeOp, index: Expr) -> tuple[int, ...]:
    """Find the depths of the loops on which an index depends, the spatial ones first, in order."""
    used = free_vars(index)
    return next(((1, n) for n, axis in enumerate(op.reduce_axis) if axis in used), (0, _position(op, index)))


def _width(extent: int, lanes: int) -> int:
    """Return the vector's width, or for an extent cut into its divisors, the divisor that fills a vector best."""
    fitting = [d for d in range(lanes, _WIDEST * lanes + 1) if extent % d == 0]
    if extent <= lanes or extent % lanes == 0 or has_few_divisors(extent) or not fills_vectors([1, *fitting], lanes):
        return min(extent, lanes)
    return max(fitting, key=lambda d: d / vectors_of(d, lanes), default=lanes)


def _rewritten(
    arguments: Sequence[Tensor], replaced: Mapping[Buffer, Tensor], layouts: Mapping[Buffer, PackedLayout]
) -> tuple[Tensor, ...]:
    """Rewrite all operations to read other operands, some of them in panels; return the arguments."""
    made = dict(replaced)

    def moved(expr: Expr) -> Expr | None:
        if not isinstance(expr, Load) or expr.buffer not in made:
            return None
        indices = tuple(rewrite(index, moved) for index in expr.indices)
        layout = layouts.get(expr.buffer)
        return Load(made[expr.buffer].buffer, indices if layout is None else layout.indices(indices))

    for op in post_order([t.op for t in arguments]):
        if isinstance(op, ComputeOp):
            body = tuple(map_body(each, lambda e: rewrite(e, moved)) for each in op.body)
            attrs = {key: value for key, value in op.attrs.items() if key != LAYOUT_FREE}
            new = ComputeOp(op.name, op.axis, body, attrs, op.tag, op.definition)
            made.update(zip((t.buffer for t in op.outputs), new.outputs, strict=True))
    return tuple(made.get(t.buffer, t) for t in arguments)
