"""The conv2d_winograd template: every m and filter, both layouts, sizes that tiles do not divide."""

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
from pegbox.templates import implementations, pack_weights
from pegbox.templates.cook_toom import error_estimate
from pegbox.testing import TemplateContract

AVX2, AVX512 = "llvm -mcpu=x86-64-v3 -num-cores 1", "llvm -mcpu=x86-64-v4 -num-cores 1"


class TestWinogradOfManyTiles(TemplateContract):
    """Large enough that every knob exists."""

    template = "conv2d_winograd"
    cases = (
        (1, 48, 14, 14, 96, 3, 3, 1, 1, 1, "NHWC", "packed", "float32", 4),
        (1, 40, 15, 13, 80, 3, 3, 1, 1),
        (1, 40, 12, 12, 80, 5, 5, 1, 2, 1, "NHWC"),
    )[:: 1 if SECOND else 2]
    configs = 3
    values = 2


class TestWinogradOfSmallImages(TemplateContract):
    template = "conv2d_winograd"
    cases = (
        (2, 3, 5, 7, 5, 3, 3, 1, (0, 1, 2, 0), 1, "NHWC", "HWIO", "float64"),
        (1, 5, 6, 5, 9, 5, 5, 1, 2, 1, "NCHW", "packed"),
        (1, 1, 3, 3, 1, 3, 3, 1, 0, 1, "NHWC", "", "float32", 2),
    )
    configs = 3


def tolerance(m: int, r: int, dtype: str) -> float:
    """The largest error that is allowed, in units of the outputs' root mean square: that of some million outputs."""
    return 8 * error_estimate(m, r, dtype)


def task_of(args: tuple[int, ...], options: dict[str, Any], target: str = "llvm -num-cores 1") -> Task:
    return pb.create_task("conv2d_winograd", args=args, kwargs=options, target=target)


def check(args: tuple[int, ...], options: dict[str, Any], *, configs: int, seed: int = 0) -> None:
    """Sampled configurations compute the convolution, as exactly as their m allows."""
    task = task_of(args, options)
    rng = np.random.default_rng(seed)
    o = {"padding": 0, "layout": "NCHW", "weights": "", "dtype": "float32"} | options
    order = "OIHW" if o["layout"] == "NCHW" else "OHWI"
    order = order if o["weights"] in ("", "packed") else o["weights"]
    filters = {"O": args[4], "I": args[1], "H": args[5], "W": args[6]}
    x = rng.uniform(-1, 1, task.arguments()[0].shape).astype(o["dtype"])
    w = rng.uniform(-1, 1, [filters[letter] for letter in order]).astype(o["dtype"])
    expected = convolved(x.astype(np.float64), w, 1, o["padding"], 1, o["layout"], order)
    given_weights = pack_weights(task, w) if o["weights"] == "packed" else w
    out = np.empty(task.arguments()[-1].shape, o["dtype"])
    assert out.shape == expected.shape
    assert task.flop == 2 * out.size * args[1] * args[5] * args[6]
    for config in map(task.space.config, task.space.sample(configs, rng)):
        out[...] = np.nan
        pb.build(task, config=config)(x, given_weights, out)
        worst = tolerance(config["m"].val, args[5], o["dtype"]) * np.sqrt(np.mean(expected**2))
        np.testing.assert_allclose(out, expected, rtol=0, atol=worst, err_msg=str(config))


@pytest.mark.parametrize("m", [2, 3, 4, 6])
@pytest.mark.parametrize("r", [3, 5])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_it_computes_the_convolution(m: int, r: int, layout: str) -> None:
    check((2, 12, 13, 14, 20, r, r), {"padding": r // 2, "layout": layout, "m": m}, configs=2)
    check((1, 16, 11, 9, 17, r, r), {"padding": 1, "layout": layout, "m": m, "weights": "packed"}, configs=2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_m_is_as_exact_as_its_type_allows(dtype: str) -> None:
    check((1, 32, 12, 12, 32, 3, 3), {"padding": 1, "layout": "NHWC", "dtype": dtype}, configs=6)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("weights", ["OIHW", "OHWI", "HWIO"])
def test_weights_may_lie_in_any_layout(layout: str, weights: str) -> None:
    check((1, 19, 6, 5, 21, 3, 3), {"layout": layout, "weights": weights, "padding": 1}, configs=2)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    data=st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 11), st.integers(1, 11)),
    o=st.integers(1, 20),
    r=st.sampled_from([3, 5]),
    padding=st.tuples(*[st.integers(0, 3)] * 4),
    layout=st.sampled_from(["NCHW", "NHWC"]),
    seed=st.integers(0, 1000),
)
def test_any_small_convolution(data: Any, o: int, r: int, padding: Any, layout: str, seed: int) -> None:
    h, w = (max(size, r - a - b) for size, a, b in zip(data[2:], padding[:2], padding[2:], strict=True))
    check((*data[:2], h, w, o, r, r), {"padding": padding, "layout": layout}, configs=1, seed=seed)


