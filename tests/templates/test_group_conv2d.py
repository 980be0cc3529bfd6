from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

import pegbox as pb
from pegbox.codegen.targets.features import check_processor
from pegbox.errors import TargetError, TemplateError
from pegbox.search.models.prediction import predicted_configs
from pegbox.templates import pack_weights
from pegbox.testing import TemplateContract

Golden = Callable[[object], None]


class TestGroups(TemplateContract):
    template = "group_conv2d"
    target = "llvm -num-cores 2"
    cases: ClassVar[Any] = [
        (1, 16, 8, 9, 16, 3, 3, 2, 1, 1),
        (2, 12, 7, 7, 24, 3, 3, 3, 2, 1),
        (1, 6, 6, 9, 10, 3, 2, 2, (2, 1), (1, 0, 0, 2), (1, 2)),
        (1, 8, 5, 4, 32, 1, 1, 2, 1, 0, 1, "NHWC", "HWIO", "float64"),
        (1, 5, 6, 6, 7, 2, 2, 1),
        (2, 12, 3, 6, 90, 1, 1, 2),
        (1, 12, 3, 6, 90, 1, 1, 2),
        (1, 8, 4, 7, 20, 3, 3, 4, 2, (3, 1, 4, 0), 1, "NHWC", "packed"),
    ]
    configs = 6


def target_of(cpu: str) -> pb.Target:
    """Return the target of a processor; skip the test if this machine cannot run code for it."""
    target = pb.Target(f"llvm -mcpu={cpu} -num-cores 1")
    try:
        check_processor(target, "the test")
    except TargetError as error:
        pytest.skip(str(error))
    return target


@pytest.mark.parametrize("weights", ["HWIO", "packed"])
@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("outputs", [1, 3, 4, 5, 8, 12, 16, 20, 24, 32, 33, 36, 48, 80, 100])
def test_values_are_those_of_a_convolution_of_each_group(outputs: int, cpu: str, weights: str) -> None:
    target = target_of(cpu)
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 9, 8, 6), "float32"), rng.standard_normal((3, 3, 2, 3 * outputs), "float32")
    wide = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))).reshape(1, 11, 10, 3, 2)
    filters = w.reshape(3, 3, 2, 3, outputs)
    expected = sum(
        np.einsum("nyxgc,cgo->nyxgo", wide[:, i : i + 9, j : j + 8], filters[i, j]) for i in range(3) for j in range(3)
    ).reshape(1, 9, 8, 3 * outputs)
    kwargs = {"padding": 1, "weights": weights}
    task = pb.create_task("group_conv2d", (1, 6, 9, 8, 3 * outputs, 3, 3, 3), kwargs, target=target)
    w = w if weights == "HWIO" else pack_weights(task, w)
    for config in (task.space.config(row) for row in task.space.sample(3, rng).tolist()):
        found = np.empty(expected.shape, "float32")
        pb.build(task, config=config)(x, w, found)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_zeros_around_the_image_are_neither_copied_nor_multiplied() -> None:
    kwargs = {"padding": 1, "weights": "packed"}
    task = pb.create_task("group_conv2d", (1, 16, 4, 8, 32, 3, 3, 2), kwargs, target="llvm -mcpu=x86-64-v3")
    chosen = {"tile_w": 4, "vectors": 1, "unroll_c": 1, "order": "cyx"}
    text = task.show_ir(next(c for c in task.space.iterate() if all(c[k].val == v for k, v in chosen.items())))
    assert set(re.findall(r"(\w+) = alloc", text)) == {"tile"}
    assert sorted(re.findall(r"for kh\w* in range\((\d)\)", text)) == ["2"] * 4 + ["3"] * 2
    assert "if x" in text


