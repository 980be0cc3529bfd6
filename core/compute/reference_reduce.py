"""Reductions in the NumPy reference: NumPy's own if there is one, otherwise a tree of combinations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pegbox.compute.reducer import Reduce, Reducer
from pegbox.compute.reference_grid import Arrays, Evaluator, Grid
from pegbox.expr import dtypes
from pegbox.expr.build import TRUE
from pegbox.expr.nodes import Binary, Expr, Var

Array = NDArray[Any]

# Grid points evaluated at once: about eight temporary arrays of 8-byte numbers live together, 256 MiB in all.
CHUNK = 1 << 22

_UFUNCS: dict[str, np.ufunc] = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


class Combiner:
    """The combination of two arrays of partial results, and the reduction of an array along its last dimension.

    Sums and products of floats are accumulated in float64 and those of integers in 64 bits, of which the low ones are
    those of every narrower type; user-made combinations happen in the types of their values, neighbours first, so
    that the left-to-right order of a plain loop is kept.
    """

    def __init__(self, reducer: Reducer, types: tuple[str, ...]) -> None:
        self.types = types
        self.left = tuple(Var(f"a{i}", t) for i, t in enumerate(types))
        self.right = tuple(Var(f"b{i}", t) for i, t in enumerate(types))
        self.parts: tuple[Expr, ...] = reducer.combine(self.left, self.right)
        self.op: str | None = None
        """The operation of NumPy that this is, if it is one."""
        match self.parts:
            case [Binary(op, a, b)] if op in _UFUNCS and {id(a), id(b)} == {id(self.left[0]), id(self.right[0])}:
                self.op = op
        scalar = Evaluator(Grid((), ()), {})
        self.identity = [scalar.value(e).astype(t) for e, t in zip(reducer.identity(types), types, strict=True)]

    @classmethod
    def of(cls, reduce: Reduce) -> Combiner:
        return cls(reduce.reducer, tuple(source.dtype for source in reduce.sources))

    def start(self, shape: tuple[int, ...]) -> list[Array]:
        """Arrays full of the identity, in the types in which this accumulates."""
        return [np.full(shape, value, self._accumulator(t)) for value, t in zip(self.identity, self.types, strict=True)]

    def _accumulator(self, dtype: str) -> str:
        return dtypes.accumulator(dtype) if self.op in ("add", "mul") else dtype

    def combine(self, a: list[Array], b: list[Array]) -> list[Array]:
        if self.op is not None:
            return [_UFUNCS[self.op](a[0], b[0])]
        bindings = dict(zip((*self.left, *self.right), (*a, *b), strict=True))
        evaluator = Evaluator(Grid((), ()), {}, bindings)
        shape = np.broadcast_shapes(*(v.shape for v in (*a, *b)))
        return [np.broadcast_to(evaluator.value(e), shape) for e in self.parts]

    def reduce(self, values: list[Array]) -> list[Array]:
        """Reduce along the last dimension, which is not empty."""
        if self.op is not None:
            accumulator = self._accumulator(self.types[0])
            return [np.asarray(_UFUNCS[self.op].reduce(values[0], axis=-1, dtype=accumulator))]
        while (n := values[0].shape[-1]) > 1:
            even = n - n % 2
            pairs = self.combine([v[..., 0:even:2] for v in values], [v[..., 1:even:2] for v in values])
            values = [np.concatenate([p, v[..., even:]], axis=-1) for p, v in zip(pairs, values, strict=True)]
        return [v[..., 0] for v in values]


def reduce_grid(reduce: Reduce, spatial: Grid, arrays: Arrays, out: list[Array]) -> None:
    """Fill `out` (whole arrays) over the points of `spatial`, a block at a time."""
    combiner, every = Combiner.of(reduce), Grid.of(reduce.axes)
    for outer in spatial.blocks(max(CHUNK // every.size, 1)):
        result = combiner.start(outer.shape)
        for inner in every.blocks(CHUNK):
            evaluator = Evaluator(outer + inner, arrays)
            mask = None if reduce.condition is TRUE else evaluator.full(reduce.condition)
            values = [evaluator.full(source, mask) for source in reduce.sources]
            if mask is not None:
                values = [np.where(mask, v, i) for v, i in zip(values, combiner.identity, strict=True)]
            partial = combiner.reduce([v.reshape(*outer.shape, inner.size) for v in values])
            result = combiner.combine(result, partial)
        for array, value in zip(out, result, strict=True):
            array[outer.slices] = value.astype(array.dtype)