def test_weights_packed_ahead_are_the_transformed_filters() -> None:
    task = task_of((1, 5, 8, 8, 20, 3, 3), {"weights": "packed", "m": 2}, AVX2)
    w = np.random.default_rng(0).uniform(-1, 1, (20, 5, 3, 3)).astype(np.float32)
    packed = pack_weights(task, w)
    assert packed.shape == task.arguments()[1].shape == (4, 4, 3, 5, 8)
    np.testing.assert_array_equal(packed[0, 0, 1, 3], w[8:16, 3, 0, 0])  # the values at 0
    np.testing.assert_array_equal(packed[3, 3, 1, 3], w[8:16, 3, 2, 2])  # and at infinity
    np.testing.assert_allclose(packed[1, 1, 1, 3], w[8:16, 3].sum(axis=(1, 2)) / 4, rtol=1e-6, atol=1e-7)
    assert (packed[:, :, 2, :, 4:] == 0).all()
    assert np.array_equal(pack_weights(task, w.transpose(2, 3, 1, 0), "HWIO"), packed)


def test_packed_weights_are_of_one_m_that_has_small_errors() -> None:
    ms = {
        shape: task_of(shape, {"padding": 1, "weights": "packed"}, AVX2).space.knobs["m"].entities
        for shape in [(1, 64, 56, 56, 64, 3, 3), (1, 64, 56, 56, 64, 5, 5)]
    }
    assert [[entity.value() for entity in each] for each in ms.values()] == [[4], [2]]
    exact = task_of((1, 64, 56, 56, 64, 3, 3), {"weights": "packed", "dtype": "float64"}, AVX2)
    assert exact.space.knobs["m"].entities[0].value() == 6


@pytest.mark.parametrize(("target", "ms"), [(AVX2, [4, 4, 2]), (AVX512, [4, 3, 2])])
def test_the_m_of_packed_weights_counts_the_blocks_of_tiles_that_read_them(target: str, ms: list[int]) -> None:
    target += " -caches=32,1024,4096"
    shapes = {64: 56, 256: 14, 512: 7}
    tasks = [task_of((1, c, w, w, c, 3, 3), {"padding": 1, "weights": "packed"}, target) for c, w in shapes.items()]
    assert [task.space.knobs["m"].entities[0].value() for task in tasks] == ms


@pytest.mark.parametrize(("width", "tiles"), [(20, 25), (26, 49)])
def test_all_tiles_of_a_small_image_may_be_one_block(width: int, tiles: int) -> None:
    """Each block reads the weights again."""
    task = task_of((1, 160, width, width, 200, 3, 3), {"padding": 1, "weights": "packed", "m": 4}, AVX512)
    assert tiles in [entity.value() for entity in task.space.knobs["tiles"].entities]


@pytest.mark.parametrize("target", [AVX2, AVX512])
def test_small_images_of_many_channels_have_it_as_an_implementation(target: str) -> None:
    """Their weights are far more than their pixels, and come while products are computed."""
    options = {"padding": 1, "weights": "packed"}
    task = pb.create_task("conv2d", args=(1, 512, 7, 7, 512, 3, 3), kwargs=options, target=target)
    assert implementations.conv2d_winograd(task) is not None


def test_m_is_a_knob_of_plain_weights() -> None:
    task = task_of((1, 16, 14, 14, 16, 3, 3), {"padding": 1})
    assert [entity.value() for entity in task.space.knobs["m"].entities] == [2, 3, 4, 6]


