"""The conv2d template: both layouts, strides, padding, dilation, sizes that nothing divides."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest
from direct_convolution import convolved
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stage import SECOND

import pegbox as pb
from pegbox.errors import ArgumentError, TemplateError
from pegbox.search.models.prediction import predicted_configs
from pegbox.space import Config
from pegbox.task.task import Task
from pegbox.templates import pack_weights
from pegbox.testing import TemplateContract

NHWC = (1, 0, 1, "NHWC")  # stride, padding, dilation, layout


class TestConv2dOfManyTiles(TemplateContract):
    """Large enough that every knob exists, on vectors of other widths than this machine's, too."""

    template = "conv2d"
    cases = (
        (1, 48, 14, 14, 96, 3, 3, 1, 1),
        (1, 48, 14, 14, 96, 3, 3, 2, 1, 1, "NHWC"),
        (1, 64, 15, 15, 80, 1, 1),
        (1, 64, 14, 14, 96, 1, 1, 2, 0, 1, "NHWC", "packed"),
        (1, 24, 9, 11, 64, 3, 3, 1, 1, 1, "NCHW", "packed"),
    )[:: 1 if SECOND else 3]
    configs = 3
    values = 2  # its knobs have hundreds, and each takes a program; those of the smaller cases are compared all


class TestConv2dOfAvx2(TestConv2dOfManyTiles):
    """One of them; `.ci/run` tests all for this target."""

    cases = ((1, 48, 14, 14, 96, 3, 3, 1, 1),)
    target = "llvm -mcpu=x86-64-v3 -num-cores 1"


class TestConv2dChannelsLast(TemplateContract):
    template = "conv2d"
    cases = (
        (1, 4, 6, 6, 17, 3, 3, 1, 1, 1, "NHWC"),
        (2, 3, 9, 11, 5, 5, 3, 2, (2, 1), 1, "NHWC", "HWIO", "float64"),
        (1, 5, 6, 7, 3, 1, 1, *NHWC, "OIHW"),
        (1, 5, 6, 12, 3, 3, 3, 1, 1, 1, "NHWC", "packed"),
    )
    configs = 3


class TestConv2dOfOtherTypes(TemplateContract):
    template = "conv2d"
    cases = ((1, 3, 5, 4, 6, 3, 3, 1, 1, 1, "NCHW", "", "int32"), (1, 2, 4, 4, 3, 2, 2, *NHWC, "", "float16"))
    configs = 2


def of_lanes(task: Task, lanes: str, rng: np.random.Generator, count: int) -> list[Config]:
    """Some configurations of one kind of lanes, which may be rare."""
    for tried in (16 * count, 512 * count):
        found = (task.space.config(row) for row in task.space.sample(tried, rng))
        chosen = list(islice((config for config in found if config["lanes"].val == lanes), count))
        if len(chosen) == count:
            break
    assert chosen
    return chosen


def check(args: tuple[int, ...], options: dict[str, Any], *, configs: int, seed: int = 0, lanes: str = "") -> None:
    """Sampled configurations (of one kind of lanes) compute the convolution."""
    task = pb.create_task("conv2d", args=args, kwargs=options, target="llvm -num-cores 1")
    rng = np.random.default_rng(seed)
    x, w, out = (rng.uniform(-1, 1, spec.shape).astype(spec.dtype) for spec in task.arguments())
    o = {"stride": 1, "padding": 0, "dilation": 1, "layout": "NCHW"} | options
    usual = "OIHW" if o["layout"] == "NCHW" else "OHWI"
    expected = convolved(x, w, o["stride"], o["padding"], o["dilation"], o["layout"], options.get("weights") or usual)
    assert out.shape == expected.shape
    assert task.flop == 2 * out.size * w.size // args[4]
    chosen = (
        of_lanes(task, lanes, rng, configs) if lanes else [*map(task.space.config, task.space.sample(configs, rng))]
    )
    for config in chosen:
        out[...] = np.nan
        pb.build(task, config=config)(x, w, out)
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4, err_msg=str(config))


SHAPES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 3, 17, 17, 16, 7, 7), {"stride": 2, "padding": 3}),
    ((1, 17, 29, 31, 33, 3, 5), {"dilation": 2}),
    ((1, 64, 7, 7, 70, 3, 3), {"padding": 1}),
    ((2, 8, 9, 9, 20, 1, 1), {"stride": 2}),
    ((1, 32, 9, 10, 64, 1, 1), {}),
    ((1, 6, 7, 5, 40, 3, 2), {"stride": (2, 3), "padding": (0, 2), "dilation": (1, 2)}),
    ((1, 5, 12, 12, 18, 3, 3), {"stride": 3, "dilation": 2, "padding": 2}),
    ((1, 7, 12, 11, 20, 3, 3), {"stride": 2, "padding": (0, 1, 1, 2)}),
    ((1, 7, 12, 11, 20, 1, 1), {"padding": (0, 0, 0, 1)}),
]


