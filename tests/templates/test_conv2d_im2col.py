"""The conv2d_im2col template: convolutions of any kind as products with columns, in both layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from direct_convolution import convolved
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stage import SECOND

import pegbox as pb
from pegbox import te
from pegbox.errors import ArgumentError, TemplateError
from pegbox.task.task import Task
from pegbox.templates import pack_weights
from pegbox.testing import TemplateContract

TARGET, AVX2 = "llvm -num-cores 1", "llvm -mcpu=x86-64-v3 -num-cores 1"
DEFAULTS = {"stride": 1, "padding": 0, "dilation": 1, "layout": "NCHW", "weights": "", "dtype": "float32"}


class TestIm2colOfManyBlocks(TemplateContract):
    """Large enough that every knob exists."""

    template = "conv2d_im2col"
    cases = (
        (1, 24, 30, 30, 40, 3, 3, 1, 1),
        (1, 24, 30, 30, 24, 3, 3, 2, 1, 1, "NHWC", "packed"),
        (1, 16, 28, 28, 30, 3, 5, 1, 2, 2, "NHWC"),
    )[:: 1 if SECOND else 2]
    configs = 3
    values = 2


class TestIm2colOfSmallImages(TemplateContract):
    template = "conv2d_im2col"
    cases = (
        (2, 3, 5, 7, 5, 3, 2, (2, 1), (0, 1, 2, 0), 1, "NHWC", "HWIO", "float64"),
        (1, 5, 6, 5, 9, 5, 5, 1, 2, 1, "NCHW", "packed"),
        (1, 1, 1, 1, 1, 1, 1),
    )
    configs = 3


def task_of(args: tuple[int, ...], options: dict[str, Any], target: str = TARGET) -> Task:
    return pb.create_task("conv2d_im2col", args=args, kwargs=options, target=target)


def check(args: tuple[int, ...], options: dict[str, Any], *, configs: int, seed: int = 0) -> None:
    """Check that sampled configurations compute the convolution."""
    task, rng = task_of(args, options), np.random.default_rng(seed)
    o = DEFAULTS | options
    usual = "OIHW" if o["layout"] == "NCHW" else "OHWI"
    order = usual if o["weights"] in ("", "packed") else o["weights"]
    filters = {"O": args[4], "I": args[1], "H": args[5], "W": args[6]}
    x = rng.uniform(-1, 1, task.arguments()[0].shape).astype(o["dtype"])
    w = rng.uniform(-1, 1, [filters[letter] for letter in order]).astype(o["dtype"])
    expected = convolved(x, w, o["stride"], o["padding"], o["dilation"], o["layout"], order)
    given_weights = pack_weights(task, w) if o["weights"] == "packed" else w
    out = np.empty(task.arguments()[-1].shape, o["dtype"])
    assert out.shape == expected.shape
    assert task.flop == 2 * out.size * args[1] * args[5] * args[6]
    for config in map(task.space.config, task.space.sample(configs, rng)):
        out[...] = np.nan
        pb.build(task, config=config)(x, given_weights, out)
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4, err_msg=str(config))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("weights", ["OIHW", "OHWI", "HWIO", "packed"])
def test_filters_may_lie_in_any_layout(layout: str, weights: str) -> None:
    check((2, 5, 9, 8, 19, 3, 3), {"padding": 1, "layout": layout, "weights": weights}, configs=3)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    "window", [{"stride": 2, "padding": 1}, {"dilation": 2}, {"stride": (3, 1), "dilation": (1, 2), "padding": (2, 0)}]
)
def test_windows_may_have_strides_and_dilations(layout: str, window: dict[str, Any]) -> None:
    check((1, 3, 13, 17, 7, 3, 4), {"layout": layout, **window}, configs=3)
    check((1, 18, 9, 11, 20, 3, 4), {"layout": layout, "weights": "packed", **window}, configs=2)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    data=st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 11), st.integers(1, 11)),
    filters=st.tuples(st.integers(1, 20), st.integers(1, 4), st.integers(1, 4)),
    steps=st.tuples(*[st.tuples(st.integers(1, 3), st.integers(1, 3))] * 2),
    padding=st.tuples(*[st.integers(0, 3)] * 4),
    layout=st.sampled_from(["NCHW", "NHWC"]),
    weights=st.sampled_from(["", "packed"]),
    seed=st.integers(0, 1000),
)
def test_any_small_convolution(
    data: Any, filters: Any, steps: Any, padding: Any, layout: str, weights: str, seed: int
) -> None:
    stride, dilation = steps
    reach = [(k - 1) * d + 1 for k, d in zip(filters[1:], dilation, strict=True)]
    h, w = (max(size, r - a - b) for size, r, a, b in zip(data[2:], reach, padding[:2], padding[2:], strict=True))
    options = {"stride": stride, "padding": padding, "dilation": dilation, "layout": layout, "weights": weights}
    check((*data[:2], max(h, 1), max(w, 1), *filters), options, configs=1, seed=seed)


@pytest.mark.parametrize("name", ["conv2d", "conv2d_im2col"])
def test_one_vector_of_seven_packed_channels_has_a_tile(name: str) -> None:
    args, options = (1, 8, 4, 3, 7, 3, 1), {"padding": (1, 0), "layout": "NHWC", "weights": "packed"}
    task = pb.create_task(name, args=args, kwargs=options, target="llvm -mcpu=x86-64-v4 -num-cores 1")
    assert {config["tile_o"].val for config in task.space.iterate()} == {7}


@pytest.mark.parametrize("target", [AVX2, "llvm -mcpu=x86-64-v4 -num-cores 1"])
def test_tiles_end_within_packed_weights(target: str) -> None:
    for channels in (7, 15, 16, 17, 23, 24):
        task = task_of((1, 3, 6, 6, channels, 3, 3), {"layout": "NHWC", "weights": "packed"}, target)
        panels, *_, lanes = task.arguments()[1].shape
        tiles = {config["tile_o"].val for config in task.space.iterate()}
        assert tiles
        assert all(-(-channels // tile) * tile <= panels * lanes for tile in tiles), channels


def bias_relu(c: te.Tensor) -> te.Tensor:
    bias = te.placeholder((c.shape[-1],), name="bias")
    return te.compute(c.shape, lambda *at: te.max(c(*at) + bias[at[-1]], 0.0), name="relu")


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_an_epilogue_is_computed_where_the_outputs_are_stored(layout: str) -> None:
    task = task_of((1, 8, 10, 10, 12, 3, 3), {"padding": 1, "layout": layout}).with_epilogue(bias_relu)
    rng = np.random.default_rng(0)
    x, w, bias, out = (rng.uniform(-1, 1, spec.shape).astype(np.float32) for spec in task.arguments())
    order = "OIHW" if layout == "NCHW" else "OHWI"
    expected = np.maximum(convolved(x, w, 1, 1, 1, layout, order) + bias, 0)
    for config in map(task.space.config, task.space.sample(3, rng)):
        assert "C[" not in task.show_ir(config)
        pb.build(task, config=config)(x, w, bias, out)
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4, err_msg=str(config))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_vectors_run_along_the_pixels_of_either_layout(layout: str) -> None:
    task = task_of((1, 16, 14, 14, 3, 3, 3), {"padding": 1, "layout": layout, "weights": "packed"}, AVX2)
    assert [entity.value() for entity in task.space.knobs["lanes"].entities] == ["pixels"]
    for config in map(task.space.config, task.space.sample(3, np.random.default_rng(0))):
        products = [line for line in task.lower(config).ll.splitlines() if "fmul" in line]
        assert products
        assert all("<8 x float>" in line for line in products)


TILE = {
    "lanes": "pixels", "vectors": 2, "tile_o": 4, "pack_data": "plain", "inner": "c", "tile_c": [-1, 27], "unroll_c": 3,
    "block_h": 2, "block_o": 0, "order": "ho", "order_tiles": "ohw", "data_at": "block",
}  # fmt: skip


def test_columns_of_a_block_are_copied_and_multiplied(golden: Callable[[object], None]) -> None:
    task = task_of((1, 3, 16, 16, 4, 3, 3), {"padding": 1, "weights": "packed"}, AVX2)
    golden(task.show_ir(TILE))


def test_columns_of_strided_channels_are_read_from_phases(golden: Callable[[object], None]) -> None:
    task = task_of((1, 3, 32, 32, 4, 3, 3), {"padding": 1, "weights": "packed", "layout": "NHWC", "stride": 2}, AVX2)
    golden(task.show_ir(TILE))


@pytest.mark.parametrize(
    ("change", "copies"),
    [({}, set()), ({"padding": 1}, {"image"}), ({"stride": 2}, {"image"}), ({"layout": "NHWC"}, {"data_turned"})],
)
def test_an_image_is_copied_for_padding_strides_and_channels_last(change: dict[str, Any], copies: set[str]) -> None:
    task = task_of((1, 3, 18, 18, 4, 3, 3), {"weights": "packed", **change}, AVX2)
    text = task.show_ir(task.space.get(0))
    assert {name for name in ("image", "data_turned") if f"{name} = alloc" in text} == copies


GOOD = {"N": 1, "C": 4, "H": 6, "W": 6, "O": 8, "KH": 3, "KW": 3}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"O": 0}, "conv2d_im2col: O=0 is not a size"),
        ({"padding": -1}, "conv2d_im2col: padding=-1"),
        ({"layout": "CHWN"}, "conv2d_im2col: layout='CHWN'"),
        ({"weights": "IOHW"}, "conv2d_im2col: weights='IOHW'"),
        ({"KH": 7}, "conv2d_im2col: the filter spans 7 along H"),
        ({"H": 1 << 20, "W": 1 << 20, "C": 8, "KH": 9}, r"conv2d_im2col: an array of 1 × 216 × .* 2\^47 bytes"),
    ],
)
def test_invalid_arguments_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        pb.create_task("conv2d_im2col", kwargs=GOOD | change)


V4 = "llvm -mcpu=x86-64-v4 -num-cores 1"


def direct(**change: Any) -> Task:
    sizes = {"N": 1, "C": 64, "H": 28, "W": 28, "O": 17, "KH": 3, "KW": 3, "padding": 1, "layout": "NHWC"}
    return pb.create_task("conv2d", kwargs=sizes | change, target=V4)


def test_it_is_an_implementation_where_channels_last_do_not_fill_vectors() -> None:
    for weights in ("", "packed"):
        first = direct(C=3, H=64, W=64, KH=9, KW=9, padding=4, weights=weights)
        made = first.with_implementations().tasks["conv2d_im2col"]
        assert (made.name, made.workload[1]) == ("conv2d_im2col", first.workload[1])


def test_copies_of_an_image_count_less_in_large_windows() -> None:
    sizes = {"C": 3, "H": 96, "W": 96}
    assert "conv2d_im2col" in direct(**sizes, KH=11, KW=11, padding=5).with_implementations().tasks
    assert "conv2d_im2col" not in direct(**sizes).with_implementations().tasks


def test_halves_of_vectors_count_as_such() -> None:
    """A product of 20 outputs beats two vectors of 16 of AVX-512, but not one and a half."""
    sizes = {"C": 3, "H": 96, "W": 96, "KH": 11, "KW": 11, "padding": 5}
    searched = {o: "conv2d_im2col" in direct(**sizes, O=o).with_implementations().tasks for o in (17, 20, 24, 28)}
    assert searched == {17: True, 20: False, 24: False, 28: False}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layout": "NCHW"}, "vectors along pixels here, too"),
        ({"O": 3}, "vectors along pixels here, too"),
        (
            {"O": 30},
            "30 multiply-adds and copies that are as long as 7, where vectors of channels take 3[01]; use conv2d",
        ),
        ({"O": 36, "stride": 2}, "36 multiply-adds and copies that are as long as 13"),
        ({"C": 3, "H": 224, "W": 224, "stride": 2}, "17 multiply-adds and copies that are as long as 16"),
    ],
)
def test_it_is_no_implementation_where_the_direct_sum_takes_no_longer(change: dict[str, Any], message: str) -> None:
    assert "conv2d_im2col" not in direct(**change).with_implementations().tasks
    with pytest.raises(ArgumentError, match=message):
        direct(**change).with_implementations(["conv2d_im2col"])
    product = pb.create_task("matmul", (4, 4, 4), target=V4)
    assert "conv2d_im2col" not in product.with_implementations().tasks