def sizes_for(accuracy: float, **options: Any) -> list[int]:
    task = pb.create_task("conv2d_winograd", kwargs={**GOOD, **options}, target=AVX2, accuracy=accuracy)
    return [entity.value() for entity in task.space.knobs["m"].entities]


def test_sizes_whose_errors_are_larger_than_the_accuracy_are_not_in_the_space() -> None:
    assert [sizes_for(each) for each in (1e-4, 1e-6, 5e-7)] == [[2, 3, 4, 6], [2, 3, 4], [2]]
    assert [sizes_for(each, weights="packed", C=64, O=64, H=56, W=56) for each in (1e-5, 5e-7)] == [[6], [2]]
    assert sizes_for(1e-6, dtype="float64") == [2, 3, 4, 6]


@pytest.mark.parametrize(("m", "accuracy", "named"), [(0, 1e-7, "m=2"), (6, 1e-6, "m=6")])
def test_an_accuracy_that_no_size_has_is_refused(m: int, accuracy: float, named: str) -> None:
    with pytest.raises(
        TemplateError, match=f"accuracy={accuracy:g}: the errors of {named} are .*conv2d, which is more"
    ):
        sizes_for(accuracy, m=m)


def test_packed_weights_follow_the_m_of_the_accuracy() -> None:
    options = {**GOOD, "C": 64, "O": 64, "H": 56, "W": 56, "weights": "packed"}
    task = pb.create_task("conv2d_winograd", kwargs=options, target=AVX2, accuracy=5e-7)
    packed = pack_weights(task, np.ones((64, 64, 3, 3), np.float32))
    assert packed.shape == task.arguments()[1].shape == (4, 4, 8, 64, 8)


def bias_relu(c: te.Tensor) -> te.Tensor:
    bias = te.placeholder((c.shape[-1],), name="bias")
    return te.compute(c.shape, lambda *at: te.max(c(*at) + bias[at[-1]], 0.0), name="relu")


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_an_epilogue_is_computed_where_the_outputs_are_stored(layout: str) -> None:
    task = task_of((1, 8, 10, 10, 12, 3, 3), {"padding": 1, "layout": layout, "m": 4}).with_epilogue(bias_relu)
    rng = np.random.default_rng(0)
    x, w, bias, out = (rng.uniform(-1, 1, spec.shape).astype(np.float32) for spec in task.arguments())
    order = "OIHW" if layout == "NCHW" else "OHWI"
    expected = np.maximum(convolved(x, w, 1, 1, 1, layout, order) + bias, 0)
    for config in map(task.space.config, task.space.sample(3, rng)):
        assert "C[" not in task.show_ir(config)
        pb.build(task, config=config)(x, w, bias, out)
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4, err_msg=str(config))


def test_no_constant_of_a_transform_is_read_from_memory_or_is_zero_or_one() -> None:
    task = task_of((1, 16, 14, 14, 16, 3, 3), {"padding": 1, "layout": "NHWC", "weights": "packed", "m": 2}, AVX512)
    text = task.lower(task.space.get(0)).ll
    assert "fmul" not in "\n".join(line for line in text.splitlines() if "splat (float 1.0" in line)
    assert "splat (float 0.0" not in "\n".join(line for line in text.splitlines() if "fmul" in line)


@pytest.mark.parametrize("target", [AVX2, AVX512])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_vectors_are_read_and_written_whole(target: str, layout: str) -> None:
    options = {"padding": 1, "layout": layout, "weights": "packed"}
    task = task_of((1, 64, 28, 28, 64, 3, 3), options, target)
    lanes = {AVX2: 8, AVX512: 16}[target]
    for config in map(task.space.config, task.space.sample(4, np.random.default_rng(0))):
        text = task.lower(config).ll
        assert f"fmul contract <{lanes} x float>" in text or f"<{lanes} x float>" in text
        assert "masked.scatter" not in text, str(config)
        assert layout == "NCHW" or "masked.gather" not in text, str(config)  # at the border, of the copied input


