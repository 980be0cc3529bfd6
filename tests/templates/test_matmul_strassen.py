"""The matmul_strassen template: odd sizes, both types, packed weights, scales of rows and columns, and its errors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stage import SECOND

import pegbox as pb
from pegbox import te
from pegbox.errors import TemplateError
from pegbox.task.task import Task
from pegbox.templates import pack_weights
from pegbox.templates.matmul_arguments import Product
from pegbox.templates.strassen_shape import LEFT, OUT, RIGHT, Strassen
from pegbox.testing import TemplateContract

AVX2, AVX512 = "llvm -mcpu=x86-64-v3 -num-cores 1", "llvm -mcpu=x86-64-v4 -num-cores 1"
ROUNDOFF = {"float32": 2.0**-24, "float64": 2.0**-53}


class TestStrassen(TemplateContract):
    template = "matmul_strassen"
    cases = (
        (37, 64, 80, "float32", "packed"),
        (64, 96, 128),
        (33, 21, 50, "float64", "packed"),
        (5, 7, 3, "float64"),
    )[:: 1 if SECOND else 2]
    configs = 3
    values = 2


def task_of(m: int, k: int, n: int, target: str = "llvm -num-cores 1", **options: Any) -> Task:
    return pb.create_task("matmul_strassen", args=(m, k, n), kwargs=options, target=target)


def product(task: Task, a: np.ndarray, b: np.ndarray, *more: np.ndarray, config: pb.Config | None = None) -> np.ndarray:
    out = np.full((a.shape[0], b.shape[1]), np.nan, a.dtype)
    given_b = pack_weights(task, b) if task.workload[1]["weights"] == "packed" else b
    pb.build(task, config=task.space.get(0) if config is None else config)(a, given_b, *more, out)
    return out


def check_rows_and_columns(task: Task, a: np.ndarray, b: np.ndarray, config: pb.Config) -> None:
    """Check that the error of each element is small relative to the norms of its row and its column."""
    exact = a.astype(np.longdouble) @ b.astype(np.longdouble)
    norms = np.linalg.norm(a.astype(float), axis=1)[:, None] * np.linalg.norm(b.astype(float), axis=0)
    errors = np.abs(product(task, a, b, config=config) - exact)
    assert (errors <= 12 * ROUNDOFF[str(a.dtype)] * norms).all(), str(config)


def test_the_sums_are_a_product_of_two_by_two() -> None:
    for (i, l), (m, j), (y, x) in itertools.product(itertools.product(range(2), repeat=2), repeat=3):  # noqa: E741
        terms = zip(OUT[2 * y + x], LEFT, RIGHT, strict=True)
        found = sum(out * left[2 * i + l] * right[2 * m + j] for out, left, right in terms)
        assert found == (l == m and (i, j) == (y, x))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    sizes=st.tuples(st.integers(1, 41), st.integers(1, 40), st.integers(1, 70)),
    dtype=st.sampled_from(["float32", "float64"]),
    weights=st.sampled_from(["plain", "packed"]),
    seed=st.integers(0, 1000),
)
def test_any_small_product(sizes: tuple[int, int, int], dtype: str, weights: str, seed: int) -> None:
    m, k, n = sizes
    task, rng = task_of(*sizes, dtype=dtype, weights=weights), np.random.default_rng(seed)
    a, b = rng.uniform(-1, 1, (m, k)).astype(dtype), rng.uniform(-1, 1, (k, n)).astype(dtype)
    (index,) = task.space.sample(1, rng)
    check_rows_and_columns(task, a, b, task.space.config(index))


@pytest.mark.parametrize("weights", ["plain", "packed"])
@pytest.mark.parametrize("target", [AVX2, "llvm -num-cores 1", "llvm -num-cores 2"])
def test_a_large_row_or_column_adds_no_error_to_the_others(weights: str, target: str) -> None:
    task, rng = task_of(70, 90, 100, target, weights=weights), np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((70, 90), (90, 100)))
    a *= 10.0 ** rng.integers(-12, 12, 70)[:, None]
    b *= 10.0 ** rng.integers(-12, 12, 100)
    a[13] = b[:, 17] = 0
    for config in map(task.space.config, task.space.sample(4, rng)):
        check_rows_and_columns(task, a.astype(np.float32), b.astype(np.float32), config)


@pytest.mark.parametrize("weights", ["plain", "packed"])
@pytest.mark.parametrize(("dtype", "least"), [("float32", -36), ("float64", -140)])
def test_rows_and_columns_may_be_as_small_as_normal_numbers(weights: str, dtype: str, least: int) -> None:
    task, rng = task_of(14, 30, 70, dtype=dtype, weights=weights), np.random.default_rng(0)
    rows, columns = rng.standard_normal((14, 30)), rng.standard_normal((30, 70))
    tiny, large = 10.0 ** rng.integers(least, 1, 14)[:, None], 10.0 ** rng.integers(0, -least // 2, 70)
    for a, b in ((rows * tiny, columns * large), ((rows.T * large[:14]).T, columns * np.resize(tiny, 70))):
        check_rows_and_columns(task, a.astype(dtype), b.astype(dtype), task.space.get(0))


@pytest.mark.parametrize("weights", ["plain", "packed"])
def test_results_are_finite_where_the_product_of_both_scales_is_not(weights: str) -> None:
    a, b = np.zeros((4, 6), np.float32), np.zeros((6, 20), np.float32)
    a[:, 0] = b[1] = 2.0**66  # these never meet
    assert (product(task_of(4, 6, 20, weights=weights), a, b) == 0).all()


@pytest.mark.parametrize("weights", ["plain", "packed"])
def test_results_are_finite_where_a_large_row_meets_a_small_column(weights: str) -> None:
    a, b = np.full((4, 60), 2.0**125, np.float32), np.full((60, 20), 2.0**-60, np.float32)
    np.testing.assert_allclose(product(task_of(4, 60, 20, weights=weights), a, b), 60 * 2.0**65, rtol=1e-5)
    np.testing.assert_allclose(
        product(task_of(20, 60, 4, weights=weights), b.T.copy(), a.T.copy()), 60 * 2.0**65, rtol=1e-5
    )


def test_the_error_is_estimated() -> None:
    rng = np.random.default_rng(0)
    for k in (128, 1024):
        task = task_of(96, k, 128)
        a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((96, k), (k, 128)))
        exact = a.astype(float) @ b
        error = np.sqrt(np.mean((product(task, a, b) - exact) ** 2) / np.mean(exact**2))
        assert 0.5 < error / Strassen(Product((), 96, k, 128, "float32", False, task.target)).error < 1.5


@pytest.mark.parametrize(
    ("options", "accuracy", "message"),
    [
        ({"dtype": "int32"}, None, "dtype='int32': its sums need float32 or float64; use matmul"),
        ({"weights": "transposed"}, None, "weights='transposed'"),
        ({}, 1e-7, "accuracy=1e-07: its errors are about .*, or use the template matmul, which is more accurate"),
    ],
)
def test_other_types_and_smaller_accuracies_are_refused(
    options: dict[str, Any], accuracy: float | None, message: str
) -> None:
    with pytest.raises(TemplateError, match=message):
        pb.create_task("matmul_strassen", (64, 512, 64), options, target=AVX2, accuracy=accuracy)


def test_an_accuracy_above_its_errors_is_accepted() -> None:
    pb.create_task("matmul_strassen", (64, 512, 64), target=AVX2, accuracy=1e-6)
    pb.create_task("matmul_strassen", (64, 512, 64), {"dtype": "float64"}, target=AVX2, accuracy=1e-7)


def bias_relu(c: te.Tensor) -> te.Tensor:
    bias = te.placeholder((c.shape[-1],), name="bias")
    return te.compute(c.shape, lambda *at: te.max(c(*at) + bias[at[-1]], 0.0), name="relu")


def test_an_epilogue_is_computed_where_the_outputs_are_stored() -> None:
    task = task_of(40, 48, 72, weights="packed").with_epilogue(bias_relu)
    rng = np.random.default_rng(0)
    a, b, bias = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((40, 48), (48, 72), (72,)))
    for config in map(task.space.config, task.space.sample(3, rng)):
        assert "C[" not in task.show_ir(config)
        out = np.empty((40, 72), np.float32)
        pb.build(task, config=config)(a, pack_weights(task, b), bias, out)
        np.testing.assert_allclose(out, np.maximum(a @ b + bias, 0), rtol=1e-4, atol=1e-5, err_msg=str(config))


def implementations(*shape: int, **options: Any) -> list[str]:
    return list(pb.create_task("matmul", shape, options, target=AVX512).with_implementations().tasks)


def test_it_is_an_implementation_of_products_with_enough_rows() -> None:
    assert "matmul_strassen" in implementations(256, 512, 512, weights="packed")
    assert "matmul_strassen" in implementations(1000, 999, 1001)
    assert "matmul_strassen" not in implementations(8, 768, 3072, weights="packed")  # as long as the weights take
    assert "matmul_strassen" not in implementations(256, 512, 512, dtype="int32")
    batches = pb.create_task("batch_matmul", (4, 256, 256, 256), target=AVX512)
    assert "matmul_strassen" not in batches.with_implementations().tasks


def test_packed_weights_are_sums_and_the_scales_of_their_columns() -> None:
    task = task_of(16, 5, 20, AVX2, weights="packed")
    b = np.random.default_rng(0).uniform(1, 2, (5, 20)).astype(np.float32)
    packed = pack_weights(task, 4 * b)
    assert packed.shape == task.arguments()[1].shape == (7, 2, 4, 8)
    np.testing.assert_array_equal(packed[1, 0, :3], b[:3, :8])  # B11
    np.testing.assert_array_equal(packed[3, 1, :2, :4], b[3:, 16:] - b[:2, 16:])  # B21 - B11
    assert (packed[:2, 0, 3] == 4).all()
    assert (packed[:, 1, :3, 4:] == 0).all()


def test_a_block_of_rows_is_summed_multiplied_and_stored(golden: Callable[[object], None]) -> None:
    task = task_of(31, 48, 64, AVX512, weights="packed")
    golden(task.show_ir({"tiles": 16, "rows": 8, "vectors": 2, "block_o": 1, "unroll_c": 2, "prefetch": 8}))


def test_sums_of_plain_weights_come_first(golden: Callable[[object], None]) -> None:
    task = task_of(64, 33, 40, AVX2)
    golden(task.show_ir({"tiles": 16, "rows": 4, "vectors": 3, "block_o": 1, "unroll_c": 1, "prefetch": 0}))


def test_sums_of_plain_weights_are_those_of_a_block_where_all_rows_are_one(golden: Callable[[object], None]) -> None:
    task = task_of(32, 33, 40, AVX2)
    golden(task.show_ir({"tiles": 16, "rows": 4, "vectors": 3, "block_o": 1, "unroll_c": 1, "prefetch": 0}))


def test_threads_share_blocks_of_rows() -> None:
    task = task_of(96, 64, 64, AVX512.replace("-num-cores 1", "-num-cores 2"))
    ir = task.show_ir({"tiles": 24, "rows": 8, "vectors": 2, "block_o": 1, "unroll_c": 1, "prefetch": 0, "threads": 2})
    assert "for y.outer.outer in parallel range(2)" in ir
