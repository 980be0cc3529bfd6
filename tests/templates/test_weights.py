"""Weights packed ahead: the layout, the function that makes it, and kernels that take it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox.errors import ArgumentError, TemplateError
from pegbox.task.task import Task
from pegbox.templates import pack_weights

TARGETS = ("llvm -num-cores 1", "llvm -mcpu=x86-64-v3 -num-cores 1", "llvm -mcpu=x86-64 -num-cores 1")


def packed_task(*args: Any, template: str = "matmul", target: str = TARGETS[0]) -> Task:
    return pb.create_task(template, args=args, kwargs={"weights": "packed"}, target=target)


def random(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).uniform(-1, 1, shape).astype(dtype)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("template", "args"),
    [
        ("matmul", (9, 20, 37)),
        ("matmul", (1, 33, 50)),
        ("matmul", (5, 70, 3)),
        ("matmul", (4, 6, 70, "float64")),
        ("batch_matmul", (3, 5, 7, 40)),
        ("batch_matmul", (2, 3, 80, 4)),
    ],
)
def test_a_kernel_of_packed_weights_multiplies_with_the_array_that_was_packed(
    template: str, args: tuple[Any, ...], target: str
) -> None:
    if pb.Target(target).vector_bits > pb.Target("llvm").vector_bits:
        pytest.skip("this machine has no such vectors")
    task = packed_task(*args, template=template, target=target)
    *lead, m, k, n = (x for x in args if isinstance(x, int))
    dtype = task.arguments()[0].dtype
    a, b, c = random((*lead, m, k), dtype), random((*lead, k, n), dtype), np.empty((*lead, m, n), dtype)
    packed = pack_weights(task, b)
    for row in task.space.sample(3, np.random.default_rng(0)):
        kernel = pb.build(task, config=task.space.config([int(digit) for digit in row]))
        kernel(a, packed, c)
        np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("template", "args"),
    [
        ("matmul", (9, 200, 370)),
        ("matmul", (5, 70, 3)),
        ("batch_matmul", (3, 5, 700, 40)),
        ("matmul_strassen", (60, 90, 100)),
    ],
)
def test_packed_weights_are_rows_that_begin_at_a_cache_line(template: str, args: tuple[int, ...]) -> None:
    b = random(args[:-3] + args[-2:])
    packed = [pack_weights(packed_task(*args, template=template), b) for _ in range(5)]
    assert [each.ctypes.data % 64 for each in packed] == [0] * 5
    assert all(each.flags.c_contiguous and each.flags.writeable for each in packed)


def test_packed_weights_are_a_copy() -> None:
    b = random((70, 1))
    packed = pack_weights(packed_task(5, 70, 1), b)
    b[:] = 0
    assert packed.all()


def test_the_layout_is_panels_of_one_vector_with_zeros_at_the_end() -> None:
    task = packed_task(4, 5, 20, target="llvm -mcpu=x86-64-v3 -num-cores 1")
    b = random((5, 20))
    packed = pack_weights(task, b)
    assert packed.shape == (3, 5, 8) == task.arguments()[1].shape
    np.testing.assert_array_equal(packed[1], b[:, 8:16])
    np.testing.assert_array_equal(packed[2], np.pad(b[:, 16:], ((0, 0), (0, 4))))


def test_the_layout_of_a_narrow_product_is_its_columns() -> None:
    task = packed_task(4, 256, 3)
    b = random((256, 3))
    np.testing.assert_array_equal(pack_weights(task, b), b.T)


def test_the_layout_is_the_same_for_every_configuration() -> None:
    task = packed_task(16, 64, 100)
    for row in task.space.sample(8, np.random.default_rng(0)):
        config = task.space.config([int(digit) for digit in row])
        assert task.lower(config).args == task.arguments()


@pytest.mark.parametrize("array", [random((20, 37)).T, random((20, 37), "float64"), random((3, 20, 16)), [[1.0]]])
def test_arrays_that_are_not_the_plain_weights_are_refused(array: Any) -> None:
    with pytest.raises(ArgumentError, match=r"the weights are float32 of shape \(20, 37\)"):
        pack_weights(packed_task(9, 20, 37), array)


def test_a_task_with_plain_weights_says_how_to_have_them_packed() -> None:
    task = pb.create_task("matmul", args=(9, 20, 37))
    with pytest.raises(ArgumentError, match="'weights': 'packed'"):
        pack_weights(task, random((20, 37)))


def test_a_kernel_of_packed_weights_refuses_plain_ones() -> None:
    task = packed_task(9, 20, 37)
    kernel = pb.build(
        task, config=task.space.config([int(d) for d in task.space.sample(1, np.random.default_rng(0))[0]])
    )
    with pytest.raises(ArgumentError, match="B_packed"):
        kernel(random((9, 20)), random((20, 37)), np.empty((9, 37), "float32"))


def test_other_words_for_weights_are_refused() -> None:
    with pytest.raises(TemplateError, match="'plain', 'packed'"):
        pb.create_task("matmul", args=(2, 3, 4), kwargs={"weights": "panels"})
