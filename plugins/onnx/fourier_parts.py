"""Fourier transforms as products with a matrix of roots of unity, into which a window is multiplied."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from pegbox.graph import Value
from pegbox.plugins.onnx.graph_builder import GraphBuilder
from pegbox.plugins.onnx.node_parts import NodeParts

Array = NDArray[Any]

_DTYPES = ("float32", "float64")
_LARGEST = 1 << 26
"""The bytes of the largest matrix."""

_CACHED, _ROWS = 1 << 20, 8
"""The bytes of a matrix that caches hold, and the smallest number of rows for which a larger one pays."""


def dft_parts(
    proto: onnx.NodeProto, given: Mapping[int, Value], attributes: Mapping[str, Any], graph: GraphBuilder
) -> Sequence[onnx.NodeProto]:
    """List the nodes that compute a `DFT`.

    Args:
        given: the inputs by their places.
        graph: the graph to which constants are added.

    Returns:
        No nodes for a transform that is computed as a whole: of short floats, with sizes that are not constants,
            without an axis if versions of the operator differ, or with too large a matrix; nor for one that cannot be
            computed.
    """
    x, numbers = given[0], _numbers(given, (1, 2), graph)
    if numbers is None or len(x.shape) < 2:
        return ()
    axis = numbers.get(2, attributes.get("axis", 1 if len(x.shape) == 3 else None))
    inverse, onesided = attributes.get("inverse", 0), attributes.get("onesided", 0)
    if axis is None or not -len(x.shape) <= axis < len(x.shape) - 1 or x.shape[-1] > 2:
        return ()
    axis %= len(x.shape)
    extent, parts = x.shape[axis], x.shape[-1]
    real = inverse and onesided
    length = numbers.get(1, 2 * (extent - 1) if real else extent)
    used = min(extent, length // 2 + 1 if real else length)
    if length < 1 or not _is_worth(
        x, math.prod(x.shape) // (extent * parts), used * parts, length if onesided else 2 * length
    ):
        return ()
    made = NodeParts(next(filter(None, proto.output)), graph)
    order = [*(n for n in range(len(x.shape) - 1) if n != axis), axis, len(x.shape) - 1]
    source = proto.input[0] if order == sorted(order) else made.add("Transpose", proto.input[0], perm=order)
    if used < extent:
        source = made.add("Gather", source, made.array(np.arange(used)), axis=-2)
    matrix = _matrix(used, parts, length, inverse=inverse, onesided=onesided).astype(x.dtype)
    shape = [x.shape[n] for n in order[:-2]]
    _add_product(made, source, [*shape, -1, 1 if real else 2], matrix)
    if order != sorted(order):
        made.add("Transpose", made.nodes[-1].output[0], perm=np.argsort(order).tolist())
    made.nodes[-1].output[0] = proto.output[0]
    return made.nodes


def stft_parts(
    proto: onnx.NodeProto, given: Mapping[int, Value], attributes: Mapping[str, Any], graph: GraphBuilder
) -> Sequence[onnx.NodeProto]:
    """List the nodes that compute an `STFT`: the frames, and their transforms. Arguments and result are as above."""
    x, numbers = given[0], _numbers(given, (1, 3), graph)
    window = graph.array_of(given[2]) if 2 in given else None
    if numbers is None or 1 not in numbers or len(x.shape) not in (2, 3) or (2 in given and window is None):
        return ()
    length = numbers.get(3, None if window is None else window.size)
    parts = x.shape[2] if len(x.shape) == 3 else 1
    if length is None or parts > 2 or not 0 < length <= x.shape[1] or numbers[1] < 1:
        return ()
    starts = np.arange(0, x.shape[1] - length + 1, numbers[1])
    onesided = attributes.get("onesided", 1)
    if not _is_worth(x, x.shape[0] * len(starts), length * parts, length if onesided else 2 * length):
        return ()
    matrix = _matrix(length, parts, length, onesided=onesided)
    if window is not None:
        matrix *= np.repeat(window.astype("float64"), parts)[:, None]
    made = NodeParts(next(filter(None, proto.output)), graph)
    frames = made.add("Gather", proto.input[0], made.array(starts[:, None] + np.arange(length)), axis=1)
    _add_product(made, frames, [x.shape[0], len(starts), -1, 2], matrix.astype(x.dtype))
    made.nodes[-1].output[0] = proto.output[0]
    return made.nodes


def _numbers(given: Mapping[int, Value], places: Sequence[int], graph: GraphBuilder) -> dict[int, int] | None:
    """Return the numbers in inputs, by their places; None if one is not a constant."""
    arrays = {place: graph.array_of(given[place]) for place in places if place in given}
    numbers = {place: int(array.item()) for place, array in arrays.items() if array is not None and array.size == 1}
    return numbers if len(numbers) == len(arrays) else None


def _is_worth(x: Value, rows: int, inputs: int, outputs: int) -> bool:
    """Decide if a product is faster than sums with factors from a table."""
    size = inputs * outputs * np.dtype(x.dtype).itemsize if x.dtype in _DTYPES else math.inf
    return size <= (_LARGEST if rows >= _ROWS else _CACHED)


def _matrix(extent: int, parts: int, length: int, *, inverse: int = 0, onesided: int = 0) -> Array:
    """Return the matrix [extent * parts, outputs * 2] of a transform, [.., length] of an inverse one of one side.

    It is the transform of the unit vectors, whose real and imaginary parts are neighbours.
    """
    units = np.eye(extent * parts).reshape(extent * parts, extent, parts)
    values = units[..., 0] + 1j * units[..., 1] if parts == 2 else units[..., 0]
    if inverse and onesided:
        return np.asarray(np.fft.irfft(values, length))
    transform = np.fft.ifft if inverse else np.fft.fft
    found = transform(values, length)[:, : length // 2 + 1 if onesided else length]
    return np.stack([found.real, found.imag], -1).reshape(extent * parts, -1)


def _add_product(made: NodeParts, source: str, shape: Sequence[int], matrix: Array) -> None:
    """Multiply rows [.., extent, parts] by a matrix; `shape` is that of the result."""
    rows = made.add("Reshape", source, made.array(np.array([*shape[:-2], matrix.shape[0]])))
    product = made.add("MatMul", rows, made.array(matrix))
    made.add("Reshape", product, made.array(np.array(shape)))
