"""Random shapes of the templates and workloads, the same in every process: what `experience.py --random` measures.

A shape is made of sizes that occur: powers of two, round numbers, and any. Products have few rows, few columns, a short
sum, or none of these; the work of a shape is bounded, so that a slow configuration takes a tenth of a second.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np

Shape: TypeAlias = tuple[str, tuple[int, ...], dict[str, Any]]
"""The template or workload, its sizes and its options."""

LEAST, MOST = 2e4, 2e8
"""The smallest and the largest number of multiplications and additions in pairs."""


class Sizes:
    """Random sizes from `rng`."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def between(self, least: int, most: int) -> int:
        """Choose a size evenly by its logarithm: a power of two, a round number, or any."""
        size = math.exp(self.rng.uniform(math.log(least), math.log(most + 1)))
        match self.one_of("power", "round", "any"):
            case "power":
                size = 2 ** round(math.log2(size))
            case "round":
                unit = 1 if size < 16 else 8 if size < 128 else self.one_of(16, 50, 100)
                size = round(size / unit) * unit
        return min(max(int(size), least), most)

    def one_of(self, *values: Any) -> Any:
        """Choose one of the values."""
        return values[self.rng.integers(len(values))]


def product(s: Sizes) -> tuple[int, int, int]:
    """Choose the rows, the length of the sums, and the columns of a product."""
    low, high = (16, 2048), (64, 4096)
    bounds = s.one_of(((1, 16), high, high), ((1, 40), high, high), (low, low, low), (low, low, low),
                      (high, low, (1, 64)), (low, (4, 64), low))  # fmt: skip
    while True:
        sizes = tuple(s.between(*each) for each in bounds)
        if LEAST <= math.prod(sizes) <= MOST:
            return sizes


def matmul(s: Sizes) -> Shape:
    return "matmul", product(s), {}


def batch_matmul(s: Sizes) -> Shape:
    while True:
        sizes = s.between(2, 32), s.between(4, 256), s.between(16, 256), s.between(16, 256)
        if LEAST <= math.prod(sizes) <= MOST:
            return "batch_matmul", sizes, {}