@pytest.mark.parametrize(("args", "options"), SHAPES)
@pytest.mark.parametrize("kind", ["NCHW channels", "NCHW pixels", "NHWC channels"])
def test_it_computes_the_convolution(args: tuple[int, ...], options: dict[str, Any], kind: str) -> None:
    layout, lanes = kind.split()
    check(args, options | {"layout": layout}, configs=2, lanes=lanes)


FEW_OUTPUTS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 18, 9, 11, 3, 3, 3), {"padding": 1}),
    ((1, 5, 13, 12, 2, 4, 3), {"stride": (2, 3), "dilation": (1, 2), "padding": (2, 0)}),
    ((1, 20, 6, 7, 1, 1, 2), {}),
]


@pytest.mark.skipif(pb.Target("llvm").vector_bits < 256, reason="few channels fill half a short vector")
@pytest.mark.parametrize(("args", "options"), FEW_OUTPUTS)
@pytest.mark.parametrize("weights", ["", "HWIO"])
def test_few_channels_last_are_computed_along_pixels(args: Any, options: dict[str, Any], weights: str) -> None:
    options = options | {"layout": "NHWC", "weights": weights}
    check(args, options, configs=4, lanes="pixels")
    if args[4] == 1:  # vectors of float64 are shorter
        check(args, options | {"dtype": "float64"}, configs=1, lanes="pixels")


@pytest.mark.parametrize(
    ("sizes", "lanes"),
    [
        ((16, 16, 6, 3, 3), "pixels"),
        ((16, 16, 8, 3, 3), "channels"),
        ((3, 3, 6, 3, 3), "channels"),
        ((16, 16, 6, 1, 1), "channels"),
    ],
)
def test_windows_of_few_outputs_and_small_gaps_have_pixels_in_their_lanes(sizes: Any, lanes: str) -> None:
    h, w, outputs, kh, kw = sizes
    options = {"layout": "NHWC", "padding": kh // 2}
    task = pb.create_task("conv2d", (1, 4, h, w, outputs, kh, kw), options, target="llvm -mcpu=x86-64-v4 -num-cores 1")
    assert [entity.value() for entity in task.space.knobs["lanes"].entities] == [lanes]


def test_images_of_few_outputs_are_turned_and_results_turned_back(golden: Callable[[object], None]) -> None:
    task = pb.create_task(
        "conv2d", (1, 8, 12, 12, 3, 3, 3), {"layout": "NHWC", "padding": 1, "weights": "packed"},
        target="llvm -mcpu=x86-64-v3 -num-cores 1",
    )  # fmt: skip
    chosen = {"lanes": "pixels", "vectors": 3, "tile_o": 3, "inner": "k", "unroll_k": "kw"}
    configs = task.space.iterate()
    golden(task.show_ir(next(c for c in configs if all(c[name].val == value for name, value in chosen.items()))))


def test_tiles_end_within_packed_weights() -> None:
    """Check packed weights whose panels have eight numbers of float64, where tiles are of several panels."""
    options = {"padding": 1, "weights": "packed", "dtype": "float64"}
    task = pb.create_task("conv2d", (1, 8, 8, 8, 56, 3, 3), options, target="llvm -mcpu=x86-64-v4 -num-cores 1")
    assert task.arguments()[1].shape == (7, 3, 3, 8, 8)
    rng = np.random.default_rng(0)
    tiles = {c["tile_o"].val for c in map(task.space.config, task.space.sample(400, rng)) if c["lanes"].val == "pixels"}
    assert 8 in tiles
    assert 16 not in tiles  # the fourth would read an eighth panel


def test_a_tile_of_all_channels_reads_packed_weights() -> None:
    """Three channels divide no vector, but are one tile."""
    args, options = (1, 8, 12, 12, 3, 3, 3), {"padding": 1, "weights": "packed"}
    task = pb.create_task("conv2d", args, options, target="llvm -num-cores 1")
    x, w = (
        np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32) for shape in ((1, 8, 12, 12), (3, 8, 3, 3))
    )
    config = next(c for c in of_lanes(task, "pixels", np.random.default_rng(0), 40) if c["tile_o"].val == 3)
    out = np.empty((1, 3, 12, 12), np.float32)
    pb.build(task, config=config)(x, pack_weights(task, w), out)
    np.testing.assert_allclose(out, convolved(x, w, 1, 1, 1, "NCHW", "OIHW"), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("weights", ["OIHW", "OHWI", "HWIO"])
def test_weights_may_lie_in_any_layout(layout: str, weights: str) -> None:
    check((1, 32, 6, 5, 35, 3, 3), {"layout": layout, "weights": weights, "padding": 1}, configs=2)


sizes, steps = st.integers(1, 9), st.tuples(st.integers(1, 3), st.integers(1, 3))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    data=st.tuples(st.integers(1, 2), sizes, sizes, sizes),
    filters=st.tuples(st.integers(1, 20), st.integers(1, 4), st.integers(1, 4)),
    stride=steps,
    padding=st.sampled_from([2, 4]).flatmap(lambda n: st.tuples(*[st.integers(0, 3)] * n)),
    dilation=steps,
    layout=st.sampled_from(["NCHW", "NHWC"]),
    seed=st.integers(0, 1000),
)
def test_any_small_convolution(
    data: Any, filters: Any, stride: Any, padding: Any, dilation: Any, layout: str, seed: int
) -> None:
    # Room for one window at least.
    h, w = (
        max(size, (k - 1) * d + 1 - before - after)
        for size, k, d, before, after in zip(data[2:], filters[1:], dilation, padding[:2], padding[-2:], strict=True)
    )
    options = {"stride": stride, "padding": padding, "dilation": dilation, "layout": layout}
    check((*data[:2], h, w, *filters), options, configs=1, seed=seed)


