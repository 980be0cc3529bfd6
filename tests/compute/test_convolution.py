"""Convolutions and borders of tensors, against NumPy's windows."""

from __future__ import annotations

import numpy as np
import pytest

from pegbox.compute.convolution import convolve, convolve_nhwc, padded
from pegbox.compute.ops import placeholder
from pegbox.compute.reference import evaluate

RNG = np.random.default_rng(7)
IMAGE = RNG.integers(-4, 5, (2, 4, 9, 8)).astype("float32")


def windows(x: np.ndarray, kernel: tuple[int, int], strides: tuple[int, int], dilations: tuple[int, int]) -> np.ndarray:
    """X[n, c, y, x] as [n, c, output y, output x, ky, kx]."""
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    found = np.lib.stride_tricks.sliding_window_view(x, reach, axis=(2, 3))
    return found[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("strides", "dilations"), [((1, 1), (1, 1)), ((2, 3), (1, 1)), ((1, 2), (2, 3))])
def test_convolutions_of_either_layout(strides: tuple[int, int], dilations: tuple[int, int], groups: int) -> None:
    w = RNG.integers(-3, 4, (6, 4 // groups, 3, 2)).astype("float32")
    tiles = windows(IMAGE, (3, 2), strides, dilations)
    n, c, y, x, h, v = tiles.shape
    parts, filters = tiles.reshape(n, groups, c // groups, y, x, h, v), w.reshape(groups, -1, *w.shape[1:])
    wanted = np.einsum("ngcyxhv,gochv->ngoyx", parts, filters).reshape(n, 6, y, x)
    X, W = placeholder(IMAGE.shape, name="X"), placeholder(w.shape, name="W")
    np.testing.assert_array_equal(evaluate([convolve(X, W, strides, dilations, groups)], {X: IMAGE, W: w})[0], wanted)
    if groups == 1:
        nhwc, hwio = IMAGE.transpose(0, 2, 3, 1).copy(), w.transpose(2, 3, 1, 0).copy()
        X, W = placeholder(nhwc.shape, name="X"), placeholder(hwio.shape, name="W")
        (made,) = evaluate([convolve_nhwc(X, W, strides, dilations)], {X: nhwc, W: hwio})
        np.testing.assert_array_equal(made, wanted.transpose(0, 2, 3, 1))


@pytest.mark.parametrize(("before", "after"), [((0, 0, 1, 2), (0, 0, 1, 2)), ((0, 1, 0, 3), (2, 0, 0, 1))])
def test_a_border_has_its_own_width_on_each_side(before: tuple[int, ...], after: tuple[int, ...]) -> None:
    X = placeholder(IMAGE.shape, name="X")
    (made,) = evaluate([padded(X, before, after, 7.0)], {X: IMAGE})
    np.testing.assert_array_equal(made, np.pad(IMAGE, list(zip(before, after, strict=True)), constant_values=7))
    assert padded(X, (0, 0, 0, 0), (0, 0, 0, 0)) is X
