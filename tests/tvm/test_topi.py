"""topi: each operator against NumPy, on small shapes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal, special

import pegbox as pb
from pegbox.compute.reference import evaluate
from pegbox.compute.tensor import Tensor
from pegbox.errors import ComputeError
from pegbox.plugins.tvm import te, topi

RNG = np.random.default_rng(5)
X = RNG.uniform(-2, 2, (3, 4, 5)).astype("float32")
P = np.abs(X) / 2.1 + np.float32(0.01)
IMAGE = RNG.integers(-4, 5, (2, 4, 6, 7)).astype("float32")


def check(make: Callable[..., Any], wanted: Any, *arrays: np.ndarray, exact: bool = False) -> None:
    """Functions make of tensors what NumPy makes of arrays."""
    inputs = [te.placeholder(a.shape, str(a.dtype), f"X{n}") for n, a in enumerate(arrays)]
    made = make(*inputs)
    outputs = [made] if isinstance(made, Tensor) else list(made)
    expected = [wanted] if isinstance(made, Tensor) else list(wanted)
    values = evaluate(outputs, dict(zip(inputs, arrays, strict=True)))
    for got, want in zip(values, expected, strict=True):
        assert got.shape == np.shape(want)
        np.testing.assert_allclose(got, want, rtol=0 if exact else 2e-6, atol=0 if exact else 2e-6)


UNARY: dict[str, Any] = {
    "exp": np.exp, "tanh": np.tanh, "sin": np.sin, "cos": np.cos, "tan": np.tan, "atan": np.arctan, "abs": np.abs,
    "floor": np.floor, "ceil": np.ceil, "round": np.round, "trunc": np.trunc, "erf": special.erf,
    "sigmoid": special.expit, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "sinh": np.sinh,
    "cosh": np.cosh, "asinh": np.arcsinh,
}  # fmt: skip
POSITIVE: dict[str, Any] = {
    "log": np.log, "log2": np.log2, "log10": np.log10, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "asin": np.arcsin, "acos": np.arccos, "atanh": np.arctanh,
}  # fmt: skip


@pytest.mark.parametrize("name", [*UNARY, *POSITIVE])
def test_functions_of_elements(name: str) -> None:
    array = X if name in UNARY else P
    check(getattr(topi, name), {**UNARY, **POSITIVE}[name](array.astype("float64")), array)


BINARY: dict[str, Any] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "maximum": np.maximum,
    "minimum": np.minimum, "power": lambda a, b: np.power(np.abs(a), b),
}  # fmt: skip

shapes = st.sampled_from([(), (4,), (1,), (3, 1), (3, 4), (2, 1, 4), (2, 3, 4), (5,)])


@settings(max_examples=40, deadline=None)
@given(name=st.sampled_from(sorted(BINARY)), left=shapes, right=shapes)
def test_operators_of_two_tensors_broadcast_as_numpy(name: str, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a = np.asarray(1 + np.arange(np.prod(left, dtype=int)).reshape(left) % 5, "float32")
    b = np.asarray(1.5 + np.arange(np.prod(right, dtype=int)).reshape(right) % 3, "float32")
    try:
        np.broadcast_shapes(left, right)
    except ValueError:
        with pytest.raises(ComputeError, match="do not broadcast"):
            getattr(topi, name)(te.placeholder(left), te.placeholder(right))
        return
    check(getattr(topi, name), BINARY[name](a, b), a, b)


def test_operators_take_numbers() -> None:
    check(lambda x: topi.add(x, 1.5), X + 1.5, X)
    check(lambda x: topi.maximum(0.25, x), np.maximum(0.25, X), X)
    assert str(topi.add(te.const(1), 2)) == "3"


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("name", ["sum", "max", "min", "prod"])
def test_reductions(name: str, axis: Any, keepdims: bool) -> None:
    check(lambda x: getattr(topi, name)(x, axis, keepdims), getattr(np, name)(X, axis=axis, keepdims=keepdims), X)


def test_axes_that_are_not_there_are_refused() -> None:
    with pytest.raises(ComputeError, match="has the axes 0 to 1"):
        topi.sum(te.placeholder((2, 3)), axis=2)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda x: topi.nn.pad(x, (1, 1)), "3 axes"),
        (lambda x: topi.nn.conv2d(x, x, 1, 0, 1, "NCHW4c"), "there are NCHW, NHWC"),
        (lambda x: topi.nn.get_pad_tuple("FULL", (3, 3)), "give numbers, 'VALID' or 'SAME'"),
        (lambda x: topi.nn.dense(te.placeholder((3, 4)), te.placeholder((3, 5))), "over 4 and over 5 elements"),
        (
            lambda x: topi.nn.conv2d_nchw(te.placeholder((1, 3, 4, 4)), te.placeholder((2, 4, 3, 3)), 1, 1, 1),
            "has 3 channels, .* takes 4",
        ),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, why: str) -> None:
    with pytest.raises(ComputeError, match=why):
        make(te.placeholder((3, 4, 5), name="X"))


def test_products() -> None:
    a, b = X[0], X[1]
    bias = X[0, :, 0].copy()
    check(lambda p, q, r: topi.nn.dense(p, q, r), a @ b.T + bias, a, b, bias)
    check(topi.nn.matmul, a @ b.T, a, b.T.copy())
    check(lambda p, q: topi.nn.matmul(p, q, transpose_a=True, out_dtype="float64"), a.T @ b, a, b)


def test_activations_and_borders() -> None:
    check(topi.nn.relu, np.maximum(X, 0), X, exact=True)
    check(topi.nn.softmax, special.softmax(X, -1), X)
    check(lambda x: topi.nn.softmax(x, axis=1), special.softmax(X, 1), X)
    check(lambda x: topi.elemwise_sum([x, x, x]), 3 * X, X)
    check(lambda x: topi.nn.pad(x, (0, 1, 2), (1, 0, 0), 7), np.pad(X, ((0, 1), (1, 0), (2, 0)), constant_values=7), X)


def correlated(x: np.ndarray, w: np.ndarray, stride: tuple[int, int], pads: Any, dilation: int, groups: int = 1) -> Any:
    """A convolution of NCHW by scipy."""
    wide = np.pad(x, ((0, 0), (0, 0), *pads))
    apart = np.zeros((*w.shape[:2], *((k - 1) * dilation + 1 for k in w.shape[2:])), w.dtype)
    apart[:, :, ::dilation, ::dilation] = w
    per = w.shape[0] // groups
    outputs = [
        sum(signal.correlate2d(wide[n, o // per * w.shape[1] + c], apart[o, c], "valid") for c in range(w.shape[1]))
        for n in range(len(x))
        for o in range(w.shape[0])
    ]
    whole = np.stack(outputs).reshape(len(x), w.shape[0], *outputs[0].shape)
    return whole[:, :, :: stride[0], :: stride[1]]


@pytest.mark.parametrize(
    ("stride", "padding", "pads", "dilation"),
    [
        (1, 0, ((0, 0), (0, 0)), 1), ((2, 1), (1, 2), ((1, 1), (2, 2)), 1), (2, (1, 0, 2, 1), ((1, 2), (0, 1)), 1),
        (1, "SAME", ((1, 1), (1, 1)), 1), (1, "VALID", ((0, 0), (0, 0)), 2), (1, "SAME", ((2, 2), (2, 2)), (2, 2)),
    ],
)  # fmt: skip
def test_convolutions(stride: Any, padding: Any, pads: Any, dilation: Any) -> None:
    w = RNG.integers(-3, 4, (6, 4, 3, 3)).astype("float32")
    steps, apart = (stride, stride) if isinstance(stride, int) else stride, dilation if isinstance(dilation, int) else 2
    wanted = correlated(IMAGE, w, steps, pads, apart)
    hwio, nhwc = w.transpose(2, 3, 1, 0).copy(), IMAGE.transpose(0, 2, 3, 1).copy()
    options = (stride, padding, dilation)
    check(lambda x, f: topi.nn.conv2d_nchw(x, f, *options), wanted, IMAGE, w, exact=True)
    check(lambda x, f: topi.nn.conv2d(x, f, *options, "NHWC"), wanted.transpose(0, 2, 3, 1), nhwc, hwio, exact=True)
    grouped = correlated(IMAGE, w[:, :2].copy(), steps, pads, apart, groups=2)
    check(lambda x, f: topi.nn.group_conv2d_nchw(x, f, *options, 2), grouped, IMAGE, w[:, :2].copy(), exact=True)


def test_a_convolution_may_be_summed_in_another_type() -> None:
    image, w = IMAGE.astype("int8"), RNG.integers(-3, 4, (6, 4, 3, 3)).astype("int8")
    wanted = correlated(image.astype("int32"), w.astype("int32"), (1, 1), ((1, 1), (1, 1)), 1)
    check(lambda x, f: topi.nn.conv2d_nchw(x, f, 1, 1, 1, "int32"), wanted, image, w, exact=True)


def test_numbers_of_shapes() -> None:
    assert topi.utils.get_const_tuple(te.placeholder((3, 4)).shape) == (3, 4)
    assert topi.utils.get_const_int(te.const(3)) == 3


@pytest.mark.parametrize("name", ["schedule_injective", "schedule_softmax", "schedule_reduce"])
def test_the_plain_schedule_runs(name: str) -> None:
    x = te.placeholder(X.shape, name="X")
    out = topi.nn.softmax(topi.nn.relu(x))
    s = getattr(topi.generic, name)([out])
    got = np.empty(X.shape, "float32")
    pb.build(s, [x, out], target="llvm -num-cores 2")(X, got)
    np.testing.assert_allclose(got, special.softmax(np.maximum(X, 0), -1), rtol=2e-6)


@pytest.mark.parametrize("family", ["x86", "cuda", "arm_cpu"])
def test_schedules_of_single_processors_are_refused_with_the_way(family: str) -> None:
    with pytest.raises(AttributeError, match=rf"topi.{family} is not here: .*space='sketch'"):
        getattr(topi, family)


@pytest.mark.parametrize("name", ["argmax", "nn.pool2d", "cumsum"])
def test_other_operators_are_refused_with_the_way(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"topi\.{name} is not here: write the operator with te\.compute"):
        operator.attrgetter(name)(topi)
