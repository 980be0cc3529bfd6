from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox.errors import ArgumentError, TemplateError
from pegbox.templates import pack_weights

NAME = "separable_conv2d"
HALVING = "llvm -mcpu=znver4 -num-cores 1"  # computes vectors of AVX-512 in halves
AVX2, AVX512 = ("llvm -mcpu=x86-64-v3 -num-cores 1", "llvm -mcpu=x86-64-v4 -num-cores 1")


def expected(x: Any, w: Any, b: Any, point: Any, stride: int, pad: int, top: float, low: float = 0.0) -> Any:
    """Convolve NCHW images by NumPy in float64, with filters (C, 1, KH, KW) and (O, C, 1, 1), and limits between."""
    wide = np.pad(x.astype("float64"), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    kh, kw = w.shape[2:]
    rows, columns = ((extent - k) // stride + 1 for extent, k in zip(wide.shape[2:], (kh, kw), strict=True))
    middle = b[:, None, None] + sum(
        wide[:, :, i : i + rows * stride : stride, j : j + columns * stride : stride] * w[:, 0, i, j, None, None]
        for i in range(kh)
        for j in range(kw)
    )
    return np.einsum("nchw,oc->nohw", np.clip(middle, low, top), point[:, :, 0, 0])


@pytest.mark.parametrize("activation", ["relu", "relu6"])
@pytest.mark.parametrize("weights", ["", "packed"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    ("size", "outputs", "kernel", "stride"),
    [((9, 8), 24, 3, 1), ((12, 12), 20, 5, 2), ((7, 7), 9, 3, 1), ((8, 16), 40, 3, 2), ((5, 6), 17, 1, 1)],
)
def test_values_are_those_of_two_convolutions(
    size: tuple[int, int], outputs: int, kernel: int, stride: int, layout: str, weights: str, activation: str
) -> None:
    rng, c, pad = np.random.default_rng(0), 19, kernel // 2
    x, w = rng.standard_normal((2, c, *size)), rng.standard_normal((c, 1, kernel, kernel))
    b, point = 3 * rng.standard_normal(c), rng.standard_normal((outputs, c, 1, 1))
    x, w, b, point = (array.astype("float32") for array in (x, w, b, point))
    kwargs = {"stride": stride, "padding": pad, "activation": activation, "bias": True, "layout": layout}
    task = pb.create_task(NAME, (2, c, *size, outputs, kernel, kernel), {**kwargs, "weights": weights})
    filters = point if layout == "NCHW" else point.transpose(0, 2, 3, 1).copy()
    given = [x, w] if layout == "NCHW" else [x.transpose(0, 2, 3, 1).copy(), w.transpose(2, 3, 1, 0).copy()]
    given += [b, pack_weights(task, filters) if weights else filters]
    want = expected(x, w, b, point, stride, pad, 6 if activation == "relu6" else np.inf)
    for digits in task.space.sample(4, rng):
        found = np.full(task.arguments()[-1].shape, np.nan, "float32")
        pb.build(task, config=task.space.config(digits))(*given, found)
        got = found if layout == "NCHW" else found.transpose(0, 3, 1, 2)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("layout", "channels", "tile"),
    [
        ("NHWC", 16, {"point_h": 1, "point_w": 4}),
        ("NCHW", 16, {"point_lanes": "pixels", "point_o": 4}),
        ("NCHW", 256, {"point_lanes": "channels", "point_h": 1, "point_w": 4}),
    ],
    ids=["NHWC", "NCHW", "NCHW-channels"],
)
def test_each_block_begins_with_the_rows_that_it_reads(
    layout: str, channels: int, tile: dict[str, object], golden: Callable[[object], None]
) -> None:
    kwargs = {"padding": 1, "layout": layout, "activation": "relu", "bias": True, "weights": "packed"}
    task = pb.create_task(NAME, (1, channels, 8, 16, 24, 3, 3), kwargs, target=AVX2)
    chosen = {"block": 4, "tile_h": 2, "unroll_c": 2, "order_tiles": "po", **tile}
    golden(task.show_ir(next(c for c in task.space.iterate() if all(c[k].val == v for k, v in chosen.items()))))


def test_blocks_of_rows_fit_the_second_cache() -> None:
    task = pb.create_task(NAME, (1, 512, 56, 56, 64, 3, 3), {"padding": 1, "layout": "NHWC"}, target=AVX512)
    blocks = [entity.value() for entity in task.space.knobs["block"].entities]
    assert blocks == [b for b in (1, 2, 4, 7, 8, 14, 28, 56) if b == 1 or b * 56 * 512 * 4 <= task.target.caches.l2]


def test_vectors_of_sums_end_at_their_half_where_that_takes_less_time() -> None:
    """Check that 24 channels are three vectors with AVX2, and a vector and a half for a core that halves vectors."""
    for target, sizes in ((HALVING, {16, 8}), (AVX512, {16}), (AVX2, {8})):
        task = pb.create_task(NAME, (1, 16, 8, 8, 24, 1, 1), {"layout": "NHWC", "weights": "packed"}, target=target)
        lines = task.show_ir(task.space.get(0)).splitlines()
        loops = [
            lines[i - 1] for i, line in enumerate(lines) if line.lstrip().startswith("sums[") and "+ middle" in line
        ]
        assert {int(loop.partition("range(")[2].rstrip("):")) for loop in loops} == sizes


def test_an_epilogue_follows() -> None:
    from pegbox import te

    def residual(c: te.Tensor) -> te.Tensor:
        other = te.placeholder(c.shape, name="other")
        return te.compute(c.shape, lambda *i: c(*i) + other(*i), name="sum")

    task = pb.create_task(NAME, (1, 9, 6, 7, 10, 3, 3), {"padding": 1, "layout": "NHWC"}, epilogue=residual)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(spec.shape).astype(spec.dtype) for spec in task.arguments()]
    (want,) = task.reference(arrays[:-1])
    pb.build(task)(*arrays)
    np.testing.assert_allclose(arrays[-1], want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((1, 0, 4, 4, 8, 3, 3), {}, "separable_conv2d: C=0 is not a size"),
        ((1, 4, 4, 4, 0, 3, 3), {"padding": 1}, "separable_conv2d: O=0 is not a size"),
        ((1, 4, 4, 4, 8, 5, 3), {}, "separable_conv2d: the filter spans 5 along H"),
        ((1, 4, 4, 4, 8, 3, 3), {"stride": 0}, "separable_conv2d: stride=0 is neither"),
        ((1, 4, 4, 4, 8, 3, 3), {"activation": "silu"}, "separable_conv2d: activation='silu' is not known here; give"),
        ((1, 4, 4, 4, 8, 3, 3), {"layout": "NHCW"}, "separable_conv2d: layout='NHCW' is not a layout here"),
        ((1, 4, 4, 4, 8, 3, 3), {"weights": "IO"}, "separable_conv2d: weights='IO' is not a layout here"),
    ],
)
def test_bad_arguments_are_refused(args: tuple[int, ...], kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        pb.create_task(NAME, args=args, kwargs=kwargs)


def test_filters_of_pixels_are_packed() -> None:
    task = pb.create_task(NAME, (1, 4, 6, 6, 9, 3, 3), {"weights": "packed"}, target=AVX2)
    filters = np.arange(36, dtype="float32").reshape(9, 4, 1, 1)
    packed = pack_weights(task, filters)
    assert packed.shape == (2, 1, 1, 4, 8)
    np.testing.assert_array_equal(packed[1, 0, 0, :, 0], filters[8, :, 0, 0])
    assert not packed[1, ..., 1:].any()
    with pytest.raises(ArgumentError, match=r"the weights are float32 of shape \(9, 4, 1, 1\), got float32 of shape"):
        pack_weights(task, np.zeros((9, 4, 3, 3), "float32"))


def test_predictions_begin_with_rows_that_are_read_once() -> None:
    task = pb.create_task(NAME, (1, 16, 28, 28, 16, 3, 3), {"padding": 1, "layout": "NCHW"}, target=AVX512)
    prefers = task.preference
    assert prefers is not None
    found = {tuple(c[name].val for name in ("unroll_kh", "tile_h", "tile_w")): prefers(c) for c in task.space.iterate()}
    assert found[True, 2, 32]
    assert not found[False, 2, 32]
    assert not found[True, 4, 16]


def test_predictions_begin_with_the_largest_tiles_where_all_are_small() -> None:
    task = pb.create_task(NAME, (1, 256, 1, 28, 16, 3, 3), {"padding": 1, "layout": "NCHW"}, target=AVX512)
    prefers = task.preference
    assert prefers is not None
    assert {c["tile_w"].val for c in task.space.iterate() if prefers(c)} == {32}


def test_rows_that_few_tiles_divide_have_a_smaller_last_tile() -> None:
    task = pb.create_task(NAME, (1, 24, 19, 19, 16, 3, 3), {"padding": 1, "layout": "NCHW"}, target=AVX512)
    heights = {c["block"].val: c["tile_h"].val for c in task.space.iterate() if c["tile_h"].val > 1}
    assert set(heights) == {19}


def test_vectors_of_rows_take_about_the_least_time() -> None:
    for columns, target, lanes in ((28, AVX512, {16}), (20, AVX512, {16}), (20, HALVING, {8}), (28, HALVING, {16, 8})):
        task = pb.create_task(NAME, (1, 4, 4, columns, 16, 3, 3), {"padding": 1, "layout": "NCHW"}, target=target)
        assert {(c["copy"].val, c["lanes"].val) for c in task.space.iterate()} == {(False, size) for size in lanes}


def test_transposed_tiles_store_at_least_half_a_vector_of_a_row() -> None:
    for layout, is_transposed in (("NCHW", True), ("NHWC", False)):
        task = pb.create_task(NAME, (1, 512, 4, 28, 32, 3, 3), {"padding": 1, "layout": layout}, target=AVX512)
        widths = {c["point_w"].val for c in task.space.iterate() if "point_w" in c}
        assert (min(widths) >= 8) is is_transposed


def test_sums_of_few_channels_are_not_transposed() -> None:
    for channels, lanes in ((24, {"pixels"}), (512, {"channels"})):
        task = pb.create_task(NAME, (1, channels, 14, 14, 32, 3, 3), {"padding": 1, "layout": "NCHW"}, target=AVX512)
        assert {c["point_lanes"].val for c in task.space.iterate()} == lanes


def test_sums_of_bytes_are_not_transposed() -> None:
    """Half a vector of pixels, each with a vector of channels, is more than the registers hold."""
    rng = np.random.default_rng(0)
    task = pb.create_task(NAME, (1, 8, 9, 40, 16, 3, 3), {"layout": "NCHW", "dtype": "int8"}, target=AVX2)
    assert {c["point_lanes"].val for c in task.space.iterate()} == {"pixels"}
    x, w, point = (rng.integers(-2, 3, spec.shape, "int8") for spec in task.arguments()[:3])
    found = np.zeros(task.arguments()[3].shape, "int8")
    pb.build(task, config=task.space.config(task.space.sample(1, rng)[0]))(x, w, point, found)
    want = expected(x, w, np.zeros(8), point, 1, 0, np.inf, -np.inf)
    np.testing.assert_array_equal(found, want.astype("int64").astype("int8"))


@pytest.mark.parametrize(("columns", "rows_apart"), [(28, 36), (32, 29)])
def test_pixels_of_a_channel_are_one_line_and_channels_begin_at_whole_vectors(columns: int, rows_apart: int) -> None:
    kwargs = {"padding": 1, "layout": "NCHW"}
    task = pb.create_task(NAME, (1, 24, 28, columns, 16, 3, 3), kwargs, target=AVX512)
    config = next(c for c in task.space.iterate() if c["block"].val == 28 and c["point_vectors"].val == 2)
    assert f"middle = alloc(float32[1, 24, {rows_apart}, {columns}], global)" in task.show_ir(config)


def test_images_beyond_the_second_cache_are_prefetched() -> None:
    for rows, is_far in ((4, False), (400, True)):
        kwargs = {"padding": 1, "layout": "NHWC"}
        task = pb.create_task(NAME, (1, 16, rows, 400, 16, 3, 3), kwargs, target=AVX512)
        text = task.show_ir(next(c for c in task.space.iterate() if c["block"].val == 1))
        assert ("prefetch(address(data[" in text) is is_far


def test_predictions_begin_with_pixels_whose_channels_are_read_together() -> None:
    task = pb.create_task(NAME, (1, 64, 8, 8, 16, 3, 3), {"padding": 1, "layout": "NHWC"}, target=AVX512)
    prefers = task.preference
    assert prefers is not None
    found = {c["order"].val: prefers(c) for c in task.space.iterate()}
    assert found == {"yxc": True, "ycx": False, "cyx": False}


def test_every_second_column_is_picked_from_whole_rows_where_registers_hold_them() -> None:
    for columns, is_whole in ((56, True), (1024, False)):
        kwargs = {"padding": 1, "stride": 2, "layout": "NCHW"}
        task = pb.create_task(NAME, (1, 4, 4, columns, 16, 3, 3), kwargs, target=AVX512)
        found = {(c["copy"].val, 2 * c["tile_w"].val >= columns) for c in task.space.iterate()}
        assert (found == {(False, True)}) is is_whole


@pytest.mark.parametrize(
    ("shape", "kwargs", "cpu"),
    [
        ((1, 17, 9, 14, 48, 5, 5), {"padding": 2}, "emeraldrapids"),
        ((1, 1, 83, 16, 24, 7, 7), {"padding": 3}, "emeraldrapids"),
        ((1, 64, 1, 23, 24, 1, 1), {"stride": 2}, "emeraldrapids"),
        ((1, 1024, 44, 30, 8, 7, 7), {"stride": 3, "dtype": "float64"}, "emeraldrapids"),
        ((1, 64, 24, 135, 64, 7, 7), {"stride": 2, "padding": 3, "dtype": "float64"}, "znver4"),
        ((1, 100_000, 8, 8, 8, 3, 3), {"padding": 1}, "x86-64"),
        ((1, 4096, 19, 19, 8, 3, 3), {"padding": 1}, "emeraldrapids"),
    ],
)
def test_fast_choices_are_required_only_where_there_are_some(
    shape: tuple[int, ...], kwargs: dict[str, Any], cpu: str
) -> None:
    target = f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={cpu} -num-cores 1"
    task = pb.create_task(NAME, shape, {"layout": "NCHW", **kwargs}, target=target)
    assert next(task.space.iterate(), None) is not None
