from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
from guarded_calls import beside_pages, own

import pegbox as pb
from pegbox.errors import TemplateError
from pegbox.search.models.prediction import is_doomed, predicted_configs
from pegbox.testing import TemplateContract


class TestDepthwise(TemplateContract):
    template = "depthwise_conv2d"
    target = "llvm -num-cores 2"
    cases: ClassVar[Any] = [
        (1, 6, 8, 9, 3, 3, 1, 1),
        (2, 9, 7, 7, 5, 5, 2, 2),
        (1, 1, 5, 4, 1, 1),
        (1, 4, 6, 9, 3, 2, (2, 1), (1, 0, 0, 2), (1, 2), "NCHW", "HWIO"),
        (1, 20, 9, 8, 3, 3, 1, 1, 1, "NHWC"),
        (2, 17, 7, 7, 5, 5, 2, 2, 1, "NHWC"),
        (1, 8, 6, 6, 2, 2, 1, 0, 1, "NHWC", "OIHW", "float64"),
        (1, 3, 5, 9, 3, 3, (1, 2), (0, 1), (2, 1), "NHWC", "OHWI"),
    ]
    configs = 6


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_values_are_those_of_a_sum_over_shifted_images(layout: str) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 6, 9, 8)).astype("float32"), rng.standard_normal((6, 1, 3, 3)).astype("float32")
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    expected = sum(
        wide[:, :, i : i + 9 : 2, j : j + 8 : 2] * w[:, 0, i, j, None, None] for i in range(3) for j in range(3)
    )
    kwargs = {"stride": 2, "padding": 1, "layout": layout}
    task = pb.create_task("depthwise_conv2d", args=(1, 6, 9, 8, 3, 3), kwargs=kwargs)
    operands = [x, w] if layout == "NCHW" else [x.transpose(0, 2, 3, 1).copy(), w.transpose(2, 3, 1, 0).copy()]
    found = np.empty([spec.shape for spec in task.arguments()][-1], "float32")
    pb.build(task, config=task.space.get(0))(*operands, found)
    given = found if layout == "NCHW" else found.transpose(0, 3, 1, 2)
    np.testing.assert_allclose(given, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((1, 0, 4, 4, 3, 3), {}, "depthwise_conv2d: C=0 is not a size"),
        ((1, 4, 4, 4, 5, 3), {}, "depthwise_conv2d: the filter spans 5 along H"),
        ((1, 4, 4, 4, 3, 3), {"stride": 0}, "depthwise_conv2d: stride=0 is neither"),
        ((1, 4, 4, 4, 3, 3), {"padding": (1, 2, 3)}, r"depthwise_conv2d: padding=\[?\(?1, 2, 3"),
        ((1, 4, 4, 4, 3, 3), {"layout": "NHCW"}, "depthwise_conv2d: layout='NHCW' is not a layout here"),
        ((1, 4, 4, 4, 3, 3), {"weights": "packed"}, "depthwise_conv2d: weights='packed' is not a layout here"),
    ],
)
def test_bad_arguments_are_refused(args: tuple[int, ...], kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        pb.create_task("depthwise_conv2d", args=args, kwargs=kwargs)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_sizes_that_overflow_are_refused(layout: str) -> None:
    with pytest.raises(TemplateError, match=r"depthwise_conv2d: an array of .* float32 has more than 2\^47 bytes"):
        pb.create_task("depthwise_conv2d", args=(1 << 31, 1 << 31, 64, 64, 3, 3), kwargs={"layout": layout})


@pytest.mark.parametrize(
    ("layout", "chosen"),
    [
        ("NCHW", {"tile_h": 4, "tile_w": 8, "unroll_kh": True, "copy": True}),
        ("NCHW", {"tile_h": 4, "tile_w": 8, "unroll_kh": True, "copy": False}),
        ("NHWC", {"tile_h": 2, "tile_w": 4, "unroll_kh": True}),
    ],
    ids=["NCHW", "NCHW-direct", "NHWC"],
)
def test_programs(layout: str, chosen: dict[str, object], golden: Callable[[object], None]) -> None:
    """No program branches in the main part of the loops."""
    kwargs = {"padding": 1, "layout": layout}
    task = pb.create_task("depthwise_conv2d", (1, 32, 16, 16, 3, 3), kwargs, target="llvm -mcpu=x86-64-v3 -num-cores 1")
    configs = task.space.iterate()
    golden(task.show_ir(next(c for c in configs if all(c[name].val == value for name, value in chosen.items()))))


def test_rows_of_a_stride_of_two_are_read_once(golden: Callable[[object], None]) -> None:
    """Tiles of whole rows pick even and odd columns in registers; wider rows, copies and other strides don't."""
    kwargs = {"stride": 2, "padding": 2}
    task = pb.create_task("depthwise_conv2d", (1, 4, 14, 27, 5, 5), kwargs, target="llvm -mcpu=x86-64-v4 -num-cores 1")
    texts = {c: task.show_ir(c) for c in task.space.iterate()}
    read = {c for c, text in texts.items() if "phases" in text}
    assert read == {c for c in texts if c["unroll_kh"].val and not c["copy"].val and c["tile_w"].val >= 14}
    golden(next(text for c, text in texts.items() if c in read and c["tile_h"].val == 7))


@pytest.mark.parametrize(
    ("size", "kernel", "kwargs"),
    [
        ((6, 31), (3, 3), {"padding": 1}),
        ((5, 32), (3, 3), {"padding": 1}),
        ((4, 64), (3, 3), {"padding": 1}),
        ((6, 27), (5, 5), {"padding": 2}),
        ((3, 9), (1, 1), {}),
        ((8, 13), (2, 7), {"padding": (0, 3)}),
        ((7, 40), (3, 4), {"padding": (1, 0, 2, 5)}),
        ((5, 20), (2, 3), {"padding": (1, 5)}),
        ((4, 21), (2, 3), {"padding": 1, "dilation": (1, 3)}),
        ((4, 30), (3, 3), {"padding": 1, "dtype": "float64"}),
    ],
)
def test_values_of_rows_of_a_stride_of_two(
    size: tuple[int, int], kernel: tuple[int, int], kwargs: dict[str, Any]
) -> None:
    task = pb.create_task("depthwise_conv2d", (2, 3, *size, *kernel), {"stride": 2, **kwargs})
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(spec.shape).astype(spec.dtype) for spec in task.arguments()]
    (expected,) = task.reference(arrays[:-1])
    configs = [c for c in task.space.iterate() if "phases" in task.show_ir(c)]
    assert configs
    for config in configs:
        pb.build(task, config=config)(*arrays)
        np.testing.assert_allclose(arrays[-1], expected, rtol=1e-4, atol=1e-5)


