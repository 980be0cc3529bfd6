"""topi: each operator against NumPy, on small shapes."""

from __future__ import annotations

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
from pegbox.errors import ComputeError, ScheduleError
from pegbox.plugins import tvm
from pegbox.plugins.tvm import te, topi

RNG = np.random.default_rng(5)
X = RNG.uniform(-2, 2, (3, 4, 5)).astype("float32")
P = np.abs(X) / 2.1 + np.float32(0.01)
IMAGE = RNG.integers(-4, 5, (2, 4, 6, 7)).astype("float32")


def check(make: Callable[..., Any], wanted: Any, *arrays: np.ndarray, exact: bool = False) -> None:
    """What a function makes of tensors is what NumPy makes of arrays."""
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
    "floor": np.floor, "ceil": np.ceil, "round": np.round, "trunc": np.trunc, "erf": special.erf, "sign": np.sign,
    "sigmoid": special.expit, "negative": np.negative, "identity": lambda x: x, "isnan": np.isnan, "isinf": np.isinf,
    "isfinite": np.isfinite, "fast_exp": np.exp, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh,
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
    "minimum": np.minimum, "power": lambda a, b: np.power(np.abs(a), b), "greater": np.greater, "less": np.less,
    "equal": np.equal, "not_equal": np.not_equal, "greater_equal": np.greater_equal, "less_equal": np.less_equal,
    "floor_divide": np.floor_divide, "floor_mod": np.mod, "mod": np.fmod,
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
    check(lambda x: topi.mod(x, 3), np.fmod(np.arange(-6, 6), 3), np.arange(-6, 6, dtype="int32"))
    check(lambda x: topi.floor_divide(x, 4), np.arange(-6, 6) // 4, np.arange(-6, 6, dtype="int32"))
    yes, no = X > 0, X > 1
    for name in ("logical_and", "logical_or"):
        check(getattr(topi, name), getattr(np, name)(yes, no), yes, no)
    check(topi.logical_not, ~yes, yes)
    check(topi.where, np.where(yes[0], X, 1), yes[0], X, np.ones(1, "float32"))


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("name", ["sum", "max", "min", "prod", "mean", "argmax", "argmin", "all", "any"])
def test_reductions(name: str, axis: Any, keepdims: bool) -> None:
    array = X > -1.5 if name in ("all", "any") else X
    if name.startswith("arg") and isinstance(axis, tuple):
        wanted = getattr(np, name)(X.transpose(1, 0, 2).reshape(4, -1), 1)
        wanted = wanted.reshape(1, 4, 1) if keepdims else wanted
    else:
        wanted = getattr(np, name)(array, axis=axis, keepdims=keepdims)
    check(lambda x: getattr(topi, name)(x, axis, keepdims), wanted, array)


def test_places_of_equals_and_axes_that_are_not_there() -> None:
    x = np.array([[1, 3, 3, 0, 0]], "float32")
    check(lambda t: topi.argmax(t, 1), [1], x)
    check(lambda t: topi.argmax(t, 1, select_last_index=True), [2], x)
    check(lambda t: topi.argmin(t, 1, select_last_index=True), [4], x)
    with pytest.raises(ComputeError, match="has the axes 0 to 1"):
        topi.sum(te.placeholder((2, 3)), axis=2)


INDICES = np.array([[0, 3], [-1, 9]], "int32")
TRANSFORMS: dict[str, tuple[Any, Any]] = {
    "transpose": (lambda x: topi.transpose(x), lambda x: x.T),
    "transpose_axes": (lambda x: topi.transpose(x, (1, 0, -1)), lambda x: x.transpose(1, 0, 2)),
    "reshape": (lambda x: topi.reshape(x, (6, -1)), lambda x: x.reshape(6, -1)),
    "expand_dims": (lambda x: topi.expand_dims(x, -1, 2), lambda x: x[..., None, None]),
    "expand_dims_first": (lambda x: topi.expand_dims(x, 1), lambda x: x[:, None]),
    "squeeze": (lambda x: topi.squeeze(topi.expand_dims(x, 1)), lambda x: x),
    "broadcast_to": (lambda x: topi.broadcast_to(x, (2, 3, 4, 5)), lambda x: np.broadcast_to(x, (2, 3, 4, 5))),
    "concatenate": (lambda x: topi.concatenate([x, topi.exp(x), x], 1), lambda x: np.concatenate([x, np.exp(x), x], 1)),
    "stack": (lambda x: topi.stack([x, x], 1), lambda x: np.stack([x, x], 1)),
    "split": (lambda x: topi.split(x, 2, 1), lambda x: np.split(x, 2, 1)),
    "split_at": (lambda x: topi.split(x, [1, 3], -1), lambda x: np.split(x, [1, 3], 2)),
    "strided_slice": (
        lambda x: topi.strided_slice(x, [0, 3, -1], [2, 0, 0], [1, -1, -2]), lambda x: x[0:2, 3:0:-1, -1:0:-2],
    ),
    "slice_of_size": (lambda x: topi.strided_slice(x, [1, 0], [1, -1], slice_mode="size"), lambda x: x[1:2]),
    "flip": (lambda x: topi.flip(x, 1), lambda x: x[:, ::-1]),
    "repeat": (lambda x: topi.repeat(x, 2, 1), lambda x: np.repeat(x, 2, 1)),
    "tile": (lambda x: topi.tile(x, (2, 1, 3)), lambda x: np.tile(x, (2, 1, 3))),
    "tile_more": (lambda x: topi.tile(x, (2, 1, 1, 2)), lambda x: np.tile(x, (2, 1, 1, 2))),
    "layout_transform": (lambda x: topi.layout_transform(x, "NCW", "NWC"), lambda x: x.transpose(0, 2, 1)),
    "cast": (lambda x: topi.cast(x, "int32"), lambda x: x.astype("int32")),
    "clip": (lambda x: topi.clip(x, -0.5, 1), lambda x: np.clip(x, -0.5, 1)),
    "full_like": (lambda x: topi.full_like(x, 3), lambda x: np.full_like(x, 3)),
    "zeros_like": (lambda x: topi.zeros_like(x), np.zeros_like),
    "ones_like": (lambda x: topi.ones_like(x), np.ones_like),
    "full": (lambda x: topi.full((2, 3), "int32", 7), lambda x: np.full((2, 3), 7)),
    "arange": (lambda x: topi.arange(2, 12, 3, "int32"), lambda x: np.arange(2, 12, 3)),
    "elemwise_sum": (lambda x: topi.elemwise_sum([x, x, x]), lambda x: 3 * x),
    "flatten": (lambda x: topi.nn.flatten(x), lambda x: x.reshape(3, 20)),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
def test_elements_elsewhere(name: str) -> None:
    make, wanted = TRANSFORMS[name]
    check(make, wanted(X), X)


@pytest.mark.parametrize("mode", ["clip", "wrap"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_take(mode: str, axis: int | None) -> None:
    wanted = np.take(X, INDICES, axis=axis, mode=mode)  # type: ignore[call-overload]
    check(lambda x, i: topi.take(x, i, axis, mode=mode), wanted, X, INDICES)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda x: topi.reshape(x, (7, 7)), "has 60 elements"), (lambda x: topi.squeeze(x, 0), "has not the extent 1"),
        (lambda x: topi.concatenate([x, topi.transpose(x)]), "differ elsewhere"),
        (lambda x: topi.split(x, 2, 0), "does not divide"), (lambda x: topi.flip(x, 3), "there are the axes 0 to 2"),
        (lambda x: topi.transpose(x, (0, 0, 1)), "is not an order"),
        (lambda x: topi.broadcast_to(x, (3, 4, 1)), "does not broadcast"),
        (lambda x: topi.layout_transform(x, "NCW", "NCW8c"), "capital letters"),
        (lambda x: topi.take(x, x, mode="raise"), "clip, wrap, fast"), (lambda x: topi.nn.pad(x, (1, 1)), "3 axes"),
        (lambda x: topi.matmul(topi.reshape(x, (3, 20)), topi.reshape(x, (3, 20))), "other extents"),
        (lambda x: topi.nn.conv2d(x, x, 1, 0, 1, "NCHW4c"), "there are NCHW, NHWC, HWCN"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(make: Any, why: str) -> None:
    with pytest.raises(ComputeError, match=why):
        make(te.placeholder((3, 4, 5), name="X"))


def test_products() -> None:
    a, b = X[0], X[1]
    check(topi.matmul, a @ b.T, a, b.T.copy())
    check(lambda p, q: topi.matmul(p, q, True, True), a.T @ b, a, b.T.copy())
    check(lambda p, q: topi.tensordot(p, q, 1), np.tensordot(X, b.T, 1), X, b.T.copy())
    check(lambda p, q: topi.tensordot(p, q, [(0, 2), (0, 2)]), np.tensordot(X, X, [(0, 2), (0, 2)]), X, X)
    bias = X[0, :, 0].copy()
    check(lambda p, q, r: topi.nn.dense(p, q, r), a @ b.T + bias, a, b, bias)
    check(lambda p, q: topi.nn.matmul(p, q, transpose_a=True, out_dtype="float64"), a.T @ b, a, b)
    check(topi.nn.batch_matmul, X @ X.transpose(0, 2, 1), X, X)
    one = X[:1]
    check(
        lambda p, q: topi.nn.batch_matmul(p, q, transpose_a=True, transpose_b=False), one.transpose(0, 2, 1) @ X, one, X
    )


def test_activations_and_normalizations() -> None:
    check(topi.nn.relu, np.maximum(X, 0), X, exact=True)
    check(lambda x: topi.nn.leaky_relu(x, 0.1), np.where(X > 0, X, X * np.float32(0.1)), X)
    slopes = np.array([1, 2, 3, 4], "float32")
    check(topi.nn.prelu, np.where(X > 0, X, X * slopes[:, None]), X, slopes)
    check(topi.nn.softmax, special.softmax(X, -1), X)
    check(lambda x: topi.nn.softmax(x, axis=1), special.softmax(X, 1), X)
    check(topi.nn.log_softmax, special.log_softmax(X, -1), X)
    check(topi.nn.bias_add, X + slopes[:, None], X, slopes)
    gamma, beta, mean, var = (RNG.uniform(0.5, 2, 4).astype("float32") for _ in range(4))
    c = (slice(None), None, None)
    normal = (IMAGE - mean[c]) / np.sqrt(var[c] + 1e-5) * gamma[c] + beta[c]
    check(lambda *t: topi.nn.batch_norm(*t)[0], normal, IMAGE, gamma, beta, mean, var)
    check(topi.nn.scale_shift_nchw, IMAGE * gamma[c] + beta[c], IMAGE, gamma, beta)
    rows = np.swapaxes(X, 1, 2).copy()
    layer = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5) * gamma + beta
    check(lambda *t: topi.nn.layer_norm(*t, axis=-1), layer, rows, gamma, beta)


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
    hwcn = IMAGE.transpose(2, 3, 1, 0).copy()
    check(lambda x, f: topi.nn.conv2d_hwcn(x, f, *options), wanted.transpose(2, 3, 1, 0), hwcn, hwio, exact=True)
    grouped = correlated(IMAGE, w[:, :2].copy(), steps, pads, apart, groups=2)
    check(lambda x, f: topi.nn.group_conv2d_nchw(x, f, *options, 2), grouped, IMAGE, w[:, :2].copy(), exact=True)
    deep = w[:4, :2].copy()
    each = correlated(IMAGE, deep.reshape(8, 1, 3, 3), steps, pads, apart, groups=4)
    check(lambda x, f: topi.nn.depthwise_conv2d_nchw(x, f, *options), each, IMAGE, deep, exact=True)
    check(
        lambda x, f: topi.nn.depthwise_conv2d_nhwc(x, f, *options),
        each.transpose(0, 2, 3, 1), nhwc, deep.transpose(2, 3, 0, 1).copy(), exact=True,
    )  # fmt: skip


@pytest.mark.parametrize(("stride", "padding", "more"), [(1, 0, 0), (2, 1, 1), ((2, 3), (0, 1), 0)])
def test_a_transposed_convolution_is_the_gradient_of_one(stride: Any, padding: Any, more: int) -> None:
    """<conv(y), x> = <y, conv_t(x)> for every y: here one at a time."""
    w = RNG.integers(-3, 4, (4, 3, 3, 3)).astype("float32")
    x = te.placeholder(IMAGE.shape, name="X")
    out = topi.nn.conv2d_transpose_nchw(x, te.placeholder(w.shape, name="W"), stride, padding, "float32", more)
    y = RNG.integers(-3, 4, out.shape).astype("float32")
    inputs = [tensor.op.outputs[0] for tensor in _inputs(out)]
    by_name = {t.name: t for t in inputs}
    made = evaluate([out], {by_name["X"]: IMAGE, by_name["W"]: w})[0]
    pads = [(p, p) for p in ((padding, padding) if isinstance(padding, int) else padding)]
    steps = (stride, stride) if isinstance(stride, int) else stride
    back = correlated(y, w, steps, pads, 1)[:, :, : IMAGE.shape[2], : IMAGE.shape[3]]
    assert float((made * y).sum()) == float((back * IMAGE).sum())


def _inputs(tensor: Tensor) -> list[Tensor]:
    from pegbox.compute.graph import placeholders

    return placeholders([tensor])


@pytest.mark.parametrize("pool_type", ["max", "avg"])
@pytest.mark.parametrize(("padding", "ceil_mode"), [((0, 0, 0, 0), False), ((1, 0, 1, 1), False), ((0, 1, 0, 1), True)])
@pytest.mark.parametrize("include", [True, False])
def test_pooling(pool_type: str, padding: Any, ceil_mode: bool, include: bool) -> None:
    top, left, bottom, right = padding
    rows, columns = (
        -(-(s + p - 3) // 2) if ceil_mode else (s + p - 3) // 2 for s, p in ((6, top + bottom), (7, left + right))
    )
    wide = np.full((2, 4, 20, 20), np.nan, "float32")
    wide[:, :, top : top + 6, left : left + 7] = IMAGE
    parts = [[wide[:, :, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3] for j in range(columns + 1)] for i in range(rows + 1)]
    if pool_type == "max":
        wanted = [[np.nanmax(part, (2, 3)) for part in row] for row in parts]
    elif include:
        wanted = [[np.nansum(part, (2, 3)) / 9 for part in row] for row in parts]
    else:
        wanted = [[np.nanmean(part, (2, 3)) for part in row] for row in parts]
    expected = np.moveaxis(np.array(wanted), (0, 1), (2, 3))
    check(
        lambda x: topi.nn.pool2d(x, (3, 3), (2, 2), (1, 1), padding, pool_type, ceil_mode, count_include_pad=include),
        expected, IMAGE,
    )  # fmt: skip


def test_global_pooling_padding_and_gaps() -> None:
    check(lambda x: topi.nn.global_pool(x, "max"), IMAGE.max((2, 3), keepdims=True), IMAGE)
    check(lambda x: topi.nn.global_pool(x, "avg", "NHWC"), IMAGE.mean((1, 2), keepdims=True), IMAGE)
    with pytest.raises(ComputeError, match="give 'max' or 'avg'"):
        topi.nn.global_pool(te.placeholder((1, 1, 2, 2)), "sum")
    check(lambda x: topi.nn.pad(x, (0, 1, 2), (1, 0, 0), 7), np.pad(X, ((0, 1), (1, 0), (2, 0)), constant_values=7), X)
    apart = np.zeros((3, 7, 13), "float32")
    apart[:, ::2, ::3] = X
    check(lambda x: topi.nn.dilate(x, (1, 2, 3)), apart, X)


def test_numbers_of_shapes() -> None:
    x = te.placeholder((3, 4))
    assert topi.utils.get_const_tuple(x.shape) == (3, 4)
    assert topi.utils.get_const_int(te.const(3)) == topi.utils.simplify(3) == 3
    assert topi.utils.get_const_float(te.const(2.5)) == 2.5
    assert topi.utils.equal_const_int(te.const(3), 3)
    assert topi.utils.prod(x.shape) == 12
    with pytest.raises(ComputeError, match="known before a kernel runs"):
        topi.utils.get_const_int(te.var("n"))


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
    with pytest.raises(ScheduleError, match=rf"topi.{family}.schedule_dense.*space='sketch'"):
        getattr(topi, family).schedule_dense([te.placeholder((2, 2))])


def test_the_operations_of_an_output_are_met_and_inlined() -> None:
    x, w = te.placeholder((4, 4), name="x"), te.placeholder((4, 4), name="w")
    product = topi.nn.dense(topi.nn.pad(x, (1, 0), (0, 0)), w)
    out = topi.nn.relu(topi.add(product, product))
    s, met = te.create_schedule(out.op), []
    topi.utils.traverse_inline(s, out.op, lambda op: met.append(op.tag))
    assert met == ["elemwise", "broadcast", "dense", "injective,pad"]
    text = str(tvm.lower(s, [x, w, out]))
    assert [name for name in ("PadInput", "T_matmul", "T_dense", "T_add") if name in text] == [product.op.name]


def test_a_matrix_of_numbers_is_a_computation() -> None:
    numbers = np.array([[1, 0, -0.5], [0, 2, 0]], "float32")
    check(lambda: topi.utils.const_matrix(numbers, "B"), numbers, exact=True)


def test_modules_have_the_functions_of_their_names() -> None:
    from pegbox.plugins.tvm.topi.nn.pad import pad
    from pegbox.plugins.tvm.topi.nn.utils import get_pad_tuple

    assert (topi.nn.pad, topi.nn.get_pad_tuple) == (pad, get_pad_tuple)


@pytest.mark.parametrize(("axis", "exclusive"), [(None, False), (0, False), (1, True), (-1, None)])
def test_running_sums_and_products(axis: int | None, exclusive: bool | None) -> None:
    whole = np.random.default_rng(8).integers(1, 4, (2, 3, 4)).astype("int32")
    for of, start, numpys in ((topi.cumsum, 0, np.cumsum), (topi.cumprod, 1, np.cumprod)):
        wanted = numpys(whole, axis=axis, dtype="int64")
        if exclusive:
            wanted = np.roll(wanted, 1, axis=axis)
            np.moveaxis(wanted, axis or 0, 0)[0] = start
        check(lambda x, of=of: of(x, axis, "int64", exclusive), wanted, whole, exact=True)


def test_running_sums_of_an_axis_that_is_not_there_are_refused() -> None:
    with pytest.raises(ComputeError, match="axis=3"):
        topi.cumsum(te.placeholder((2, 3), name="X"), 3)