@pytest.mark.parametrize("weights", ["HWIO", "packed"])
@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize(
    ("size", "outputs", "kernel", "stride", "padding", "dilation"),
    [
        ((9, 8), 8, 3, 1, (1, 1, 1, 1), 1), ((7, 7), 4, 5, 1, (2, 2, 2, 2), 1), ((8, 9), 24, 3, 2, (1, 1, 1, 1), 1),
        ((3, 2), 8, 3, 1, (2, 3, 3, 2), 1), ((1, 1), 16, 3, 1, (1, 1, 1, 1), 1), ((6, 5), 4, 3, 3, (0, 2, 5, 4), 1),
        ((7, 8), 20, 3, 1, (2, 2, 2, 2), 2), ((5, 4), 12, 2, 1, (6, 0, 0, 6), 1), ((9, 9), 60, 1, 2, (1, 0, 0, 1), 1),
        ((5, 7), 60, 1, 1, (0, 0, 0, 0), 1), ((7, 5), 8, 1, 1, (0, 0, 0, 0), 1), ((3, 5), 100, 1, 1, (0, 0, 0, 0), 1),
        ((1, 9), 5, 1, 1, (0, 0, 0, 0), 1),
    ],
)  # fmt: skip
def test_values_beside_the_borders(
    size: tuple[int, int],
    outputs: int,
    kernel: int,
    stride: int,
    padding: tuple[int, int, int, int],
    dilation: int,
    cpu: str,
    weights: str,
) -> None:
    """Compare results whose filters lie in part, or wholly, beside the image with sums over an image with zeros."""
    target = target_of(cpu)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, *size, 8), "float32")
    w = rng.standard_normal((kernel, kernel, 4, 2 * outputs), "float32")
    top, left, bottom, right = padding
    wide = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    rows, columns = ((n - (kernel - 1) * dilation - 1) // stride + 1 for n in wide.shape[1:3])
    groups, filters = wide.reshape(2, *wide.shape[1:3], 2, 4), w.reshape(kernel, kernel, 4, 2, outputs)
    expected = np.zeros((2, rows, columns, 2, outputs))
    for i, j in np.ndindex(kernel, kernel):
        at = (slice(k * dilation, k * dilation + (n - 1) * stride + 1, stride) for k, n in ((i, rows), (j, columns)))
        expected += np.einsum("nyxgc,cgo->nyxgo", groups[(slice(None), *at)].astype("float64"), filters[i, j])
    kwargs = {"stride": stride, "padding": padding, "dilation": dilation, "weights": weights}
    args = (2, 8, *size, 2 * outputs, kernel, kernel, 2)
    task = pb.create_task("group_conv2d", args, kwargs, target=target)
    w = w if weights == "HWIO" else pack_weights(task, w)
    for config in map(task.space.config, task.space.sample(4, rng)):
        found = np.full((2, rows, columns, 2 * outputs), np.nan, "float32")
        pb.build(task, config=config)(x, w, found)
        np.testing.assert_allclose(found, expected.reshape(found.shape), rtol=1e-4, atol=1e-4)


def test_lanes_of_a_group_have_an_element_of_the_input_in_common(golden: Golden) -> None:
    task = pb.create_task(
        "group_conv2d", (1, 16, 4, 8, 16, 3, 3, 2), {"padding": 1}, target="llvm -mcpu=x86-64-v3 -num-cores 1"
    )
    chosen = {"tile_w": 4, "vectors": 1, "unroll_c": 2, "order": "cyx"}
    configs = task.space.iterate()
    golden(task.show_ir(next(c for c in configs if all(c[name].val == value for name, value in chosen.items()))))


@pytest.mark.parametrize(("outputs", "is_inside"), [(8, True), (12, True), (16, False), (32, False)])
def test_columns_of_the_filter_are_unrolled_for_narrow_groups(outputs: int, is_inside: bool) -> None:
    target = "llvm -mcpu=x86-64-v4 -num-cores 1"
    task = pb.create_task("group_conv2d", (1, 16, 8, 8, 4 * outputs, 3, 3, 4), {"padding": 1}, target=target)
    chosen = {"tile_w": 4, "vectors": 1, "unroll_c": 4}
    config = next(c for c in task.space.iterate() if all(c[name].val == value for name, value in chosen.items()))
    columns = re.search(r"for kw in (\w*) ?range", task.show_ir(config))
    assert (columns is not None and columns[1] == "unrolled") == is_inside


@pytest.mark.parametrize(
    ("outputs", "sizes"), [(4, [16, 4]), (8, [16, 8]), (12, [16, 4]), (16, [16]), (24, [8]), (3, [16])]
)
def test_the_elements_of_a_vector_follow_from_the_outputs_of_a_group(outputs: int, sizes: list[int]) -> None:
    task = pb.create_task("group_conv2d", (1, 4, 8, 8, 2 * outputs, 3, 3, 2), target="llvm -mcpu=x86-64-v4")
    assert {config["lanes"].val for config in task.space.iterate()} == set(sizes)


@pytest.mark.parametrize(
    ("groups", "outputs", "sizes"),
    [(8, 10, {5}), (8, 5, {3}), (16, 5, {5}), (4, 12, {3}), (8, 7, {4}), (16, 4, {1, 2, 3, 4})],
)
def test_lanes_of_several_groups_have_fixed_places(groups: int, outputs: int, sizes: set[int]) -> None:
    """A tile has whole groups or all channels, so that no element is gathered."""
    args = 1, 2 * groups, 4, 8, outputs * groups, 1, 1, groups
    task = pb.create_task("group_conv2d", args, target="llvm -mcpu=x86-64-v4 -num-cores 1")
    across = [config for config in task.space.iterate() if config["lanes"].val == 16]
    assert {config["vectors"].val for config in across} == sizes
    assert not any("gather" in task.lower(config).ll for config in across[:: max(1, len(across) // 3)])


@pytest.mark.parametrize(
    ("cpu", "inner", "outputs", "kernel", "sizes"),
    [
        ("x86-64-v4", 8, 8, 3, {16, 8}),
        ("x86-64-v4", 8, 8, 1, {8}),  # an element is picked for one multiply-add alone
        ("x86-64-v3", 8, 4, 1, {8, 4}),
        ("x86-64-v4", 32, 8, 3, {8}),  # no two vectors have the elements of two groups
        ("x86-64-v4", 10, 4, 3, {16, 4}),
        ("x86-64-v4", 11, 4, 3, {4}),
        ("x86-64-v4", 32, 10, 3, {16, 2}),
    ],
)
def test_lanes_are_of_several_groups_only_where_elements_are_picked_fast(
    cpu: str, inner: int, outputs: int, kernel: int, sizes: set[int]
) -> None:
    args, target = (1, 8 * inner, 8, 8, 8 * outputs, kernel, kernel, 8), f"llvm -mcpu={cpu} -num-cores 1"
    task = pb.create_task("group_conv2d", args, target=target)
    assert {config["lanes"].val for config in task.space.iterate()} == sizes


def test_few_lanes_of_one_group_are_slower_than_picked_elements() -> None:
    target = "llvm -mcpu=x86-64-v4 -num-cores 1"
    lanes = [
        {
            c["lanes"].val
            for c in pb.create_task("group_conv2d", (1, 2 * n, 4, 8, o * n, 1, 1, n), target=target).space.iterate()
        }
        for n, o in ((8, 10), (8, 12), (12, 22))
    ]
    assert lanes == [{16}, {16, 4}, {16, 2}]


def test_pixels_of_a_flat_image_are_one_row(golden: Golden) -> None:
    """35 pixels are 4 tiles of 8 and one of 3, regardless of rows."""
    args, target = (1, 8, 5, 7, 64, 1, 1, 2), "llvm -mcpu=x86-64-v4 -num-cores 1"
    task = pb.create_task("group_conv2d", args, {"weights": "packed"}, target=target)
    configs = list(task.space.iterate())
    assert {c["order"].val for c in configs} == {"yxc", "ycx"}
    chosen = {"tile_w": 8, "vectors": 2, "order": "ycx"}
    golden(task.show_ir(next(c for c in configs if all(c[name].val == value for name, value in chosen.items()))))


def test_rows_of_a_flat_image_beyond_l2_are_separate() -> None:
    target = "llvm -mcpu=x86-64-v4 -num-cores 1 -caches=32,64,8192"
    task = pb.create_task("group_conv2d", (1, 64, 16, 10, 64, 1, 1, 2), {"weights": "packed"}, target=target)
    assert {c["order"].val for c in task.space.iterate()} == {"yxc", "ycx", "cyx"}


@pytest.mark.parametrize(("outputs", "sizes"), [(112, {1, 4}), (80, {1, 3}), (208, {1, 2, 3, 4}), (96, {1, 2, 3, 4})])
def test_no_tile_of_a_flat_image_has_one_vector_that_is_left(outputs: int, sizes: set[int]) -> None:
    """Tiles divide seven vectors into 4 + 3, and five into 3 + 2; of thirteen, tiles of 2, 3 or 4 leave one."""
    args, target = (1, 8, 5, 7, 2 * outputs, 1, 1, 2), "llvm -mcpu=x86-64-v4 -num-cores 1"
    task = pb.create_task("group_conv2d", args, {"weights": "packed"}, target=target)
    assert {c["vectors"].val for c in task.space.iterate()} == sizes


@pytest.mark.parametrize(
    ("size", "kernel", "outputs", "most"),
    [
        (7, 5, 32, 2),  # 14 sums and 14 elements
        (7, 3, 32, 8),  # one column of the filter is beside an edge
        (28, 5, 32, 8),  # most tiles are not at an edge
        (7, 5, 8, 16),  # rows of the filter are written out
    ],
)
def test_registers_hold_the_elements_of_a_step_at_the_border(size: int, kernel: int, outputs: int, most: int) -> None:
    args, kwargs = (1, 32, size, size, 2 * outputs, kernel, kernel, 2), {"padding": kernel // 2, "weights": "packed"}
    task = pb.create_task("group_conv2d", args, kwargs, target="llvm -mcpu=x86-64-v4 -num-cores 1")
    vectors = min(outputs // 16, 2) or 1
    wide = [c for c in task.space.iterate() if (c["tile_w"].val, c["vectors"].val) == (7, vectors)]
    assert max(c["unroll_c"].val for c in wide) == most


@pytest.mark.parametrize(
    ("cpu", "outputs", "wide", "is_copied"),
    [
        ("x86-64-v4", 8, 8, False), ("x86-64-v4", 12, 16, True), ("x86-64-v4", 20, 32, False),
        ("x86-64-v4", 24, 32, False), ("x86-64-v4", 60, 64, False), ("x86-64-v4", 100, 112, False),
        ("x86-64-v3", 12, 16, True), ("x86-64-v3", 136, 136, False),
    ],
)  # fmt: skip
def test_packed_groups_end_with_a_vector(cpu: str, outputs: int, wide: int, is_copied: bool) -> None:
    target = f"llvm -mcpu={cpu} -num-cores 1"
    task = pb.create_task("group_conv2d", (1, 4, 4, 8, 2 * outputs, 3, 3, 2), {"weights": "packed"}, target=target)
    most = pb.Target(target).vector_bits // 32
    packed = next(spec for spec in task.arguments() if spec.name == "weight")
    assert packed.shape == (-(-2 * wide // most), 3, 3, 2, most)
    for config in map(task.space.config, task.space.sample(2, np.random.default_rng(0))):
        assert ("groups = alloc(" in task.show_ir(config)) == is_copied


def test_half_of_the_last_vector_of_a_group_is_left_out() -> None:
    task = pb.create_task(
        "group_conv2d", (1, 8, 4, 8, 48, 1, 1, 2), {"weights": "packed"}, target="llvm -mcpu=x86-64-v4 -num-cores 1"
    )
    config = next(c for c in task.space.iterate() if c["tile_w"].val == 4)
    assert {c["vectors"].val for c in task.space.iterate()} == {2}
    text = task.show_ir(config)
    sums = re.findall(r"in vectorized range\((\d+)\):\n\s*tile\[[^=]*\] = tile\[", text)
    assert sorted(sums) == ["16", "8"]


def test_the_last_tile_of_a_group_has_fewer_vectors(golden: Golden) -> None:
    """Seven vectors are a tile of four and one of three, of whose last one AVX-512 computes half."""
    kwargs = {"weights": "packed"}
    task = pb.create_task(
        "group_conv2d", (1, 8, 4, 8, 200, 1, 1, 2), kwargs, target="llvm -mcpu=x86-64-v4 -num-cores 1"
    )
    configs = task.space.iterate()
    chosen = {"tile_w": 4, "vectors": 4, "order": "ycx"}
    golden(task.show_ir(next(c for c in configs if all(c[name].val == value for name, value in chosen.items()))))


@pytest.mark.parametrize(("outputs", "most"), [(16, 1), (32, 2), (48, 3), (96, 4)])
def test_the_vectors_of_a_tile_are_in_one_group(outputs: int, most: int) -> None:
    args, kwargs = (1, 16, 4, 8, 4 * outputs, 3, 3, 4), {"weights": "packed"}
    task = pb.create_task("group_conv2d", args, kwargs, target="llvm -mcpu=x86-64-v4 -num-cores 1")
    assert max(config["vectors"].val for config in task.space.iterate()) == most


@pytest.mark.parametrize(
    ("size", "groups", "cores", "is_preferred"),
    [(7, 2, 1, True), (7, 2, 2, True), (7, 2, 4, False), (7, 16, 1, False), (64, 2, 1, False)],
)
def test_weights_that_fit_no_near_cache_are_read_once(size: int, groups: int, cores: int, is_preferred: bool) -> None:
    target = f"llvm -mcpu=x86-64-v4 -num-cores {cores} -caches=32,1024,8192"
    args, kwargs = (1, 512, size, size, 512, 3, 3, groups), {"padding": 1, "weights": "packed"}
    task = pb.create_task("group_conv2d", args, kwargs, target=target)
    assert (task.preference is not None) == is_preferred
    if is_preferred:
        assert next(predicted_configs(task))["order"].val == "cyx"


def test_channels_that_groups_are_given_are_left_out_of_the_result(golden: Golden) -> None:
    kwargs = {"weights": "packed"}
    task = pb.create_task("group_conv2d", (1, 4, 4, 8, 24, 3, 3, 2), kwargs, target="llvm -mcpu=x86-64-v3 -num-cores 1")
    chosen = {"tile_w": 6, "vectors": 1, "unroll_c": 2, "order": "yxc"}
    configs = task.space.iterate()
    golden(task.show_ir(next(c for c in configs if all(c[name].val == value for name, value in chosen.items()))))


def test_groups_that_fill_no_whole_vectors_are_stored_in_part(golden: Golden) -> None:
    kwargs = {"weights": "packed"}
    task = pb.create_task("group_conv2d", (1, 4, 4, 8, 56, 3, 3, 2), kwargs, target="llvm -mcpu=x86-64-v4 -num-cores 1")
    configs = task.space.iterate()
    chosen = {"tile_w": 6, "vectors": 2, "order": "cyx"}
    golden(task.show_ir(next(c for c in configs if all(c[name].val == value for name, value in chosen.items()))))


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((1, 6, 4, 4, 6, 3, 3, 4), {}, "group_conv2d: groups=4 does not divide C=6; give a divisor of both"),
        ((1, 6, 4, 4, 8, 3, 3, 3), {}, "group_conv2d: groups=3 does not divide O=8"),
        ((1, 6, 4, 4, 6, 3, 3, 0), {}, "group_conv2d: groups=0 is not a number of groups"),
        ((1, 6, 4, 4, 6, 5, 3, 2), {}, "group_conv2d: the filter spans 5 along H"),
        ((1, 6, 4, 4, 6, 3, 3, 2), {"layout": "NCHW"}, "group_conv2d: layout='NCHW' is not a layout here; give one of"),
        ((1, 6, 4, 4, 6, 3, 3, 2), {"weights": "OIHW"}, "group_conv2d: weights='OIHW' is not a layout here"),
        ((1, 0, 4, 4, 6, 3, 3, 2), {}, "group_conv2d: C=0 is not a size"),
    ],
)
def test_bad_arguments_are_refused(args: tuple[Any, ...], kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        pb.create_task("group_conv2d", args, kwargs)