def test_the_last_vector_of_a_row_is_whole() -> None:
    task = pb.create_task(
        "depthwise_conv2d", (1, 4, 14, 14, 3, 3), {"padding": 1}, target="llvm -mcpu=x86-64-v4 -num-cores 1"
    )
    for config in task.space.iterate():
        text = task.show_ir(config)
        assert f"tile = alloc(float32[1, 1, {config['tile_h'].val}, {config['tile_w'].val}], local)" in text
        sums = [line for line in text.splitlines() if "tile[" in line or "vectorized" in line]
        loops = {before for before, line in itertools.pairwise(sums) if line.lstrip().startswith("tile[")}
        assert {loop.partition("range(")[2] for loop in loops if "vectorized" in loop} == {f"{config['lanes'].val}):"}


@pytest.mark.parametrize(("width", "lanes"), [(7, 1), (8, 1), (9, 2), (112, 2)])
def test_half_vectors_are_a_choice_where_whole_ones_differ(width: int, lanes: int) -> None:
    """AVX-512 has registers of 16 floats."""
    for cpu, most in ("x86-64-v4", 2), ("x86-64-v3", 1):
        task = pb.create_task(
            "depthwise_conv2d", (1, 4, 8, width, 3, 3), {"padding": 1}, target=f"llvm -mcpu={cpu} -num-cores 1"
        )
        found = len(task.space.knobs["lanes"].content()) if "lanes" in task.space.knobs else 1
        assert found == min(lanes, most)


