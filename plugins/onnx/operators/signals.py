"""Operators of signals: windows, Fourier transforms, and filters of frequencies."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pegbox import te
from pegbox.plugins.onnx.operator import Array, OperatorNode, operator
from pegbox.plugins.onnx.operators.casts import dtype_of
from pegbox.plugins.onnx.operators.computed import computed
from pegbox.plugins.onnx.operators.shapes import Index, at_axis, axis_of


def _window(kind: str, *weights: float) -> None:
    """Register a sum of cosines, whose first weight is that of the constant."""

    @operator(kind, constants=(0,))
    def meaning(node: OperatorNode) -> Array:
        size = int(node.constants[0].item())
        period = size if node.get("periodic", 1) else max(size - 1, 1)
        angles = np.arange(size) * (2 * math.pi / period)
        total = sum(weight * np.cos(n * angles) for n, weight in enumerate(weights))
        return np.asarray(total, dtype_of(node, "output_datatype", "float32"))


_window("HannWindow", 0.5, -0.5)
_window("HammingWindow", 25 / 46, -21 / 46)
_window("BlackmanWindow", 0.42, -0.5, 0.08)


@operator("MelWeightMatrix", constants=(0, 1, 2, 3, 4))
def mel_weight_matrix(node: OperatorNode) -> Array:
    bins, length, rate, low, high = (node.constants[k].item() for k in range(5))
    count = length // 2 + 1
    first, last = (2595 * math.log10(1 + f / 700) for f in (low, high))
    mels = first + (last - first) / (bins + 2) * np.arange(bins + 2)
    edges = 700 * (np.power(10, mels / 2595) - 1)
    edges = ((length + 1) * edges // rate).astype("int64")
    made = np.zeros((count, bins))
    for n, (begin, peak, end) in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
        for place in range(begin, peak + 1):
            made[place, n] = 1.0 if begin == peak else (place - begin) / (peak - begin)
        for place in range(peak, end):
            made[place, n] = (end - place) / (end - peak)
    return made.astype(dtype_of(node, "output_datatype", "float32"))


def _roots(length: int, function: Callable[[Any], Any], sign: int = 1) -> Callable[[Index, Index], Any]:
    """Make a table of the cosines or sines of the angles k n 2 pi / length."""
    step = te.const(sign * 2 * math.pi / length, "float64")
    table = computed((length,), lambda i: function(te.cast("float64", i) * step), name="roots")
    return lambda k, n: table(te.floormod(k * n, length))


def _transform(node: OperatorNode, x: te.Tensor, axis: int, length: int) -> te.Tensor:
    """Transform the axis of X, whose last axis has real and imaginary parts, or only real ones."""
    inverse, onesided = node.get("inverse", 0), node.get("onesided", 0)
    extent, parts = x.shape[axis], x.shape[-1]
    if parts > 2:
        raise node.refuse(f"a last axis of {parts} elements, not of a real part, or a real and an imaginary one")
    short = inverse and onesided  # the remaining frequencies mirror these
    count = length // 2 + 1 if onesided and not inverse else length
    cos, sin = _roots(length, te.cos), _roots(length, te.sin, 1 if inverse else -1)
    n = te.reduce_axis((0, length if short else min(extent, length)), name="n")

    def input_at(at: tuple[Index, ...], part: int) -> Any:
        if not short:
            return x(*at_axis(at[:-1], axis, n), part)
        mirrored = n > length // 2
        place = te.if_then_else(mirrored, length - n, n)
        value = x(*at_axis(at[:-1], axis, te.minimum(place, extent - 1)), part)
        if length // 2 >= extent:  # missing frequencies are 0
            value = te.if_then_else(place < extent, value, te.const(0.0, x.dtype))
        return te.if_then_else(mirrored, -value, value) if part else value

    def element(part: int) -> Callable[..., Any]:
        def total(*at: Index) -> Any:
            k = at[axis]
            c, s = cos(k, n), sin(k, n)
            real = te.cast("float64", input_at(at, 0))
            if parts == 1:
                return te.sum(real * (s if part else c), axis=n)
            imaginary = te.cast("float64", input_at(at, 1))
            return te.sum(real * s + imaginary * c if part else real * c - imaginary * s, axis=n)

        return total

    shape = at_axis(x.shape[:-1], axis, count)
    made = [computed((*shape, 1), element(part), name="part") for part in range(1 if short else 2)]
    scale = te.const(1 / length if inverse else 1.0, "float64")

    def joined(*at: Index) -> Any:
        values = [each(*at[:-1], 0) * scale for each in made]
        return te.cast(x.dtype, values[0] if short else te.if_then_else(at[-1].equal(0), *values))

    return computed((*shape, len(made)), joined, name=node.kind)


@operator("DFT", constants=(1, 2))
def dft(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    axis = axis_of(node, node.scalar(2, "axis", -2 if node.opset >= 20 else 1), x.ndim)
    default = 2 * (x.shape[axis] - 1) if node.get("inverse", 0) and node.get("onesided", 0) else x.shape[axis]
    length = node.scalar(1, "", default)
    if length < 1:
        raise node.refuse(f"dft_length={length}", "give a length of 1 or more")
    return _transform(node, x, axis, length)


@operator("STFT", constants=(1, 3))
def stft(node: OperatorNode, x: te.Tensor, _: None = None, window: te.Tensor | None = None) -> te.Tensor:
    step = node.scalar(1)
    length = node.scalar(3, "", None if window is None else window.shape[0])
    parts = x.shape[2] if x.ndim == 3 else 1
    if step < 1:
        raise node.refuse(f"frame_step={step}", "give the samples between frames, 1 or more")
    count = (x.shape[1] - length) // step + 1

    def frame(b: Index, f: Index, n: Index, part: Index) -> Any:
        value = x(b, f * step + n, part) if x.ndim == 3 else x(b, f * step + n)
        return value if window is None else value * window(n)

    frames = computed((x.shape[0], count, length, parts), frame, name="frames")
    given = OperatorNode(node.name, "STFT", node.opset, {"onesided": node.get("onesided", 1)})
    return _transform(given, frames, 2, length)