def test_its_arguments_are_those_of_a_convolution() -> None:
    task = pb.create_task("conv2d", args=(2, 3, 9, 8, 5, 4, 3), kwargs={"stride": 2, "layout": "NHWC"})
    assert [(a.name, a.shape, a.is_output) for a in task.arguments()] == [
        ("data", (2, 9, 8, 3), False), ("weight", (5, 4, 3, 3), False), ("C", (2, 3, 3, 5), True),
    ]  # fmt: skip


def test_numbers_of_numpy_are_numbers() -> None:
    args = tuple(map(np.int64, (1, 2, 5, 5, 3, 3, 3)))
    assert pb.create_task("conv2d", args=args, kwargs={"padding": np.int64(1)}).arguments()[-1].shape == (1, 3, 5, 5)


WIDE = [(1, 64, 56, 56, 128, 3, 3, 1, 1), (1, 512, 7, 7, 512, 3, 3, 1, 1), (1, 3, 224, 224, 64, 7, 7, 2, 3)]


@pytest.mark.parametrize("args", WIDE)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_its_space_is_wide(args: Any, layout: str) -> None:
    task = pb.create_task("conv2d", args=args, kwargs={"layout": layout}, target="llvm -num-cores 1")
    assert len(task.space.sample(1_001, np.random.default_rng(0))) > 1_000  # which are distinct
    config = task.space.config([int(d) for d in task.space.sample(1, np.random.default_rng(1))[0]])
    assert str(task.lowered(config)).startswith("def conv2d(")


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_the_inner_loop_gathers_nothing(layout: str) -> None:
    """Whatever is chosen, vectors are read as vectors: a division in an address would make each lane a load."""
    task = pb.create_task("conv2d", args=WIDE[0], kwargs={"layout": layout}, target="llvm -mcpu=znver4 -num-cores 1")
    rows = task.space.sample(6, np.random.default_rng(0))
    for config in (task.space.config([int(d) for d in row]) for row in rows):
        if config["pack_data"].val != "blocked" or layout == "NHWC":
            text = task.lower(config).ll
            assert "masked.gather" not in text, str(config)
            assert "masked.scatter" not in text, str(config)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("order", ["", "OIHW", "OHWI", "HWIO"])