@pytest.mark.parametrize(("cpu", "sizes"), [("znver4", {8, 16}), ("znver5", {16}), ("emeraldrapids", {16})])
def test_half_vectors_are_left_out_where_they_take_as_long_as_whole_ones(cpu: str, sizes: set[int]) -> None:
    """A Zen 4 computes the halves of a vector one by one."""
    task = pb.create_task(
        "depthwise_conv2d", (1, 4, 28, 28, 3, 3), {"padding": 1}, target=f"llvm -mcpu={cpu} -num-cores 1"
    )
    assert {config["lanes"].val for config in task.space.iterate()} == sizes


def test_predictions_prefer_tiles_with_few_loads_on_cores_with_whole_wide_vectors() -> None:
    args, kwargs = (1, 4, 56, 56, 3, 3), {"padding": 1}
    task, zen4 = (
        pb.create_task("depthwise_conv2d", args, kwargs, target=f"llvm -mcpu={cpu} -num-cores 1")
        for cpu in ("emeraldrapids", "znver4")
    )
    prefers = task.preference
    assert prefers is not None
    assert zen4.preference is None
    found = {(c["tile_h"].val, c["tile_w"].val) for c in task.space.iterate() if prefers(c)}
    assert {(4, 32), (7, 32), (4, 64)} <= found
    assert not found & {(2, 32), (14, 16), (7, 48)}  # more loads, narrower than half a row, more registers
    assert not any(c["copy"].val or not c["unroll_kh"].val for c in task.space.iterate() if prefers(c))


def test_sums_of_narrow_rows_are_half_vectors() -> None:
    task = pb.create_task(
        "depthwise_conv2d",
        (1, 4, 14, 14, 5, 5),
        {"stride": 2, "padding": 2},
        target="llvm -mcpu=x86-64-v4 -num-cores 1",
    )
    texts = [text for c in task.space.iterate() if "phases" in (text := task.show_ir(c))]
    assert texts
    assert all(re.search(r"sums = alloc\(float32\[1, 1, \d, 3, 1, 8\], local\)", text) for text in texts)


def test_vectors_of_channels_are_whole_registers_in_narrow_images() -> None:
    kwargs = {"padding": 1, "layout": "NHWC"}
    task = pb.create_task("depthwise_conv2d", (1, 64, 7, 7, 3, 3), kwargs, target="llvm -mcpu=x86-64-v4 -num-cores 1")
    for config in task.space.iterate():
        loops = [line for line in task.show_ir(config).splitlines() if "vectorized" in line]
        assert loops
        assert all(line.endswith("vectorized range(16):") for line in loops)


def test_blocks_of_channels_go_down_the_rows(golden: Callable[[object], None]) -> None:
    """960 channels of 7 x 7 are 60 vectors: half of 48 KiB holds 4 rows of 12."""
    kwargs = {"padding": 1, "layout": "NHWC"}
    target = "llvm -mcpu=x86-64-v4 -num-cores 1 -caches=48,2048,5120"
    task = pb.create_task("depthwise_conv2d", (1, 960, 7, 7, 3, 3), kwargs, target=target)
    configs = list(task.space.iterate())
    assert {(c["order"].val, c["vectors"].val) for c in configs} >= {("cycx", 6), ("cyxc", 6)}
    assert {c["vectors"].val for c in configs} == {1, 2, 3, 4, 6}
    chosen = {"order": "cycx", "tile_h": 1, "tile_w": 7, "vectors": 2, "unroll_kh": True}
    golden(task.show_ir(next(c for c in configs if all(c[name].val == value for name, value in chosen.items()))))


@pytest.mark.parametrize(
    ("size", "caches", "is_blocked"),
    [
        ((960, 7, 7), "48,2048,5120", True),
        ((960, 7, 7), "4,512,2048", False),  # L1 holds no block of four lines
        ((960, 7, 7), "48,256,2048", False),  # L2 does not hold the arrays
        ((976, 7, 7), "48,2048,5120", False),  # 61 vectors have no divisors
        ((960, 112, 112), "48,2048,5120", False),
        ((192, 28, 28), "48,2048,5120", True),  # two thirds of L1 hold four lines of a pixel
        ((256, 28, 28), "48,2048,5120", False),  # a column's lines share a quarter of L1
        ((64, 7, 7), "256,2048,5120", False),  # all channels are such a block
    ],
)
def test_channels_are_in_blocks_only_where_that_may_help(
    size: tuple[int, int, int], caches: str, is_blocked: bool
) -> None:
    kwargs = {"padding": 1, "layout": "NHWC"}
    target = f"llvm -mcpu=x86-64-v4 -num-cores 1 -caches={caches}"
    task = pb.create_task("depthwise_conv2d", (1, *size, 3, 3), kwargs, target=target)
    found = {len(c["order"].val) for c in task.space.iterate()}
    assert found == {4 if is_blocked else 3}


