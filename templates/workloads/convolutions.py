"""Workloads: convolutions and pooling."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pegbox as pb
from pegbox import te
from pegbox.checks import check_int
from pegbox.compute import convolve, convolve_nhwc, padded
from pegbox.errors import ArgumentError
from pegbox.expr import is_float


def _border(x: te.Tensor, padding: int, value: te.Expr | float = 0.0) -> te.Tensor:
    """Return X[n, c, *spatial] with a border on either side of each spatial axis."""
    pads = (0, 0, *[padding] * (x.ndim - 2))
    return padded(x, pads, pads, value)


def _sizes(extents: Sequence[int], k: int, stride: int, padding: int, dilation: int = 1) -> list[int]:
    """Outputs along each axis.

    Raises:
        ArgumentError: an argument is not in its domain, or there is no room for a single window.
    """
    check_int("k", k)
    check_int("stride", stride)
    check_int("padding", padding, minimum=0)
    check_int("dilation", dilation)
    reach, least = dilation * (k - 1) + 1, min(extents)
    if reach > least + 2 * padding:
        raise ArgumentError(
            f"k={k!r}: a window spans {reach} elements (dilation={dilation!r}), the input with padding={padding!r} "
            f"only {least + 2 * padding} along one axis; give a smaller k, more padding or a larger input"
        )
    return [(extent + 2 * padding - reach) // stride + 1 for extent in extents]


def _convolve(x: te.Tensor, w: te.Tensor, stride: int, padding: int, dilation: int = 1, groups: int = 1) -> te.Tensor:
    """X[n, c, *spatial] with filters W[o, c / groups, *kernel], alike along all axes."""
    _, _, *spatial = x.shape
    rank = len(_sizes(spatial, w.shape[2], stride, padding, dilation))
    return convolve(_border(x, padding), w, [stride] * rank, [dilation] * rank, groups)


def _operands(
    n: int, c: int, spatial: Sequence[int], o: int, kernel: Sequence[int], dtype: str
) -> tuple[te.Tensor, te.Tensor]:
    x = te.placeholder((n, c, *spatial), name="X", dtype=dtype)
    return x, te.placeholder((o, c, *kernel), name="W", dtype=dtype)


@pb.workload("conv1d")
def conv1d(
    n: int, c: int, x: int, o: int, k: int, stride: int = 1, padding: int = 0, dtype: str = "float32"
) -> list[te.Tensor]:
    """X[n, c, x] with o filters of [c, k]"""
    data, filters = _operands(n, c, (x,), o, (k,), dtype)
    return [data, filters, _convolve(data, filters, stride, padding)]


@pb.workload("conv2d")
def conv2d(
    n: int, c: int, y: int, x: int, o: int, k: int, stride: int = 1, padding: int = 0, dilation: int = 1,
    groups: int = 1, dtype: str = "float32",
) -> list[te.Tensor]:  # fmt: skip
    """X[n, c, y, x] with o filters of [c / groups, k, k]"""
    check_int("groups", groups)
    if c % groups or o % groups:
        raise ArgumentError(f"groups={groups!r} does not divide c={c!r} and o={o!r}; give a divisor of both")
    data = te.placeholder((n, c, y, x), name="X", dtype=dtype)
    filters = te.placeholder((o, c // groups, k, k), name="W", dtype=dtype)
    return [data, filters, _convolve(data, filters, stride, padding, dilation, groups)]


@pb.workload("conv2d_nhwc")
def conv2d_nhwc(
    n: int, y: int, x: int, c: int, o: int, k: int, stride: int = 1, padding: int = 0, dtype: str = "float32"
) -> list[te.Tensor]:
    """X[n, y, x, c] with filters W[k, k, c, o]"""
    _sizes((y, x), k, stride, padding)
    data = te.placeholder((n, y, x, c), name="X", dtype=dtype)
    filters = te.placeholder((k, k, c, o), name="W", dtype=dtype)
    pads = (0, padding, padding, 0)
    conv = convolve_nhwc(padded(data, pads, pads), filters, (stride, stride), (1, 1))
    return [data, filters, conv]


@pb.workload("conv3d")
def conv3d(
    n: int, c: int, z: int, y: int, x: int, o: int, k: int, stride: int = 1, padding: int = 0, dtype: str = "float32"
) -> list[te.Tensor]:
    """X[n, c, z, y, x] with o filters of [c, k, k, k]"""
    data, filters = _operands(n, c, (z, y, x), o, (k, k, k), dtype)
    return [data, filters, _convolve(data, filters, stride, padding)]


@pb.workload("depthwise_conv2d")
def depthwise_conv2d(
    n: int, c: int, y: int, x: int, k: int, stride: int = 1, padding: int = 0, dtype: str = "float32"
) -> list[te.Tensor]:
    """X[n, c, y, x], each channel with a filter of its own, W[c, k, k]"""
    sizes = _sizes((y, x), k, stride, padding)
    data = te.placeholder((n, c, y, x), name="X", dtype=dtype)
    filters = te.placeholder((c, k, k), name="W", dtype=dtype)
    wide = _border(data, padding)
    ry, rx = te.reduce_axis((0, k), name="ry"), te.reduce_axis((0, k), name="rx")

    def element(b: te.Expr, f: te.Expr, i: te.Expr, j: te.Expr) -> te.Expr:
        return te.sum(wide[b, f, i * stride + ry, j * stride + rx] * filters[f, ry, rx], axis=[ry, rx])

    return [data, filters, te.compute((n, c, *sizes), element, "conv")]


@pb.workload("conv2d_transposed")
def conv2d_transposed(
    n: int, c: int, y: int, x: int, o: int, k: int, stride: int = 2, padding: int = 0, dtype: str = "float32"
) -> list[te.Tensor]:
    """The gradient of a convolution: X[n, c, y, x] with W[c, o, k, k], `stride` outputs for each input"""
    check_int("stride", stride)
    check_int("padding", padding, minimum=0, maximum=check_int("k", k) - 1)
    shape = (n, o, *((e - 1) * stride + k - 2 * padding for e in (y, x)))
    if min(shape[2:]) < 1:
        raise ArgumentError(
            f"padding={padding!r} leaves no outputs of {y} x {x} inputs (k={k!r}, stride={stride!r}); give less "
            "padding or a larger input"
        )
    data = te.placeholder((n, c, y, x), name="X", dtype=dtype)
    filters = te.placeholder((c, o, k, k), name="W", dtype=dtype)
    border, zero = k - 1 - padding, te.const(0, dtype)

    def spread(b: te.Expr, f: te.Expr, i: te.Expr, j: te.Expr) -> te.Expr:
        up, left = i - border, j - border
        last = te.all(up < (y - 1) * stride + 1, left < (x - 1) * stride + 1)
        there = te.all(up >= 0, left >= 0, last, up % stride == 0, left % stride == 0)
        return te.if_then_else(there, data[b, f, up // stride, left // stride], zero)

    spread_shape = (n, c, (y - 1) * stride + 1 + 2 * border, (x - 1) * stride + 1 + 2 * border)
    dilated = te.compute(spread_shape, spread, "dilated")
    rc, ry, rx = (te.reduce_axis((0, e), name=name) for e, name in ((c, "rc"), (k, "ry"), (k, "rx")))

    def element(b: te.Expr, f: te.Expr, i: te.Expr, j: te.Expr) -> te.Expr:
        return te.sum(dilated[b, rc, i + ry, j + rx] * filters[rc, f, k - 1 - ry, k - 1 - rx], axis=[rc, ry, rx])

    return [data, filters, te.compute(shape, element, "conv")]


@pb.workload("conv2d_bn_relu")
def conv2d_bn_relu(
    n: int, c: int, y: int, x: int, o: int, k: int, stride: int = 1, padding: int = 0, dtype: str = "float32"
) -> list[te.Tensor]:
    """max((conv2d + bias) * scale + shift, 0): batch normalization at inference (Ioffe and Szegedy, 2015)"""
    data, filters, conv = conv2d.tensors(n, c, y, x, o, k, stride, padding, dtype=dtype)
    bias, scale, shift = (te.placeholder((o,), name=name, dtype=dtype) for name in ("bias", "scale", "shift"))
    biased = te.compute(conv.shape, lambda b, f, i, j: conv[b, f, i, j] + bias[f], "biased")
    scaled = te.compute(conv.shape, lambda b, f, i, j: biased[b, f, i, j] * scale[f], "scaled")
    shifted = te.compute(conv.shape, lambda b, f, i, j: scaled[b, f, i, j] + shift[f], "shifted")
    relu = te.compute(conv.shape, lambda b, f, i, j: te.maximum(shifted[b, f, i, j], te.const(0, dtype)), "relu")
    return [data, filters, bias, scale, shift, relu]


def _pooled(x: te.Tensor, k: int, stride: int, padding: int, border: te.Expr | float, reduce: Callable[..., te.Expr],
            name: str) -> te.Tensor:  # fmt: skip
    """Reduce each window of X[n, c, y, x]; no window lies in the border alone."""
    check_int("padding", padding, minimum=0, maximum=check_int("k", k) - 1)
    n, c, *extents = x.shape
    shape = (n, c, *_sizes(extents, k, stride, padding))
    wide = _border(x, padding, border)
    ry, rx = te.reduce_axis((0, k), name="ry"), te.reduce_axis((0, k), name="rx")

    def element(b: te.Expr, f: te.Expr, i: te.Expr, j: te.Expr) -> te.Expr:
        return reduce(wide[b, f, i * stride + ry, j * stride + rx], axis=[ry, rx])

    return te.compute(shape, element, name=name)


@pb.workload("max_pool2d")
def max_pool2d(
    n: int, c: int, y: int, x: int, k: int, stride: int = 2, padding: int = 0, dtype: str = "float32"
) -> list[te.Tensor]:
    """The largest of each window of k × k in X[n, c, y, x]"""
    data = te.placeholder((n, c, y, x), name="X", dtype=dtype)
    return [data, _pooled(data, k, stride, padding, te.min_value(dtype), te.max, "pool")]


@pb.workload("avg_pool2d")
def avg_pool2d(
    n: int, c: int, y: int, x: int, k: int, stride: int = 2, padding: int = 0, dtype: str = "float32"
) -> list[te.Tensor]:
    """The mean of each window of k × k in X[n, c, y, x], its border counted as zeros"""
    if not is_float(dtype):
        raise ArgumentError(f"dtype={dtype!r} cannot hold the mean of a window; give a float type")
    data = te.placeholder((n, c, y, x), name="X", dtype=dtype)
    total = _pooled(data, k, stride, padding, 0.0, te.sum, "total")
    return [data, te.compute(total.shape, lambda b, f, i, j: total[b, f, i, j] * te.const(1 / k**2, dtype), "mean")]


def _constant(*axes: str) -> dict[str, object]:
    """Make the attribute for axes that index small constant matrices: see the rules of sketches."""
    return {"auto_scheduler_simplify_const_tensor_indices": list(axes)}


@pb.workload("conv2d_winograd")
def conv2d_winograd(
    n: int, c: int, y: int, x: int, o: int, padding: int = 1, dtype: str = "float32"
) -> list[te.Tensor]:
    """conv2d of 3 × 3 by tiles of 2 × 2 outputs, F(2×2, 3×3) of Lavin and Gray (CVPR 2016); y and x even"""
    rows, columns = _sizes((y, x), 3, 1, padding)
    for name, value, outputs in ("y", y, rows), ("x", x, columns):
        if outputs % 2:
            raise ArgumentError(
                f"{name}={value!r} with padding={padding!r} gives {outputs} outputs, which tiles of 2 x 2 do not "
                f"cover; give an even {name}, or the workload conv2d"
            )
    data, filters = _operands(n, c, (y, x), o, (3, 3), dtype)
    wide = _border(data, padding)
    ty, tx = rows // 2, columns // 2
    tiles = n * ty * tx
    left: list[list[float]] = [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]]
    kernel: list[list[float]] = [[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]]
    right: list[list[float]] = [[1, 1, 1, 0], [0, 1, -1, -1]]

    def entry(matrix: Sequence[Sequence[float]], i: te.Expr, j: te.Expr) -> te.Expr:
        found: te.Expr = te.const(0, dtype)
        for row, values in enumerate(matrix):
            for column, value in enumerate(values):
                if value:
                    found = te.if_then_else(te.all(i == row, j == column), te.const(value, dtype), found)
        return found

    tile = te.compute(
        (c, tiles, 4, 4),
        lambda f, p, i, j: wide[p // (ty * tx), f, p // tx % ty * 2 + i, p % tx * 2 + j],
        "tile",
    )
    a1, a2, a3, a4 = (te.reduce_axis((0, e), name=f"a{d}") for d, e in enumerate((3, 3, 4, 4)))
    packed_w = te.compute(
        (4, 4, c, o),
        lambda i, j, f, g: te.sum(filters[g, f, a1, a2] * entry(kernel, i, a1) * entry(kernel, j, a2), axis=[a1, a2]),
        "transformed_filters",
        attrs=_constant("i", "j", "a1", "a2"),
    )
    packed_x = te.compute(
        (4, 4, c, tiles),
        lambda i, j, f, p: te.sum(tile[f, p, a3, a4] * entry(left, i, a3) * entry(left, j, a4), axis=[a3, a4]),
        "transformed_data",
        attrs=_constant("i", "j", "a3", "a4"),
    )
    rc = te.reduce_axis((0, c), name="rc")
    product = te.compute(
        (4, 4, o, tiles), lambda i, j, g, p: te.sum(packed_w[i, j, rc, g] * packed_x[i, j, rc, p], axis=rc), "product"
    )
    b1, b2 = te.reduce_axis((0, 4), name="b1"), te.reduce_axis((0, 4), name="b2")
    inverse = te.compute(
        (o, tiles, 2, 2),
        lambda g, p, i, j: te.sum(product[b1, b2, g, p] * entry(right, i, b1) * entry(right, j, b2), axis=[b1, b2]),
        "inverse",
        attrs=_constant("i", "j", "b1", "b2"),
    )
    out = te.compute(
        (n, o, ty * 2, tx * 2),
        lambda b, g, i, j: inverse[g, (b * ty + i // 2) * tx + j // 2, i % 2, j % 2],
        "conv",
    )
    return [data, filters, out]