def window(s: Sizes) -> tuple[int, int, int, int, int, int]:
    """Choose channels, pixels along an axis, filters, the width of a window, its stride and padding."""
    while True:
        width = s.one_of(1, 1, 3, 3, 3, 5, 7)
        channels, filters = s.between(3 if width > 1 else 16, 512), s.between(16, 512)
        pixels = s.one_of(7, 14, 28, 56, 112, s.between(6, 120))
        stride, padding = s.one_of(1, 1, 2), s.one_of(width // 2, width // 2, 0)
        if pixels + 2 * padding < width:
            continue
        if 1e6 <= channels * filters * (pixels / stride) ** 2 * width**2 <= MOST:
            return channels, pixels, filters, width, stride, padding


def conv2d(s: Sizes) -> Shape:
    channels, pixels, filters, width, stride, padding = window(s)
    wide = max(width, round(pixels * s.one_of(1, 1, 1, 0.5, 1.3)))
    kwargs = {"stride": stride, "padding": padding, "layout": s.one_of("NCHW", "NHWC")}
    return "conv2d", (1, channels, pixels, wide, filters, width, width), kwargs


def rows(s: Sizes) -> tuple[int, ...]:
    while True:
        sizes = s.between(8, 4096), s.between(16, 4096)
        if 2e4 <= math.prod(sizes) <= 4e6:
            return sizes


def images(s: Sizes) -> tuple[int, int, int, int]:
    """Choose images, channels, rows and columns of a pooling."""
    pixels = s.one_of(7, 14, 28, 56, s.between(8, 100))
    return 1, s.between(16, 256), pixels, pixels


def pool(s: Sizes) -> tuple[int, ...]:
    width = s.one_of(2, 2, 3, 5)
    return (*images(s), width, s.one_of(1, 2, width), s.one_of(0, width // 2) if width < 5 else 2)


def depthwise(s: Sizes) -> tuple[int, ...]:
    width = s.one_of(3, 3, 5, 7)
    return (*images(s), width, s.one_of(1, 1, 2), width // 2)


def image_conv(s: Sizes) -> tuple[int, ...]:
    channels, pixels, filters, width, stride, padding = window(s)
    return 1, channels, pixels, pixels, filters, width, stride, padding


def nhwc(s: Sizes) -> tuple[int, ...]:
    n, channels, y, x, *rest = image_conv(s)
    return (n, y, x, channels, *rest)


def conv1d(s: Sizes) -> tuple[int, ...]:
    width = s.one_of(1, 3, 5, 9)
    return 1, s.between(8, 256), s.between(32, 2048), s.between(16, 256), width, s.one_of(1, 2), width // 2


def conv3d(s: Sizes) -> tuple[int, ...]:
    return 1, s.between(3, 32), s.between(4, 12), *(s.one_of(14, 20, 28),) * 2, s.between(16, 64), 3, s.one_of(1, 2), 1


def transposed(s: Sizes) -> tuple[int, ...]:
    pixels = s.one_of(7, 14, 16, 28)
    return 1, s.between(8, 128), pixels, pixels, s.between(16, 64), s.one_of(2, 3, 4), 2, s.one_of(0, 1)


def winograd(s: Sizes) -> tuple[int, ...]:
    pixels = s.one_of(14, 20, 28, 56)
    return 1, s.between(16, 128), pixels, pixels, s.between(16, 128)


def attention(s: Sizes) -> tuple[int, ...]:
    return s.between(1, 8), s.between(32, 256), s.one_of(32, 64, 128)


def moderate(s: Sizes) -> tuple[int, ...]:
    return tuple(s.between(32, 800) for _ in range(3))


def few_rows(s: Sizes) -> Shape:
    """Choose a product of few rows: one that waits for memory, or whose columns end inside a vector."""
    while True:
        sizes = s.between(1, 8), s.between(64, 4096), s.between(64, 4096)
        if LEAST <= math.prod(sizes) <= MOST:
            return "matmul", sizes, {}


def some_rows(s: Sizes) -> Shape:
    """Choose a product whose number of rows makes its time depend on both memory and multiplications."""
    while True:
        sizes = s.between(16, 250), s.between(200, 4000), s.between(200, 4000)
        if math.prod(sizes) <= 2 * MOST:
            return "matmul", sizes, {}


def whole_window(s: Sizes) -> Shape:
    """Choose a convolution whose window is as large as the image, or nearly: few pixels of long sums."""
    pixels = s.one_of(3, 5, 6, 7, 8)
    width = max(pixels - s.one_of(0, 0, 1, 2), 2)
    sizes = 1, s.between(8, 512), pixels, pixels, s.between(16, 512), width, width
    return "conv2d", sizes, {"stride": 1, "padding": 0, "layout": s.one_of("NCHW", "NHWC")}


def narrow_image(s: Sizes) -> Shape:
    """Choose a convolution of NCHW whose rows of pixels do not fill vectors evenly."""
    pixels, width, stride = s.between(6, 40), s.one_of(3, 3, 5), s.one_of(1, 1, 2)
    sizes = 1, s.between(8, 128), pixels, max(width, round(pixels * s.one_of(1, 0.5, 1.3))), s.between(16, 256)
    return "conv2d", (*sizes, width, width), {"stride": stride, "padding": s.one_of(width // 2, 0), "layout": "NCHW"}


def pooling(s: Sizes) -> Shape:
    return f"sketch-{s.one_of('max', 'avg')}_pool2d", pool(s), {}


def row_reduction(s: Sizes) -> Shape:
    return f"sketch-{s.one_of('row_sum', 'row_min', 'row_argmax', 'norm', 'sum_and_max')}", rows(s), {}


def tokens(s: Sizes) -> Shape:
    """Choose a row-wise function of the sizes that transformers have."""
    return f"sketch-{s.one_of('softmax', 'layer_norm')}", (s.between(64, 1536), s.one_of(64, 128, 256, 384, 768)), {}


def heads(s: Sizes) -> Shape:
    return "sketch-attention", (s.between(2, 12), s.between(32, 256), s.one_of(32, 64)), {}


def channels(s: Sizes) -> Shape:
    return "sketch-depthwise_conv2d", depthwise(s), {}


OUTLIERS = few_rows, whole_window, pooling, few_rows, narrow_image, row_reduction, heads, tokens, channels
"""Kinds of shapes that predictions got wrong most."""

SKETCHES: dict[str, Callable[[Sizes], tuple[int, ...]]] = {
    "matmul": product, "matmul_bias_relu": product, "matmul_bias_gelu": product, "matmul_transposed": product,
    "matmul_chain": lambda s: (*moderate(s), s.between(32, 400)), "matmul_int8": moderate,
    "batch_matmul": lambda s: batch_matmul(s)[1], "attention": attention, "conv1d": conv1d, "conv2d": image_conv,
    "conv2d_nhwc": nhwc, "conv3d": conv3d, "depthwise_conv2d": depthwise, "conv2d_transposed": transposed,
    "conv2d_bn_relu": image_conv, "conv2d_winograd": winograd, "max_pool2d": pool, "avg_pool2d": pool,
    "row_sum": rows, "row_min": rows, "row_argmax": rows, "norm": rows, "softmax": rows, "layer_norm": rows,
    "sum_and_max": rows,
}  # fmt: skip


def shapes(seed: int) -> Iterator[Shape]:
    """Yield shapes without end: products, convolutions and sketches in turn, each kind of sketch once a round.

    The seed decides the shapes. A sketch is named "sketch-" and its workload.
    """
    s = Sizes(np.random.default_rng(seed))
    while True:
        for number, (name, sizes) in enumerate(SKETCHES.items()):
            yield matmul(s)
            yield batch_matmul(s) if number % 8 == 7 else conv2d(s)
            if number % 2:
                yield matmul(s) if number % 4 == 1 else conv2d(s)
            yield f"sketch-{name}", sizes(s), {}


def packed_product(s: Sizes) -> Shape:
    """Choose a product with weights that are packed ahead, as those of perceptrons and of attention are."""
    while True:
        sizes = s.one_of(1, s.between(16, 512), s.between(16, 512)), s.between(64, 3072), s.between(64, 3072)
        if 1e6 <= math.prod(sizes) <= MOST:
            return "matmul", sizes, {"weights": "packed"}


def packed_conv(s: Sizes) -> Shape:
    """Choose a channel-last convolution with weights that are packed ahead."""
    channels, pixels, filters, width, stride, padding = window(s)
    sizes = 1, channels, pixels, pixels, filters, width, width
    return "conv2d", sizes, {"stride": stride, "padding": padding, "layout": "NHWC", "weights": "packed"}


OF_MODELS = packed_conv, packed_product, packed_conv, batch_matmul, packed_conv, packed_product, packed_conv, tokens
"""Kinds of shapes that are the nodes of models."""


def depthwise_layer(s: Sizes) -> Shape:
    """Choose a convolution with a filter for each channel, in either layout."""
    while True:
        width, pixels = s.one_of(3, 3, 5, 7), s.one_of(7, 14, 28, 56, 112, s.between(6, 120))
        stride, wide = s.one_of(1, 1, 2), max(width, round(pixels * s.one_of(1, 1, 1, 0.5, 1.3)))
        channels = s.between(8, 1280)
        if 1e5 <= channels * pixels * wide * (width / stride) ** 2 <= 4e7:
            padding, layout = s.one_of(width // 2, width // 2, 0), s.one_of("NHWC", "NHWC", "NCHW")
            kwargs = {"stride": stride, "padding": padding, "layout": layout}
            return "depthwise_conv2d", (1, channels, pixels, wide, width, width), kwargs


def depthwise_batch(s: Sizes) -> Shape:
    """Choose a depthwise convolution: of several images, of 7×7 in NCHW, or with few operations for its bytes."""
    while True:
        images, width, stride = s.one_of(1, 2, 4, 8), s.one_of(3, 5, 7), s.one_of(1, 1, 2)
        layout = s.one_of("NHWC", "NHWC", "NCHW")
        if images == 1 and not (width == 7 and layout == "NCHW") and (width, stride) != (3, 2):
            continue
        channels, pixels = s.one_of(32, 64, 128, 256, s.between(8, 400)), s.one_of(14, 28, 40, 80, s.between(10, 160))
        if 1e6 <= images * channels * pixels**2 * (width / stride) ** 2 <= 6e7:
            kwargs = {"stride": stride, "padding": width // 2, "layout": layout}
            return "depthwise_conv2d", (images, channels, pixels, pixels, width, width), kwargs


def separable_layer(s: Sizes) -> Shape:
    """Choose a block of MobileNets: a depthwise convolution and the one of 1×1 after it, in either layout."""
    while True:
        width, pixels, stride = s.one_of(3, 3, 5), s.one_of(7, 14, 28, 56, 112, s.between(7, 100)), s.one_of(1, 1, 2)
        channels = s.between(16, 1024)
        filters = s.one_of(channels, 2 * channels, s.between(16, 1024))
        if 1e6 <= channels * (filters + width**2) * (pixels / stride) ** 2 <= 1.5 * MOST:
            kwargs = {"stride": stride, "padding": width // 2, "layout": s.one_of("NHWC", "NCHW"), "bias": True,
                      "activation": s.one_of("relu", "relu6"), "weights": "packed"}  # fmt: skip
            return "separable_conv2d", (1, channels, pixels, pixels, filters, width, width), kwargs


def in_rows(*kinds: Callable[[Sizes], Shape]) -> Callable[[Sizes], Shape]:
    """Make a function that chooses a shape of these kinds in NCHW, where vectors run along rows."""

    def choose(s: Sizes) -> Shape:
        while True:
            shape = s.one_of(*kinds)(s)
            if shape[2]["layout"] == "NCHW":
                return shape

    return choose


def winograd_layer(s: Sizes) -> Shape:
    """Choose a convolution of 3×3 or 5×5 and stride 1 by Winograd's algorithm, with weights that are packed ahead."""
    while True:
        width, pixels = s.one_of(3, 3, 3, 5), s.one_of(7, 14, 28, 56, s.between(8, 72))
        wide, channels = max(width, round(pixels * s.one_of(1, 1, 0.5, 1.3))), s.between(32, 512)
        filters = s.one_of(channels, s.between(32, 512))
        if 5e6 <= channels * filters * pixels * wide * width**2 <= 2 * MOST:
            kwargs = {"padding": s.one_of(width // 2, width // 2, 0), "layout": s.one_of("NHWC", "NHWC", "NCHW")}
            sizes = 1, channels, pixels, wide, filters, width, width
            return "conv2d_winograd", sizes, kwargs | {"weights": "packed"}


def grouped_layer(s: Sizes) -> Shape:
    """Choose a convolution in groups, as ResNeXt and RegNet have them, with weights that are packed ahead."""
    while True:
        width, pixels, stride = s.one_of(3, 3, 3, 5, 1), s.one_of(7, 14, 28, 56, s.between(6, 60)), s.one_of(1, 1, 2)
        inner, groups = s.one_of(4, 8, 16, 24, 32, s.between(3, 48)), s.between(2, 64)
        channels, out = inner * groups, -(-pixels // stride)
        if 5e6 <= channels * inner * out**2 * width**2 <= MOST and 24 <= channels <= 2048:
            kwargs = {"padding": width // 2, "stride": stride, "weights": "packed"}
            return "group_conv2d", (1, channels, pixels, pixels, channels, width, width, groups), kwargs


def narrow_groups(s: Sizes) -> Shape:
    """Choose a convolution whose groups have few channels, often with weights that are not packed ahead."""
    while True:
        width, pixels, stride = s.one_of(3, 3, 5, 1), s.one_of(7, 14, 28, 56, s.between(6, 60)), s.one_of(1, 1, 2)
        inner, groups = s.between(2, 24), s.between(2, 128)
        outputs, out = s.one_of(inner, s.between(2, 32)), -(-pixels // stride)
        if 1e6 <= groups * inner * outputs * out**2 * width**2 <= MOST and groups * max(inner, outputs) <= 2048:
            kwargs = {"padding": width // 2, "stride": stride, "weights": s.one_of("HWIO", "HWIO", "packed")}
            sizes = 1, groups * inner, pixels, pixels, groups * outputs, width, width, groups
            return "group_conv2d", sizes, kwargs


def line_layer(s: Sizes) -> Shape:
    """Choose a convolution in one dimension, as models of sound and of time series have them."""
    while True:
        width, length = s.one_of(2, 3, 3, 5, 7, 10), s.between(40, 4000)
        channels, filters = s.one_of(64, 128, 256, 512, s.between(8, 512)), s.one_of(128, 256, 512, s.between(16, 512))
        stride, padding = s.one_of(1, 1, 2, 2, -(-width // 2)), s.one_of(0, width // 2)
        if length > width and 5e6 <= channels * filters * width * length / stride <= 4 * MOST:
            kwargs = {"stride": [1, stride], "padding": [0, padding], "layout": "NCHW", "weights": "packed"}
            return "conv2d", (1, channels, 1, length, filters, 1, width), kwargs


def strassen_product(s: Sizes) -> Shape:
    """Choose a product by Strassen's algorithm, of about the sizes for which that is an implementation of `matmul`."""
    while True:
        m, k, n = s.one_of(64, 128, 197, 256, s.between(48, 2000)), s.between(96, 4096), s.between(96, 4096)
        if 5e6 <= m * k * n <= 4 * MOST:
            return "matmul_strassen", (m, k, n), {"weights": s.one_of("packed", "packed", "packed", "plain")}


def attention_layer(s: Sizes) -> Shape:
    """Choose an attention of as many queries as keys: some with fewer heads of keys, some causal."""
    n, d = s.one_of(197, s.between(64, 2048), s.between(64, 2048)), s.one_of(32, 64, 64, 80, 96, 128)
    heads = min(s.between(1, 16), max(1, int(2 * MOST / (n * n * d))))
    kv_heads = s.one_of(heads, heads, next(count for count in (4, 3, 2, 1) if heads % count == 0))
    return "attention", (1, heads, n, n, d, kv_heads), {"causal": s.one_of(False, False, True)}


def in_turns(*kinds: Callable[[Sizes], Shape]) -> Callable[[int], Iterator[Shape]]:
    """Make the function that yields shapes of these kinds without end, of each in turn; a seed decides them."""

    def endless(seed: int) -> Iterator[Shape]:
        s = Sizes(np.random.default_rng(seed))
        while True:
            yield from (kind(s) for kind in kinds)

    return endless