WIDE = "llvm -mcpu=x86-64-v4 -num-cores 1 -caches=48,2048,5120"


@pytest.mark.parametrize(
    ("rows", "heights"),
    [(33, {1, 3, 4}), (11, {1, 4}), (15, {1, 3, 5}), (8, {1, 2, 4, 8}), (6, {1, 2, 3, 6}), (3, {1, 3})],
)
def test_tiles_are_of_four_rows_if_no_such_height_divides_an_image(rows: int, heights: set[int]) -> None:
    kwargs = {"padding": 1, "layout": "NHWC"}
    task = pb.create_task("depthwise_conv2d", (1, 40, rows, 9, 3, 3), kwargs, target=WIDE)
    assert {c["tile_h"].val for c in task.space.iterate()} == heights


@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("stride", [1, 2])
def test_values_of_a_last_tile_with_fewer_rows(stride: int, cpu: str) -> None:
    kwargs = {"padding": 1, "stride": stride, "layout": "NHWC"}
    size, rng = 11 if stride == 1 else 21, np.random.default_rng(0)
    task = pb.create_task("depthwise_conv2d", (2, 20, size, 9, 3, 3), kwargs, target=f"llvm -mcpu={cpu} -num-cores 2")
    arrays = [rng.standard_normal(spec.shape).astype(spec.dtype) for spec in task.arguments()]
    (expected,) = task.reference(arrays[:-1])
    configs = [config for config in task.space.iterate() if config["tile_h"].val == 4]
    for config in configs[:: max(1, len(configs) // 6)]:
        arrays[-1][:] = np.nan
        pb.build(task, config=config)(*arrays)
        np.testing.assert_allclose(arrays[-1], expected, rtol=1e-4, atol=1e-5)


def test_lines_of_the_result_are_prefetched_pixels_ahead(golden: Callable[[object], None]) -> None:
    task = pb.create_task("depthwise_conv2d", (1, 40, 8, 20, 3, 3), {"layout": "NHWC"}, target=WIDE)
    chosen = {"tile_h": 2, "tile_w": 6, "vectors": 1, "order": "yxc", "unroll_kh": True, "prefetch": True}
    golden(task.show_ir(next(c for c in task.space.iterate() if all(c[k].val == v for k, v in chosen.items()))))
    ahead = [c for c in task.space.iterate() if c["prefetch"].val]
    assert ahead
    assert all(c["order"].val == "yxc" and c["tile_w"].val < 18 for c in ahead)


@pytest.mark.parametrize(
    ("size", "kernel", "kwargs", "target"),
    [
        ((60, 20, 20), 5, {"padding": 2}, WIDE),  # many products for each result
        ((60, 20, 20), 3, {"padding": 1, "stride": 2}, WIDE),
        ((60, 20, 20), 3, {"padding": 1}, "llvm -mcpu=x86-64-v3 -num-cores 1"),  # a vector is half a line
        ((60, 20, 20), 3, {"padding": 1, "layout": "NCHW"}, WIDE),
    ],
)
def test_results_that_are_stored_fast_have_no_prefetches(
    size: tuple[int, int, int], kernel: int, kwargs: dict[str, Any], target: str
) -> None:
    task = pb.create_task("depthwise_conv2d", (1, *size, kernel, kernel), {"layout": "NHWC", **kwargs}, target=target)
    assert "prefetch" not in task.space.knobs


@pytest.mark.parametrize(("size", "prefers"), [((60, 20, 20), True), ((64, 20, 20), False), ((64, 80, 80), True)])
def test_predictions_prefetch_where_stores_wait(size: tuple[int, int, int], prefers: bool) -> None:
    task = pb.create_task("depthwise_conv2d", (1, *size, 3, 3), {"padding": 1, "layout": "NHWC"}, target=WIDE)
    assert next(predicted_configs(task))["prefetch"].val == prefers


def test_lines_of_rows_are_prefetched_with_their_tile(golden: Callable[[object], None]) -> None:
    target = "llvm -mcpu=x86-64-v4 -num-cores 1 -caches=48,2,5120"
    task = pb.create_task("depthwise_conv2d", (1, 3, 8, 28, 3, 3), {"padding": 1}, target=target)
    chosen = {"tile_h": 4, "tile_w": 32, "unroll_kh": True, "copy": False}
    golden(task.show_ir(next(c for c in task.space.iterate() if all(c[k].val == v for k, v in chosen.items()))))
    assert all("prefetch" in task.show_ir(config) for config in task.space.iterate())


def test_values_of_rows_that_are_prefetched() -> None:
    task = pb.create_task("depthwise_conv2d", (1, 3, 9, 28, 3, 3), {"padding": 1}, target="llvm -caches=48,2,5120")
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(spec.shape).astype("float32") for spec in task.arguments()[:2])
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    expected = sum(wide[:, :, i : i + 9, j : j + 28] * w[:, 0, i, j, None, None] for i in range(3) for j in range(3))
    for row in task.space.sample(min(6, len(task.space)), rng):
        found = np.empty_like(x)
        pb.build(task, config=task.space.config(row))(x, w, found)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("size", "kwargs", "target"),
    [
        ((64, 20, 20), {}, WIDE),  # L2 holds the arrays
        ((64, 80, 80), {"stride": 2}, WIDE),
        ((64, 80, 80), {}, "llvm -mcpu=x86-64-v3 -num-cores 1 -caches=48,2048,5120"),  # a vector is half a line
    ],
)
def test_other_rows_are_not_prefetched(size: tuple[int, int, int], kwargs: dict[str, Any], target: str) -> None:
    task = pb.create_task("depthwise_conv2d", (1, *size, 3, 3), {"padding": 1, **kwargs}, target=target)
    assert "prefetch" not in task.show_ir(task.space.get(0))


