from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

import pegbox as pb
from pegbox.codegen.targets.features import check_processor
from pegbox.errors import TargetError, TemplateError
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
        (1, 8, 4, 7, 20, 3, 3, 4, 2, (3, 1, 4, 0), 1, "NHWC", "packed"),
    ]
    configs = 6


@pytest.mark.parametrize("weights", ["HWIO", "packed"])
@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("outputs", [1, 3, 4, 5, 8, 12, 16, 20, 24, 32, 33, 36])
def test_values_are_those_of_a_convolution_of_each_group(outputs: int, cpu: str, weights: str) -> None:
    target = pb.Target(f"llvm -mcpu={cpu} -num-cores 1")
    try:
        check_processor(target, "the test")
    except TargetError as error:
        pytest.skip(str(error))
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


def test_rows_of_zeros_are_neither_copied_nor_multiplied() -> None:
    kwargs = {"padding": (1, 0), "weights": "packed"}
    task = pb.create_task("group_conv2d", (1, 16, 4, 8, 16, 3, 3, 2), kwargs, target="llvm -mcpu=x86-64-v3")
    text = task.show_ir(task.space.get(0))
    assert "data_padded" not in text
    assert sorted(re.findall(r"for kh\w* in range\((\d)\)", text)) == ["2", "2", "3"]


def test_channels_of_neighbours_in_the_copy_are_an_odd_number_of_lines_apart() -> None:
    task = pb.create_task("group_conv2d", (1, 64, 4, 6, 64, 3, 3, 2), {"padding": 1}, target="llvm -mcpu=x86-64-v3")
    assert f"data_padded = alloc(float32[1, 4, 8, {64 + 16}], global)" in task.show_ir(task.space.get(0))


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
    chosen = {"tile_w": 4, "vectors": 1, "unroll_c": 2}
    config = next(c for c in task.space.iterate() if all(c[name].val == value for name, value in chosen.items()))
    columns = re.search(r"for kw in (\w*) ?range", task.show_ir(config))
    assert (columns is not None and columns[1] == "unrolled") == is_inside


@pytest.mark.parametrize(
    ("outputs", "sizes"), [(4, [16, 4]), (8, [8]), (12, [16, 4]), (16, [16]), (24, [8]), (3, [16])]
)
def test_the_elements_of_a_vector_follow_from_the_outputs_of_a_group(outputs: int, sizes: list[int]) -> None:
    task = pb.create_task("group_conv2d", (1, 4, 8, 8, 2 * outputs, 3, 3, 2), target="llvm -mcpu=x86-64-v4")
    assert {config["lanes"].val for config in task.space.iterate()} == set(sizes)


@pytest.mark.parametrize(
    ("cpu", "outputs", "wide", "lanes"),
    [
        ("x86-64-v4", 8, 8, 8), ("x86-64-v4", 12, 16, 16), ("x86-64-v4", 20, 24, 8), ("x86-64-v4", 24, 24, 8),
        ("x86-64-v4", 100, 112, 16), ("x86-64-v4", 136, 144, 16), ("x86-64-v3", 12, 16, 8), ("x86-64-v3", 136, 136, 8),
    ],
)  # fmt: skip
def test_packed_groups_end_with_a_vector(cpu: str, outputs: int, wide: int, lanes: int) -> None:
    """Two halves of a vector of AVX-512 take about as long as the whole, two of AVX2 twice as long."""
    target = f"llvm -mcpu={cpu} -num-cores 1"
    task = pb.create_task("group_conv2d", (1, 4, 4, 8, 2 * outputs, 3, 3, 2), {"weights": "packed"}, target=target)
    assert "lanes" in task.space.knobs
    assert [entity.value() for entity in task.space.knobs["lanes"].entities] == [lanes]
    most = pb.Target(target).vector_bits // 32
    packed = next(spec for spec in task.arguments() if spec.name == "weight")
    assert packed.shape == (-(-2 * wide // most), 3, 3, 2, most)
    for config in map(task.space.config, task.space.sample(2, np.random.default_rng(0))):
        assert ("groups = alloc(" in task.show_ir(config)) == (wide > outputs)


def test_channels_that_groups_are_given_are_left_out_of_the_result(golden: Golden) -> None:
    kwargs = {"weights": "packed"}
    task = pb.create_task("group_conv2d", (1, 4, 4, 8, 24, 3, 3, 2), kwargs, target="llvm -mcpu=x86-64-v3 -num-cores 1")
    chosen = {"tile_w": 6, "vectors": 1, "unroll_c": 2, "order": "yxc"}
    configs = task.space.iterate()
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
