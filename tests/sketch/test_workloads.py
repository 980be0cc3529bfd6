"""The workloads that come with pegbox: what they compute, and the arguments that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox.compute.reference import evaluate
from pegbox.compute.tensor import PlaceholderOp
from pegbox.errors import ArgumentError
from pegbox.task.workload import find_workload


def _result(name: str, *args: Any, inputs: list[np.ndarray], **kwargs: Any) -> np.ndarray:
    *given, out = find_workload(name).tensors(*args, **kwargs)
    return evaluate([out], dict(zip(given, inputs, strict=True)))[0]


def _arrays(name: str, *args: Any) -> list[np.ndarray]:
    """Random inputs of a workload, all of float32."""
    generator = np.random.default_rng(1)
    return [
        generator.standard_normal(t.shape).astype("float32")
        for t in find_workload(name).tensors(*args)
        if isinstance(t.op, PlaceholderOp)
    ]


def _convolved(x: np.ndarray, w: np.ndarray, stride: int, padding: int, dilation: int, groups: int) -> np.ndarray:
    """A convolution, window by window."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    (n, _, rows, columns), (o, c, k, _) = x.shape, w.shape
    reach = dilation * (k - 1) + 1
    out = np.zeros((n, o, (rows - reach) // stride + 1, (columns - reach) // stride + 1), "float32")
    for f, i, j in np.ndindex(out.shape[1:]):
        first = f // (o // groups) * c
        down, along = slice(i * stride, i * stride + reach, dilation), slice(j * stride, j * stride + reach, dilation)
        out[:, f, i, j] = (x[:, first : first + c, down, along] * w[f]).sum(axis=(1, 2, 3))
    return out


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "float32", "float64"])
def test_the_border_of_max_pooling_is_never_the_largest(dtype: str) -> None:
    lowest = -np.inf if dtype.startswith("float") else np.iinfo(dtype).min
    image = np.full((1, 1, 4, 4), lowest, dtype)
    pooled = _result("max_pool2d", 1, 1, 4, 4, 3, 2, 1, dtype, inputs=[image])
    np.testing.assert_array_equal(pooled, np.full((1, 1, 2, 2), lowest, dtype))


def test_max_pooling_of_integers_below_those_of_eight_bits() -> None:
    image = np.full((1, 1, 4, 4), -1000, "int32")
    task = pb.create_task("max_pool2d", (1, 1, 4, 4, 3, 2, 1, "int32"), space="sketch", target="llvm -num-cores 1")
    out = np.zeros((1, 1, 2, 2), "int32")
    pb.build(task, config=next(iter(task.space.iterate())))(image, out)
    assert out.tolist() == [[[[-1000, -1000], [-1000, -1000]]]]


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups"), [(1, 0, 1, 1), (2, 1, 1, 2), (1, 2, 2, 4), (3, 3, 1, 1)]
)
def test_conv2d_is_a_convolution(stride: int, padding: int, dilation: int, groups: int) -> None:
    args = (2, 4, 7, 8, 8, 3, stride, padding, dilation, groups)
    x, w = _arrays("conv2d", *args)
    wanted = _convolved(x, w, stride, padding, dilation, groups)
    np.testing.assert_allclose(_result("conv2d", *args, inputs=[x, w]), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("y", "x", "padding"), [(4, 6, 0), (4, 6, 1), (2, 2, 1), (6, 4, 2)])
def test_winograd_s_convolution_is_a_convolution(y: int, x: int, padding: int) -> None:
    args = (2, 3, y, x, 4, padding)
    data, filters = _arrays("conv2d_winograd", *args)
    wanted = _convolved(data, filters, 1, padding, 1, 1)
    np.testing.assert_allclose(_result("conv2d_winograd", *args, inputs=[data, filters]), wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("stride", "padding"), [(1, 0), (2, 1), (3, 2)])