@pytest.mark.parametrize(
    ("rows", "has_all"),
    [(33, True), (26, True), (28, False), (36, False)],
)
def test_tiles_are_high_where_only_low_ones_divide_the_rows(rows: int, has_all: bool) -> None:
    task = pb.create_task("depthwise_conv2d", (1, 8, rows, 30, 3, 3), {"padding": 1}, target=WIDE)
    heights = {c["tile_h"].val for c in task.space.iterate()}
    assert (5 in heights) == has_all
    assert next(predicted_configs(task))["tile_h"].val >= 4
    narrow = pb.create_task("depthwise_conv2d", (1, 8, rows, 30, 3, 3), {"padding": 1}, target=WIDE.replace("v4", "v3"))
    assert all(rows % c["tile_h"].val == 0 for c in narrow.space.iterate())


@pytest.mark.parametrize(
    ("size", "stride", "is_outside"),
    [
        ((72, 56, 56), 2, True),
        ((88, 28, 28), 2, True),
        ((120, 28, 28), 1, True),
        ((128, 56, 56), 2, False),  # a column's lines share an eighth of L1
        ((144, 80, 80), 2, False),  # L2 does not hold the arrays
        ((24, 12, 12), 1, False),  # L1 holds the rows of all channels
    ],
)
def test_predictions_for_large_filters_go_down_one_vector_of_channels(
    size: tuple[int, int, int], stride: int, is_outside: bool
) -> None:
    kwargs = {"padding": 2, "stride": stride, "layout": "NHWC"}
    task = pb.create_task("depthwise_conv2d", (1, *size, 5, 5), kwargs, target=WIDE)
    first = next(predicted_configs(task))
    assert ((first["order"].val, first["vectors"].val) == ("cyx", 1)) == is_outside