def test_packed_weights_are_those_that_were_packed(layout: str, order: str) -> None:
    args, options = (1, 6, 9, 8, 37, 3, 2), {"padding": 1, "layout": layout}
    task = pb.create_task("conv2d", args=args, kwargs={**options, "weights": "packed"}, target="llvm -num-cores 1")
    order = order or ("OIHW" if layout == "NCHW" else "OHWI")
    plain = pb.create_task("conv2d", args=args, kwargs={**options, "weights": order}, target="llvm -num-cores 1")
    rng = np.random.default_rng(0)
    x, w, out = (rng.uniform(-1, 1, spec.shape).astype(spec.dtype) for spec in plain.arguments())
    packed = pack_weights(task, w, order)
    assert packed.shape == task.arguments()[1].shape
    for row in task.space.sample(4, rng):
        config = task.space.config([int(d) for d in row])
        pb.build(task, config=config)(x, packed, out)
        expected = convolved(x, w, 1, 1, 1, layout, order)
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4, err_msg=str(config))


SMALL: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 16, 7, 7, 40, 3, 3), {"padding": 1}),
    ((2, 8, 13, 13, 33, 3, 3), {"padding": 1}),
    ((1, 24, 9, 7, 56, 5, 3), {"padding": (2, 1), "stride": (1, 2)}),
    ((1, 8, 6, 5, 72, 3, 3), {"padding": 2, "dilation": 2}),
    ((1, 8, 3, 3, 24, 2, 2), {"padding": 4}),
    ((1, 12, 7, 7, 88, 1, 1), {}),
    ((1, 8, 12, 14, 40, 3, 3), {"padding": 5, "dilation": 5}),
    ((1, 8, 1, 6, 24, 2, 2), {"padding": (3, 1, 0, 1), "dilation": 2, "stride": (3, 1)}),
    ((2, 9, 11, 12, 24, 3, 3), {"padding": (4, 6, 3, 5), "dilation": (4, 5), "stride": (2, 1)}),
]
LAYOUTS = ("NCHW", "NHWC")
SMALL_IMAGES = [(LAYOUTS[(n + half) % 2], *case) for half in range(2 if SECOND else 1) for n, case in enumerate(SMALL)]


@pytest.mark.parametrize(("layout", "args", "options"), SMALL_IMAGES)
def test_small_images_leave_the_border_out_and_cut_tiles(layout: str, args: Any, options: Any) -> None:
    target = "llvm -num-cores 1"
    task = pb.create_task("conv2d", args=args, kwargs={**options, "layout": layout, "weights": "packed"}, target=target)
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, task.arguments()[0].shape).astype(np.float32)
    w = rng.uniform(-1, 1, (args[4], args[1], *args[5:])).astype(np.float32)
    o = {"stride": 1, "padding": 0, "dilation": 1} | options
    expected = convolved(x, w, o["stride"], o["padding"], o["dilation"], layout, "OIHW")
    out = np.empty(expected.shape, np.float32)
    packed = pack_weights(task, w, "OIHW")
    for config in of_lanes(task, "channels", rng, 4):
        out[...] = np.nan
        pb.build(task, config=config)(x, packed, out)
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4, err_msg=str(config))


def test_the_loops_over_channels_of_a_dilated_convolution_test_no_pixel() -> None:
    """Check that tiles in the border are left out as a whole, and that the copy has no more of it than others read."""
    options = {"padding": 14, "dilation": 14, "layout": "NHWC", "weights": "packed"}
    target = "llvm -mcpu=znver4 -num-cores 1"
    task = pb.create_task("conv2d", args=(1, 16, 28, 28, 64, 3, 3), kwargs=options, target=target)
    rng = np.random.default_rng(0)
    chosen = [c for c in of_lanes(task, "channels", rng, 60) if c["inner"].val == "c" and c["tile_w"].val <= 14]
    assert len(chosen) > 5
    for config in chosen:
        text, around = str(task.lowered(config)), list[int]()
        for line in text.splitlines():
            depth = len(line) - len(line.lstrip())
            around = [each for each in around if each < depth]
            assert not around or not line.lstrip().startswith("if "), f"{config}\n{line}"
            around += [depth] * ("for ci." in line)
        for extents in re.findall(r"data_\w+ = alloc\(float32\[(.*?)\]", text):
            assert math.prod(map(int, extents.split(", "))) <= 16 * 54 * 54, str(config)


def test_packed_weights_end_in_zeros() -> None:
    task = pb.create_task(
        "conv2d", args=(1, 5, 8, 8, 20, 3, 3), kwargs={"weights": "packed"}, target="llvm -mcpu=x86-64-v3 -num-cores 1"
    )
    w = np.random.default_rng(0).uniform(1, 2, (20, 5, 3, 3)).astype(np.float32)
    packed = pack_weights(task, w)
    assert packed.shape == (3, 3, 3, 5, 8)
    np.testing.assert_array_equal(packed[1, 2, 0, 3], w[8:16, 3, 2, 0])
    assert (packed[2, ..., :4] > 0).all()
    assert (packed[2, ..., 4:] == 0).all()


