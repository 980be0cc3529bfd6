"""Random compute graphs, drawn operation by operation on whatever tensors are there already."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress

from fuzz import dtypes
from fuzz.conversions import convert, extremes, raw
from fuzz.drawing import LONG, SMALL, Drawing, Graph, Inexact
from fuzz.elementwise import binary, division, intrinsic, mask, outputs, scalar, unary, wrapping
from fuzz.externs import extern
from fuzz.rearrangements import concat, gather, pad, reshape, transpose
from fuzz.reductions import normalized, product, reduction, softmax
from fuzz.stencils import border, convolution, stencil
from pegbox.compute.tensor import ComputeOp

Draw = Callable[[Drawing], None]

_OPERATIONS: tuple[tuple[Draw, int], ...] = (
    (unary, 6), (binary, 6), (transpose, 2), (reshape, 2), (pad, 2), (stencil, 4), (border, 2), (concat, 2),
    (gather, 1), (reduction, 6), (product, 5), (convolution, 3), (normalized, 1), (outputs, 2), (division, 1),
    (mask, 2), (scalar, 2), (wrapping, 3), (convert, 6), (raw, 5), (extremes, 1),
)  # fmt: skip
_ROUGH: tuple[tuple[Draw, int], ...] = ((softmax, 15), (intrinsic, 15))
_FOREIGN: tuple[tuple[Draw, int], ...] = ((extern, 20),)
_SIGNED = {transpose, reshape, pad, concat, gather, convert, raw}
"""The operations after which the sign of a zero does not depend on the order of evaluation; `raw` knows itself."""


def draw_graph(rng: random.Random, *, foreign: bool = False) -> Graph:
    """A random graph of mostly two to five stages; a quarter are long. `foreign`: functions of C and Python too."""
    d = Drawing(rng, LONG if rng.random() < 0.25 else SMALL)
    d.fresh(d.shape(), dtypes.draw(rng))
    table, flavour = _OPERATIONS, rng.random()
    if flavour < 0.2:
        table = tuple((operation, weight) for operation, weight in _OPERATIONS if operation in _SIGNED)
    elif flavour < 0.3:
        table += _ROUGH
    if rng.random() < 0.04 and foreign:
        table += _FOREIGN
    operations, weights = zip(*table, strict=True)
    wanted = rng.choice((1, 2, 2, 3, 3, 4, 5))
    for _ in range(4 * wanted):
        if d.stages >= wanted:
            break
        operation = rng.choices(operations, weights)[0]
        with suppress(Inexact):
            operation(d)
        d.signed_zeros &= operation in _SIGNED
    if not d.stages:
        unary(d)
        d.signed_zeros = False
    return _finished(d)


def _finished(d: Drawing) -> Graph:
    """Choose the outputs: all tensors that nothing reads, and at times one that is read."""
    computed = [t for t in d.bounds if isinstance(t.op, ComputeOp)]
    read = {t.buffer for made in computed for t in made.op.inputs}
    outputs = [t for t in computed if t.buffer not in read]
    if d.rng.random() < 0.15:
        outputs += [t for t in [d.rng.choice(computed)] if t not in outputs]
    whole = [t for t in computed if any(t.op is o.op for o in outputs)]  # an operation is an output with all it makes
    used = [t for t in d.inputs if t.buffer in read]
    contents = {t: d.contents[t] for t in used}
    tensors = (*used, *whole)
    return Graph(
        "drawn", tensors, tuple(whole), not d.rough, d.signed_zeros, contents, d.scale, d.foreign, bool(d.ragged)
    )