@pytest.mark.parametrize(("size", "has_blocks"), [((72, 28, 28), False), ((385, 9, 9), True)])
def test_large_filters_prefer_an_order_only_where_their_spaces_have_it(
    size: tuple[int, int, int], has_blocks: bool
) -> None:
    """Check that there is no preference in blocks of channels: in each order, the closest cache holds their rows."""
    task = pb.create_task("depthwise_conv2d", (1, *size, 7, 7), {"padding": 3, "layout": "NHWC"}, target=WIDE)
    assert ("cyxc" in {c["order"].val for c in task.space.iterate()}) is has_blocks
    assert (task.preference is None) is has_blocks


def test_results_of_few_pixels_have_tiles_of_several_vectors() -> None:
    """L1 holds 5 of 25 vectors, which tiles of a single pixel, with 4 vectors, do not divide."""
    target = "llvm -mcpu=x86-64-v4 -num-cores 1 -caches=48,2048,5120"
    task = pb.create_task("depthwise_conv2d", (1, 400, 7, 7, 7, 7), {"layout": "NHWC"}, target=target)
    assert {c["vectors"].val for c in task.space.iterate()} == {4}


@pytest.mark.parametrize("channels", [190, 192])
def test_values_of_blocks_of_channels(channels: int) -> None:
    """The last vector of 190 channels is not full."""
    kwargs = {"padding": 1, "layout": "NHWC"}
    task = pb.create_task("depthwise_conv2d", (2, channels, 5, 6, 3, 3), kwargs, target="llvm -caches=16,1024,2048")
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(spec.shape).astype(spec.dtype) for spec in task.arguments()]
    (expected,) = task.reference(arrays[:-1])
    configs = list(task.space.iterate())
    assert "cycx" in {c["order"].val for c in configs}
    for config in configs[:: max(1, len(configs) // 6)]:
        arrays[-1][:] = np.nan
        pb.build(task, config=config)(*arrays)
        np.testing.assert_allclose(arrays[-1], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("width", [14, 16])
def test_kernels_that_copy_nothing_update_no_memory_under_a_mask(target: str, width: int) -> None:
    task = pb.create_task(
        "depthwise_conv2d", (1, 4, 14, width, 3, 3), {"padding": 1}, target=f"llvm -mcpu={target} -num-cores 1"
    )
    configs = [c for c in task.space.iterate() if not c["copy"].val]
    assert configs
    assert not any(is_doomed(task, c) for c in configs[:: max(1, len(configs) // 2)])


@pytest.mark.parametrize(
    ("width", "chosen", "zeros"),
    [
        (7, {"tile_h": 7, "tile_w": 8}, "1"),  # one vector of 8 is read from columns 0 to 2 on
        (14, {"tile_h": 7, "tile_w": 16, "lanes": 16}, "2"),
        (28, {"tile_h": 7, "tile_w": 24, "lanes": 8}, "20"),
    ],
)
def test_a_copied_image_has_zeros_for_all_that_vectors_read(width: int, chosen: dict[str, int], zeros: str) -> None:
    """Check that a multiply-add reads no leftover of the stack: with some of them it takes a hundred times as long."""
    target = "llvm -mcpu=znver4 -num-cores 1"
    task = pb.create_task("depthwise_conv2d", (1, 4, 7, width, 3, 3), {"padding": 1}, target=target)
    chosen |= {"copy": True, "unroll_kh": False}
    text = task.show_ir(next(c for c in task.space.iterate() if all(c[k].val == v for k, v in chosen.items())))
    pattern = rf"in vectorized range\((\d+)\):\n *data_padded\[0, 0, \w+, 0, \w+ \+ {width + 2}\] = 0.0"
    assert re.findall(pattern, text) == [zeros]


@pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
def test_nothing_before_the_image_is_read() -> None:
    """Lanes beside the image are dead in loads as well as in the products (docs/llvm-defects.md)."""
    task = pb.create_task("depthwise_conv2d", (2, 24, 8, 14, 3, 3), {"padding": 2}, target="llvm -num-cores 1")
    rng = np.random.default_rng(0)
    x, w, found = (rng.standard_normal(spec.shape).astype(spec.dtype) for spec in task.arguments())
    (expected,) = task.reference([x, w])
    configs = list(task.space.iterate())
    for config in configs[:: max(1, len(configs) // 8)]:
        kernel = pb.build(task, config=config)
        for image in beside_pages(x):
            own(kernel)(image, w, found)
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