def test_what_is_not_the_weights_of_a_task_is_not_packed() -> None:
    task = pb.create_task("conv2d", kwargs={**GOOD, "weights": "packed"})
    w = np.zeros((8, 4, 3, 3), np.float32)
    with pytest.raises(ArgumentError, match=r"shape \(8, 4, 3, 3\), got float32 of shape \(3, 3, 4, 8\)"):
        pack_weights(task, w.transpose(2, 3, 1, 0))
    with pytest.raises(ArgumentError, match="got float64"):
        pack_weights(task, w.astype(np.float64))
    with pytest.raises(TemplateError, match="'packed' is not a layout here; give one of OIHW, OHWI, HWIO"):
        pack_weights(task, w, "packed")
    with pytest.raises(ArgumentError, match="make it with kwargs"):
        pack_weights(pb.create_task("conv2d", kwargs=GOOD), w)
    matmul = pb.create_task("matmul", args=(4, 4, 4), kwargs={"weights": "packed"})
    with pytest.raises(ArgumentError, match=r"layout='OIHW': .* has no filters"):
        pack_weights(matmul, np.zeros((4, 4), np.float32), "OIHW")


GOOD = {"N": 1, "C": 4, "H": 6, "W": 6, "O": 8, "KH": 3, "KW": 3}


@pytest.mark.parametrize(
    ("change", "value", "remedy"),
    [
        ({"N": 0}, "N=0", "from 1 on"),
        ({"KW": -3}, "KW=-3", "from 1 on"),
        ({"C": 4.5}, "C=4.5", "is not an integer"),
        ({"O": True}, "O=True", "whole number"),
        ({"H": "6"}, "H='6'", "is not an integer"),
        ({"stride": 0}, "stride=0", "from 1 on"),
        ({"stride": (1, 2, 3)}, "stride=(1, 2, 3)", "pair"),
        ({"padding": -1}, "padding=-1", "from 0 on"),
        ({"padding": "same"}, "padding='same'", "pair"),
        ({"dilation": (1, 0)}, "dilation=(1, 0)", "from 1 on"),
        ({"layout": "NCWH"}, "layout='NCWH'", "NCHW, NHWC"),
        ({"weights": "OI"}, "weights='OI'", "OIHW, OHWI, HWIO, packed"),
        ({"dilation": 3}, "7 along H", "padding"),
        ({"KW": 7}, "7 along W", "smaller filter"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(change: dict[str, Any], value: str, remedy: str) -> None:
    with pytest.raises(TemplateError) as caught:
        pb.create_task("conv2d", kwargs=GOOD | change)
    assert value in str(caught.value)
    assert remedy in str(caught.value)


@pytest.mark.parametrize(
    "chosen",
    [
        {"block_h": 0, "order_tiles": "ohw", "block_o": 0, "order": "ho"},
        {"block_h": 0, "order_tiles": "hwo", "block_o": 2, "order": "oh"},
    ],
    ids=["panel", "block"],
)
def test_the_next_weights_are_prefetched(chosen: dict[str, Any], golden: Callable[[object], None]) -> None:
    task = pb.create_task(
        "conv2d", (1, 64, 6, 6, 64, 1, 1), {"layout": "NHWC", "weights": "packed"},
        target="llvm -mcpu=x86-64-v3 -num-cores 1",
    )  # fmt: skip
    wanted = {"vectors": 2, "tile_w": 6, "unroll_c": 4, "pack_data": "no", **chosen}
    configs = task.space.iterate()
    golden(task.show_ir(next(c for c in configs if all(c[name].val == value for name, value in wanted.items()))))


@pytest.mark.parametrize(("size", "prefers"), [(12, True), (20, False)])
def test_predictions_of_few_pixels_begin_with_small_blocks_of_packed_weights(size: int, prefers: bool) -> None:
    options = {"padding": 1, "layout": "NHWC", "weights": "packed"}
    task = pb.create_task(
        "conv2d", (1, 128, size, size, 256, 3, 3), options, target="llvm -mcpu=x86-64-v4 -num-cores 1"
    )
    assert (task.preference is not None) == prefers
    if task.preference is not None:
        first = next(predicted_configs(task))
        is_one = first["order_tiles"].val == "ohw" and first["block_h"].val == first["block_o"].val == 0
        assert 0 < 8 * (1 if is_one else first["block_o"].val) * first["vectors"].val <= 16
