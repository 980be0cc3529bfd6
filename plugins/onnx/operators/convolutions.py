"""Convolutions."""

from __future__ import annotations

from typing import Any

from pegbox import te
from pegbox.compute import convolve, elementwise, padded
from pegbox.plugins.onnx.operator import OperatorNode, operator
from pegbox.plugins.onnx.operators.windows import windows_of


def convolution(node: OperatorNode, x: te.Tensor, w: te.Tensor) -> te.Tensor:
    """Convolve X[n, c, *spatial] with W[o, c / groups, *kernel]."""
    windows = windows_of(node, x.shape[2:], w.shape[2:])
    around = padded(x, (0, 0, *windows.before), (0, 0, *windows.after))
    return convolve(around, w, windows.strides, windows.dilations, node.get("group", 1))


@operator("Conv")
def conv(node: OperatorNode, x: te.Tensor, w: te.Tensor, b: te.Tensor | None = None) -> te.Tensor:
    made = convolution(node, x, w)
    if b is None:
        return made
    return te.compute(made.shape, lambda n, c, *at: made(n, c, *at) + b(c), name="biased")


@operator("ConvInteger")
def conv_integer(
    node: OperatorNode, x: te.Tensor, w: te.Tensor, zero_x: te.Tensor | None = None, zero_w: te.Tensor | None = None
) -> te.Tensor:
    def shifted(value: te.Tensor, zero: te.Tensor | None) -> te.Tensor:
        if zero is None:
            return elementwise(lambda e: te.cast("int32", e), value, name="wide")
        if zero.ndim == 1 and zero.shape[0] > 1:
            return te.compute(
                value.shape, lambda o, *at: te.cast("int32", value(o, *at)) - te.cast("int32", zero(o)), name="shifted"
            )
        return elementwise(lambda e, z: te.cast("int32", e) - te.cast("int32", z), value, zero, name="shifted")

    return convolution(node, shifted(x, zero_x), shifted(w, zero_w))


@operator("ConvTranspose")
def conv_transpose(node: OperatorNode, x: te.Tensor, w: te.Tensor, b: te.Tensor | None = None) -> te.Tensor:
    n, c, *spatial = x.shape
    groups, rank = node.get("group", 1), x.ndim - 2
    kernel, strides, dilations = list(w.shape[2:]), node.get("strides") or [1] * rank, node.get("dilations") or [1] * rank
    extra = node.get("output_padding") or [0] * rank
    pads = list(node.get("pads") or [0] * (2 * rank))
    full = [
        s * (e - 1) + o + (k - 1) * d + 1 for s, e, o, k, d in zip(strides, spatial, extra, kernel, dilations, strict=True)
    ]
    auto, wanted = node.get("auto_pad", "NOTSET"), node.get("output_shape")
    if wanted is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [e * s for e, s in zip(spatial, strides, strict=True)]
    if wanted is not None:
        totals = [max(f - o, 0) for f, o in zip(full, wanted[-rank:], strict=True)]
        small, large = [t // 2 for t in totals], [t - t // 2 for t in totals]
        pads = small + large if auto != "SAME_LOWER" else large + small
        shape = list(wanted[-rank:])
    else:
        shape = [f - pads[d] - pads[d + rank] for d, f in enumerate(full)]
    per = w.shape[1]
    inner = c // groups
    rc = te.reduce_axis((0, inner), name="rc")
    offsets = [te.reduce_axis((0, k), name=f"r{d}") for d, k in enumerate(kernel)]

    def element(*at: Any) -> Any:
        b_, o, *pixel = at
        tests, places = [], []
        for i, r, s, d, low, e in zip(pixel, offsets, strides, dilations, pads[:rank], spatial, strict=True):
            reach = i + low - r * d
            place = te.floordiv(reach, s) if s > 1 else reach
            tests += [place >= 0, place < e] + ([te.floormod(reach, s).equal(0)] if s > 1 else [])
            places.append(te.maximum(te.minimum(place, e - 1), 0))
        channel = te.floordiv(o, per) * inner + rc if groups > 1 else rc
        value = x(b_, channel, *places) * w(channel, te.floormod(o, per) if groups > 1 else o, *offsets)
        return te.sum(te.if_then_else(te.all_of(tests), value, te.const(0, x.dtype)), axis=[rc, *offsets])

    made = te.compute((n, per * groups, *shape), element, name="ConvTranspose")
    return made if b is None else te.compute(made.shape, lambda i, o, *at: made(i, o, *at) + b(o), name="biased")