def test_a_transposed_convolution_spreads_each_input(stride: int, padding: int) -> None:
    args = (1, 2, 4, 3, 3, 3, stride, padding)
    x, w = _arrays("conv2d_transposed", *args)
    full = np.zeros((1, 3, 3 * stride + 3, 2 * stride + 3), "float32")
    for i, j in np.ndindex(4, 3):
        full[0, :, i * stride : i * stride + 3, j * stride : j * stride + 3] += np.tensordot(x[0, :, i, j], w, axes=1)
    wanted = full[:, :, padding : full.shape[2] - padding, padding : full.shape[3] - padding]
    np.testing.assert_allclose(_result("conv2d_transposed", *args, inputs=[x, w]), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("conv2d_winograd", (1, 3, 5, 6, 4), r"y=5 with padding=1 gives 5 outputs, .*give an even y"),
        ("conv2d_winograd", (1, 3, 4, 7, 4), r"x=7 .*even x, or the workload conv2d"),
        ("conv2d_winograd", (1, 3, 2, 2, 4, 0), r"k=3: a window spans 3 .*padding=0 only 2"),
        ("conv2d_winograd", (1, 3, 4, 4, 4, -1), r"padding=-1 is out of range; give an integer >= 0"),
        ("conv2d", (1, 4, 8, 8, 6, 3, 1, 1, 1, 4), r"groups=4 does not divide c=4 and o=6; give a divisor of both"),
        ("conv2d", (1, 3, 8, 8, 4, 3, 1, 1, 1, 2), r"groups=2 does not divide c=3"),
        ("conv2d", (1, 4, 8, 8, 4, 3, 1, 1, 1, 0), r"groups=0 is out of range"),
        ("conv2d", (1, 4, 8, 8, 4, 3, 0), r"stride=0 is out of range"),
        ("conv2d", (1, 4, 8, 8, 4, 3, 1.5), r"stride=1.5 is not an integer"),
        ("conv2d", (1, 4, 8, 8, 4, 3, 1, -1), r"padding=-1 is out of range"),
        ("conv2d", (1, 4, 8, 8, 4, 3, 1, 0, 0), r"dilation=0 is out of range"),
        ("conv2d", (1, 4, 8, 8, 4, 9), r"k=9: a window spans 9 .*only 8 .*smaller k, more padding or a larger input"),
        ("conv2d", (1, 4, 8, 8, 4, 3, 1, 0, 4), r"k=3: a window spans 9 elements \(dilation=4\)"),
        ("conv1d", (1, 4, 8, 4, 9), r"k=9"),
        ("conv2d_nhwc", (1, 8, 8, 4, 4, 9), r"k=9"),
        ("conv2d_nhwc", (1, 8, 8, 4, 4, 3, 1, -2), r"padding=-2"),
        ("conv3d", (1, 4, 8, 8, 2, 4, 3), r"k=3: .*only 2"),
        ("depthwise_conv2d", (1, 4, 8, 8, 3, -1), r"stride=-1"),
        ("conv2d_bn_relu", (1, 4, 8, 8, 4, 3, 0), r"stride=0"),
        ("conv2d_transposed", (1, 4, 8, 8, 4, 3, 2, 3), r"padding=3 is out of range; give an integer from 0 to 2"),
        ("conv2d_transposed", (1, 4, 8, 8, 4, 3, 0), r"stride=0"),
        ("conv2d_transposed", (1, 4, 1, 8, 4, 3, 2, 2), r"padding=2 leaves no outputs of 1 x 8 inputs"),
        ("max_pool2d", (1, 4, 8, 8, 2, 2, 2), r"padding=2 is out of range; give an integer from 0 to 1"),
        ("max_pool2d", (1, 4, 8, 8, 0), r"k=0"),
        ("max_pool2d", (1, 4, 8, 8, 9), r"k=9: a window spans 9"),
        ("avg_pool2d", (1, 4, 8, 8, 3, 0), r"stride=0"),
        ("avg_pool2d", (1, 4, 8, 8, 3, 1, 3), r"padding=3"),
        ("avg_pool2d", (1, 4, 8, 8, 3, 1, 1, "int32"), r"dtype='int32' .*give a float type"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(name: str, args: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        find_workload(name).tensors(*args)
