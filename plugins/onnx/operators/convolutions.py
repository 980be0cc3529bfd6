"""Convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pegbox import te
from pegbox.compute import convolve, elementwise, flat_index, padded
from pegbox.plugins.onnx.operator import Array, OperatorNode, operator
from pegbox.plugins.onnx.operators.casts import converted, in_float32, sum_type
from pegbox.plugins.onnx.operators.computed import computed
from pegbox.plugins.onnx.operators.slices import joined, sliced
from pegbox.plugins.onnx.operators.windows import windows_of


def convolution(node: OperatorNode, x: te.Tensor, w: te.Tensor) -> te.Tensor:
    """Convolve X[n, c, *spatial] with W[o, c / groups, *kernel]."""
    groups = node.get("group", 1)
    node.require_shape("W", w.shape, (max(1, w.shape[0] // groups) * groups, x.shape[1] // groups, *w.shape[2:]))
    node.require_shape("X", x.shape, (x.shape[0], w.shape[1] * groups, *x.shape[2:]))
    windows = windows_of(node, x.shape[2:], w.shape[2:])
    around = padded(x, (0, 0, *windows.before), (0, 0, *windows.after))
    return convolve(around, w, windows.strides, windows.dilations, groups)


@operator("Conv")
@in_float32
def conv(node: OperatorNode, x: te.Tensor, w: te.Tensor, b: te.Tensor | None = None) -> te.Tensor:
    made = convolution(node, x, w)
    return made if b is None else _biased(node, made, b)


@operator("ConvTranspose")
@in_float32
def conv_transpose(node: OperatorNode, x: te.Tensor, w: te.Tensor, b: te.Tensor | None = None) -> te.Tensor:
    n, c, *spatial = x.shape
    per, kernel, groups, rank = w.shape[1], list(w.shape[2:]), node.get("group", 1), x.ndim - 2
    node.require_shape("X", x.shape, (n, max(1, w.shape[0] // groups) * groups, *spatial))
    strides, dilations = (node.get(name) or [1] * rank for name in ("strides", "dilations"))
    sides = list(zip(spatial, kernel, strides, dilations, strict=True))
    before, shape = _cut(node, [s * (e - 1) + (k - 1) * d + 1 for e, k, s, d in sides], spatial, strides)
    inner = c // groups
    offsets = [te.reduce_axis((0, k), name=f"r{d}") for d, k in enumerate(kernel)]
    rc = te.reduce_axis((0, inner), name="rc")
    apart = (
        kernel == list(strides) and not any(before) and shape == [e * s for e, s in zip(spatial, strides, strict=True)]
    )

    def channels(o: Any) -> tuple[Any, Any]:
        return (rc, o) if groups == 1 else (te.floordiv(o, per) * inner + rc, te.floormod(o, per))

    if apart:  # disjoint windows: each output has one input

        def alone(i: Any, o: Any, *at: Any) -> Any:
            channel, own = channels(o)
            pixel = [te.floordiv(p, s) for p, s in zip(at, strides, strict=True)]
            weight = w(channel, own, *(te.floormod(p, s) for p, s in zip(at, strides, strict=True)))
            return te.sum(x(i, channel, *pixel) * weight, axis=rc)

        made = computed((n, per * groups, *shape), alone, name="ConvTranspose")
        return made if b is None else _biased(node, made, b)
    borders = [(k - 1) * d - low for k, d, low in zip(kernel, dilations, before, strict=True)]

    def spread(i: Any, f: Any, *at: Any) -> Any:
        tests, pixel = [], []
        for p, border, e, s in zip(at, borders, spatial, strides, strict=True):
            place = p - border
            tests += [place >= 0, place < (e - 1) * s + 1] + ([te.floormod(place, s).equal(0)] if s > 1 else [])
            pixel.append(te.floordiv(place, s) if s > 1 else place)
        return te.if_then_else(te.all(*tests), x(i, f, *pixel), te.const(0, x.dtype))

    wide = [e + (k - 1) * d for e, k, d in zip(shape, kernel, dilations, strict=True)]
    dilated = computed((n, c, *wide), spread, name="dilated")

    def element(i: Any, o: Any, *at: Any) -> Any:
        channel, own = channels(o)
        pixel = [p + r * d for p, r, d in zip(at, offsets, dilations, strict=True)]
        turned = [k - 1 - r for k, r in zip(kernel, offsets, strict=True)]
        return te.sum(dilated(i, channel, *pixel) * w(channel, own, *turned), axis=[rc, *offsets])

    made = computed((n, per * groups, *shape), element, name="ConvTranspose")
    return made if b is None else _biased(node, made, b)


def _cut(
    node: OperatorNode, full: Sequence[int], spatial: Sequence[int], strides: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return the number of elements to drop before each axis of a transposed convolution, and the remaining extents."""
    rank = len(full)
    extra = node.get("output_padding") or [0] * rank
    longer = [f + o for f, o in zip(full, extra, strict=True)]
    auto, wanted = node.get("auto_pad", "NOTSET"), node.get("output_shape")
    if wanted is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [e * s for e, s in zip(spatial, strides, strict=True)]
    if wanted is None:
        pads = list(node.get("pads") or [0] * (2 * rank))
        return pads[:rank], [f - pads[d] - pads[d + rank] for d, f in enumerate(longer)]
    totals = [max(f - o, 0) for f, o in zip(longer, wanted[-rank:], strict=True)]
    return [t // 2 if auto == "SAME_UPPER" else t - t // 2 for t in totals], list(wanted[-rank:])


def _biased(node: OperatorNode, x: te.Tensor, b: te.Tensor) -> te.Tensor:
    node.require_shape("B", b.shape, x.shape[1:2])
    return computed(x.shape, lambda n, c, *at: x(n, c, *at) + b(c), name="biased")


@operator("Col2Im", constants=(1, 2))
def col2im(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    image, block = node.numbers(1), node.numbers(2)
    rank = len(image)
    strides, dilations = (node.get(name) or [1] * rank for name in ("strides", "dilations"))
    pads = node.get("pads") or [0] * (2 * rank)
    counts = [
        (e + pads[d] + pads[d + rank] - dilations[d] * (block[d] - 1) - 1) // strides[d] + 1
        for d, e in enumerate(image)
    ]
    offsets = [te.reduce_axis((0, k), name=f"r{d}") for d, k in enumerate(block)]
    size = math.prod(block)

    def element(n: Any, c: Any, *at: Any) -> Any:
        tests, windows = [], []
        for d, (p, r) in enumerate(zip(at, offsets, strict=True)):
            place = p + pads[d] - r * dilations[d]
            window = te.floordiv(place, strides[d])
            tests += [place >= 0, te.floormod(place, strides[d]).equal(0), window < counts[d]]
            windows.append(te.maximum(te.minimum(window, counts[d] - 1), 0))
        value = x(n, c * size + flat_index(block, offsets), flat_index(counts, windows))
        return te.sum(te.if_then_else(te.all(*tests), value, te.const(0, x.dtype)), axis=offsets)

    return computed((x.shape[0], x.shape[1] // size, *image), element, name="Col2Im")


@operator("CausalConvWithState", empty=True)
def causal_conv(
    node: OperatorNode, x: te.Tensor, w: te.Tensor, b: te.Tensor | None = None, past: te.Tensor | None = None
) -> list[te.Tensor | Array]:
    before = w.shape[2] - 1
    around = padded(x, (0, 0, before), (0, 0, 0)) if past is None else joined([past, x], 2)
    k = te.reduce_axis((0, w.shape[2]), name="k")
    wide = sum_type(x.dtype)

    def element(n: Any, c: Any, i: Any) -> Any:
        return te.sum(te.cast(wide, around(n, c, i + k)) * te.cast(wide, w(c, 0, k)), axis=k)

    made = computed(x.shape, element, name="conv")
    made = converted(made if b is None else _biased(node, made, b), x.dtype)
    if node.get("activation", "none") != "none":

        def silu(e: Any) -> Any:
            return te.cast(x.dtype, te.cast(wide, e) * te.sigmoid(te.cast(wide, e)))

        made = elementwise(silu, made, name="silu")
    return [made, sliced(around, 2, around.shape[2] - before, before, name="state")]