def test_a_block_is_transformed_multiplied_and_stored(golden: Callable[[object], None]) -> None:
    options = {"padding": 1, "layout": "NHWC", "weights": "packed", "m": 2}
    task = task_of((1, 16, 8, 8, 16, 3, 3), options, AVX2)
    config = {
        "m": 2, "tiles": 8, "rows": 4, "vectors": 2, "block_o": 1, "unroll_c": 2, "prefetch": 8, "copy": "tile",
        "block_c": 2, "unroll_in": False, "unroll_out": False,
    }  # fmt: skip
    golden(task.show_ir(config))


def test_a_row_of_tiles_is_stored_at_a_time_where_pixels_are_neighbours(golden: Callable[[object], None]) -> None:
    task = task_of((1, 16, 16, 16, 8, 3, 3), {"padding": 1, "weights": "packed", "m": 4}, AVX2)
    config = {
        "m": 4, "tiles": 16, "rows": 12, "vectors": 1, "block_o": 1, "unroll_c": 1, "prefetch": 0, "copy": "image",
        "block_c": 2, "unroll_in": False, "unroll_out": False,
    }  # fmt: skip
    golden(task.show_ir(config))


def test_vectors_of_avx512_are_filled_with_channels(golden: Callable[[object], None]) -> None:
    task = task_of((1, 32, 8, 8, 32, 3, 3), {"padding": 1, "layout": "NHWC", "weights": "packed", "m": 2}, AVX512)
    config = {
        "m": 2, "tiles": 16, "rows": 8, "vectors": 2, "block_o": 1, "unroll_c": 2, "prefetch": 8, "copy": "image",
        "block_c": 2, "unroll_in": True, "unroll_out": True,
    }  # fmt: skip
    golden(task.show_ir(config))


GOOD = {"N": 1, "C": 4, "H": 6, "W": 6, "O": 8, "KH": 3, "KW": 3}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stride": 2}, r"stride=\[2, 2\]: .*the template conv2d computes it"),
        ({"dilation": (1, 2), "padding": 1}, r"dilation=\[1, 2\] has to be 1"),
        ({"KH": 1, "KW": 1}, "KH=1, KW=1: filters are 3 × 3 or 5 × 5"),
        ({"KW": 5}, "KH=3, KW=5: filters are 3 × 3 or 5 × 5"),
        ({"KH": 7, "KW": 7, "padding": 3}, "KH=7, KW=7"),
        ({"dtype": "int32"}, "dtype='int32': .* float32 or float64"),
        ({"dtype": "float16"}, "dtype='float16'"),
        ({"m": 5}, "m=5; give 2, 3, 4 or 6, or 0"),
        ({"m": "4"}, "m='4'"),
        ({"padding": -1}, "padding=-1"),
        ({"H": 2}, "3 along H"),
    ],
)
def test_convolutions_that_it_does_not_compute_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        pb.create_task("conv2d_winograd", kwargs=GOOD | change)


def test_what_is_not_the_weights_of_a_task_is_not_packed() -> None:
    task = pb.create_task("conv2d_winograd", kwargs={**GOOD, "weights": "packed"})
    with pytest.raises(ArgumentError, match=r"shape \(8, 4, 3, 3\), got float32 of shape \(8, 4, 5, 5\)"):
        pack_weights(task, np.zeros((8, 4, 5, 5), np.float32))
    with pytest.raises(ArgumentError, match="make it with kwargs"):
        pack_weights(pb.create_task("conv2d_winograd", kwargs=GOOD), np.zeros((8, 4, 3, 3), np.float32))


@pytest.mark.parametrize(("shape", "most"), [((1, 128, 50, 76, 128, 3, 3), 2), ((1, 64, 7, 7, 64, 3, 3), 4)])
def test_each_core_has_a_block_of_tiles(shape: tuple[int, ...], most: int) -> None:
    options = {"padding": 1, "layout": "NHWC", "weights": "packed", "m": 4}
    task = task_of(shape, options, AVX512.replace("-num-cores 1", f"-num-cores {most}"))
    count = -(-shape[2] // 4) * -(-shape[3] // 4)
    for config in map(task.space.config, task.space.sample(12, np.random.default_rng(0))):
        assert count >= most * (config["tiles"].val - 1) + 1, str(config)
        assert "threads" in config or "in parallel" in task.show_ir(config)
