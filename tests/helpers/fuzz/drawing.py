"""The parts from which random graphs are drawn: shapes, views, element expressions that are defined and exact.

Most tensors hold integers of small magnitude, also where their type is a float type, so that results are exact in any
order of evaluation: each tensor knows the bound of its magnitude, and an operation that would leave the exact range
reads a clamped value, or sums in a wider type. Integers may be anything where they are computed in their own type, in
which they wrap around. NaN and infinities may be among the floats. *Ragged* tensors hold any number of their type;
operations round their elements to integers, but for those of `conversions.py`, which round once. Only graphs with
intrinsics (`exact=False`) round, and are compared with a tolerance.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz import dtypes, values
from pegbox import te
from pegbox.compute.tensor import Tensor
from pegbox.expr.dtypes import is_float

Element = Callable[..., Any]
"""An element expression as a function of indices."""


@dataclass(frozen=True)
class Scale:
    """Extents of axes (`small` for tensors of rank 3), the most elements of a tensor and iterations of a stage."""

    sizes: tuple[int, ...]
    small: tuple[int, ...]
    elements: int
    work: int


SMALL = Scale((1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17), (1, 2, 3, 5, 7), 250, 1500)
"""Sums of 250 numbers up to 8 are exact in float16."""
LONG = Scale(
    (1, 2, 3, 5, 8, 17, *(k * w + tail for w in (4, 8, 16, 32, 64) for k in (1, 2, 3, 7) for tail in (0, 1, 1, -1)),
     1023, 1025, 2049, 3001, 4097),
    (1, 2, 3, 5, 9, 17, 33), 5000, 40_000,
)  # fmt: skip
"""Multiples of the lanes of vectors, one more and one less. Too much for an interpreter, nothing for machine code."""


class Inexact(Exception):
    """An operation would leave the range in which floats are exact."""


@dataclass(frozen=True)
class Graph:
    """`tensors` in call order: inputs, then outputs.

    Attributes:
        exact: no rounding depends on the order of evaluation.
        signed_zeros: nor does the sign of a zero.
        contents: the kinds of numbers in inputs (`values.py`); small integers by default.
        foreign: functions of C or Python are called, which interpreters cannot run.
        ragged: some values are no integers.
    """

    kind: str
    tensors: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    exact: bool = True
    signed_zeros: bool = False
    contents: dict[Tensor, str] = field(default_factory=dict)
    scale: Scale = SMALL
    foreign: bool = False
    ragged: bool = False

    def inputs(self, seed: int = 0, *, small: bool = False) -> dict[Tensor, NDArray[Any]]:
        """Arrays for the inputs, of small integers alone or of the kinds of numbers that were drawn."""
        rng = np.random.default_rng(seed)
        kinds = {t: values.SMALL if small else self.contents.get(t, values.SMALL) for t in self.tensors}
        return {t: values.contents(rng, t.dtype, t.shape, kinds[t]) for t in self.tensors if t not in self.outputs}

    def __str__(self) -> str:
        """The inputs, and what each stage computes."""
        given = [f"  {t.name}: {t.dtype}{list(t.shape)} {self.contents.get(t, values.SMALL)}"
                 for t in self.tensors if t not in self.outputs]  # fmt: skip
        lines = []
        for op in te.create_schedule([t.op for t in self.outputs]).stages:
            indices, bodies = (
                ", ".join(iv.name for iv in op.op.axis),
                op.op.body or ("a statement",) * len(op.op.outputs),
            )
            lines += [f"  {t.name}[{indices}] : {t.dtype}{list(t.shape)} = {body}"
                      for t, body in zip(op.op.outputs, bodies, strict=True)]  # fmt: skip
        return "\n".join([f"{self.kind}:", *given, *lines])


@dataclass
class Drawing:
    """The tensors so far, and the largest magnitude that each may hold.

    Attributes:
        rough: went through an intrinsic, so that they are rounded.
        special: may hold NaN, and infinities whatever the bound.
        ragged: may hold what is no integer.
        final: are outputs only: what reads them might be fused with their last rounding.
    """

    rng: random.Random
    scale: Scale = SMALL
    bounds: dict[Tensor, int] = field(default_factory=dict)
    contents: dict[Tensor, str] = field(default_factory=dict)
    rough: set[Tensor] = field(default_factory=set)
    special: set[Tensor] = field(default_factory=set)
    ragged: set[Tensor] = field(default_factory=set)
    final: set[Tensor] = field(default_factory=set)
    stages: int = 0
    signed_zeros: bool = True
    foreign: bool = False

    @property
    def inputs(self) -> list[Tensor]:
        return list(self.contents)

    def fresh(self, shape: Sequence[int], dtype: str) -> Tensor:
        """A new input."""
        tensor = te.placeholder(tuple(shape), dtype, f"X{len(self.contents)}")
        kinds = [values.SMALL, values.SPECIAL, values.ANY] if is_float(dtype) else [values.SMALL, values.ANY]
        kind = self.rng.choice(kinds) if self.rng.random() < 0.5 else values.SMALL
        self.contents[tensor] = kind
        self.bounds[tensor] = dtypes.UNBOUNDED if kind == values.ANY else 4
        if kind != values.SMALL and is_float(dtype):
            self.special.add(tensor)
            if kind == values.ANY:
                self.ragged.add(tensor)
        return tensor

    def add(self, shape: Sequence[int], body: Element, bound: int, *, moved: Tensor | None = None) -> Any:
        """A new stage, whose elements are integers up to `bound`, or elements of the tensor `moved` as they are.

        Raises:
            Inexact: integers up to the bound are not all numbers of its type.
        """
        made = te.compute(tuple(shape), body, f"S{self.stages + 1}")
        return self.take(made, bound, moved=moved)

    def take(self, made: Any, bound: int, *, moved: Tensor | None = None) -> Any:
        """Note what a stage holds; see `add`."""
        several, bound = made if isinstance(made, tuple | list) else (made,), min(bound, dtypes.UNBOUNDED)
        sources = several[0].op.inputs
        ragged = moved in self.ragged or (bound == dtypes.UNBOUNDED and moved is None)
        for tensor in several:
            if not ragged and bound < dtypes.UNBOUNDED and bound > dtypes.exact_to(tensor.dtype):
                raise Inexact
            self.bounds[tensor] = bound
            if any(t in self.rough for t in sources):
                self.rough.add(tensor)
            if is_float(tensor.dtype):
                if ragged or any(t in self.special for t in sources):  # 0 / 0 and sums of infinities are NaN
                    self.special.add(tensor)
                if ragged:
                    self.ragged.add(tensor)
        self.stages += 1
        return made

    def some(self, *, exact: bool = False) -> Tensor:
        """A tensor that is there, no scalar; a late one more often than not."""
        choices = [
            t
            for t in self.bounds
            if t.shape and t.dtype != "bool" and t not in self.final and not (exact and t in self.rough)
        ]
        if not choices:
            return self.fresh(self.shape(), "float32")
        return choices[-1] if self.rng.random() < 0.6 else self.rng.choice(choices)

    def factor(self, tensor: Tensor, dtype: str) -> Element:
        """An element as an integer up to 4 of another type, into which NaN can be converted or is not there."""
        get = self.plain(tensor, 4) if is_float(tensor.dtype) and not is_float(dtype) else self.calm(tensor, 4)
        return lambda *i: dtypes.cast(dtype, get(*i))

    def near(self, dtype: str) -> str:
        """The same type more often than another one."""
        return dtype if self.rng.random() < 0.6 else dtypes.draw(self.rng)

    def calm(self, tensor: Tensor, limit: int = 16) -> Element:
        """An element as an integer of small magnitude. NaN stays."""
        if self.bounds[tensor] <= limit:
            return lambda *i: tensor[i]
        clamped = self._clamped(tensor, limit)
        return (lambda *i: te.round(clamped(*i))) if tensor in self.ragged else clamped

    def plain(self, tensor: Tensor, limit: int = 16) -> Element:
        """An element as a finite integer of small magnitude."""
        if tensor not in self.special:
            return self.calm(tensor, limit)
        clamped, zero = self._clamped(tensor, limit), te.const(0, tensor.dtype)
        return lambda *i: te.select(te.isnan(tensor[i]), zero, te.round(clamped(*i)))

    def _clamped(self, tensor: Tensor, limit: int) -> Element:
        low, high = (te.const(n, tensor.dtype) for n in (dtypes.lowest(tensor.dtype, limit), limit))
        return lambda *i: te.maximum(te.minimum(tensor[i], high), low)

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        rng, scale = self.rng, self.scale
        rank = rank or rng.choice((1, 2, 2, 2, 3))
        while True:
            shape = tuple(rng.choice(scale.sizes if rank < 3 else scale.small) for _ in range(rank))
            if prod(shape) <= scale.elements:
                return shape

    def size(self) -> int:
        """An extent."""
        return self.rng.choice(self.scale.sizes)

    def view(self, shape: Sequence[int], tensor: Tensor) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
        """Legal indices into `tensor` for each point of `shape`: straight, broadcast, reversed, wrapped, stretched."""
        rng = self.rng
        axes = list(range(len(shape)))
        if rng.random() < 0.25:
            rng.shuffle(axes)
        axes = axes[-len(tensor.shape) :] if len(axes) >= len(tensor.shape) else axes
        picks: list[Callable[[Sequence[Any]], Any]] = []
        for dim, extent in enumerate(tensor.shape):
            at = dim - (len(tensor.shape) - len(axes))
            picks.append(_constant(rng, extent) if at < 0 else _pick(rng, axes[at], shape[axes[at]], extent))
        return lambda i: tuple(pick(i) for pick in picks)


def _constant(rng: random.Random, extent: int) -> Callable[[Sequence[Any]], Any]:
    value = rng.randrange(extent)
    return lambda i: value


def _pick(rng: random.Random, axis: int, there: int, extent: int) -> Callable[[Sequence[Any]], Any]:
    """An index below `extent` that follows an axis of `there` values."""
    choices: list[Callable[[Sequence[Any]], Any]] = []
    if there <= extent:
        shift = rng.randint(0, extent - there)
        choices += [lambda i: i[axis]] * 4 + [lambda i: i[axis] + shift, lambda i: extent - 1 - i[axis]]
        if there > 1 and (stride := (extent - 1) // (there - 1)) > 1:
            choices += [lambda i: i[axis] * stride] * 2
    else:
        stretch = -(-there // extent)
        choices += [lambda i: i[axis] % extent, lambda i: i[axis] // stretch, lambda i: te.minimum(i[axis], extent - 1)]
    return rng.choice(choices)
