"""topi.testing: what it computes by NumPy is what the operators of its names compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pegbox.compute.reference import evaluate
from pegbox.errors import ComputeError
from pegbox.plugins.tvm import te, topi
from pegbox.plugins.tvm.topi import testing

RNG = np.random.default_rng(3)
nn = topi.nn


def whole(*shape: int) -> Any:
    """An array of small whole numbers, whose sums are exact."""
    return RNG.integers(-4, 5, shape).astype("float32")


def same(operator: Callable[..., te.Tensor], reference: Callable[..., Any], *arrays: Any) -> None:
    inputs = [te.placeholder(a.shape, str(a.dtype), f"X{n}") for n, a in enumerate(arrays)]
    (wanted,) = evaluate([operator(*inputs)], dict(zip(inputs, arrays, strict=True)))
    got = reference(*arrays)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize(("stride", "padding"), [(1, 1), (2, "SAME"), ((2, 1), (0, 1)), ((1, 2), (0, 1, 2, 3))])
def test_convolutions(stride: Any, padding: Any) -> None:
    at = (stride, padding)
    image, filters = whole(2, 4, 6, 7), whole(6, 4, 3, 2)
    last, rows = image.transpose(0, 2, 3, 1), filters.transpose(2, 3, 1, 0)
    same(lambda x, w: nn.conv2d_nchw(x, w, *at, 1), lambda x, w: testing.conv2d_nchw_python(x, w, *at), image, filters)
    same(lambda x, w: nn.conv2d_nhwc(x, w, *at, 1), lambda x, w: testing.conv2d_nhwc_python(x, w, *at), last, rows)
    same(
        lambda x, w: nn.conv2d_hwcn(x, w, *at, 1),
        lambda x, w: testing.conv2d_hwcn_python(x, w, *at),
        image.transpose(2, 3, 1, 0),
        rows,
    )
    same(
        lambda x, w: nn.group_conv2d_nchw(x, w, *at, 1, 2),
        lambda x, w: testing.conv2d_nchw_python(x, w, *at, groups=2),
        image,
        filters[:, :2].copy(),
    )
    own = whole(4, 2, 3, 3)
    same(
        lambda x, w: nn.depthwise_conv2d_nchw(x, w, *at, 1),
        lambda x, w: testing.depthwise_conv2d_python_nchw(x, w, *at),
        image,
        own,
    )
    same(
        lambda x, w: nn.depthwise_conv2d_nhwc(x, w, *at, 1),
        lambda x, w: testing.depthwise_conv2d_python_nhwc(x, w, *at),
        last,
        own.transpose(2, 3, 0, 1),
    )


def test_products() -> None:
    a, b, bias = whole(3, 5), whole(4, 5), whole(4)
    same(nn.dense, lambda x, w, v: testing.dense(x, w, v, use_bias=True), a, b, bias)
    same(lambda x, w: nn.relu(nn.dense(x, w)), lambda x, w: testing.dense(x, w, use_relu=True), a, b)
    same(
        lambda x, w: nn.matmul(x, w, transpose_b=True),
        lambda x, w: testing.matmul(x, w, trans_y=True),
        a,
        b,
    )
    batch = whole(2, 3, 4)
    same(nn.batch_matmul, testing.batch_matmul, batch, batch)
    assert testing.matmul(a.T.copy(), b.T.copy(), bias, "float64", trans_x=True).dtype == "float64"


def test_softmax_and_dilation() -> None:
    x = whole(3, 4)
    same(nn.softmax, testing.softmax_python, x)
    same(nn.log_softmax, testing.log_softmax_python, x)
    same(lambda t: nn.dilate(t, (2, 3), 1.0), lambda t: testing.dilate_python(t, (2, 3), 1.0), x)


def test_a_padding_that_is_none() -> None:
    with pytest.raises(ComputeError, match="give numbers, 'VALID' or 'SAME'"):
        testing.conv2d_nchw_python(whole(1, 1, 4, 4), whole(1, 1, 3, 3), 1, "FULL")
