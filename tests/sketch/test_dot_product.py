"""Products whose operands lie along the reduce axis: it runs along the vectors, and nothing is transposed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import pegbox as pb
from pegbox import te
from pegbox.compute.reference import evaluate
from pegbox.plugins.sketch.generator import generate_sketches

AVX2 = "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3 -num-cores 1"
TILED = ["tile", "cache+fuse(1)", "cache+fuse(2)"]


@pb.workload("dot_linear")
def linear(n: int, k: int, m: int, dtype: str = "float32") -> list[te.Tensor]:
    x, w = te.placeholder((n, k), name="X", dtype=dtype), te.placeholder((m, k), name="W", dtype=dtype)
    r = te.reduce_axis((0, k), name="k")
    return [x, w, te.compute((n, m), lambda i, j: te.sum(x[i, r] * w[j, r], axis=r), name="C")]


@pb.workload("dot_linear_relu")
def linear_relu(n: int, k: int, m: int) -> list[te.Tensor]:
    x, w, c = linear.tensors(n, k, m)
    return [x, w, te.compute(c.shape, lambda i, j: te.maximum(c[i, j] - 3, 0), name="relu")]


@pb.workload("dot_matvec")
def matvec(k: int, m: int) -> list[te.Tensor]:
    w, x, r = te.placeholder((m, k), name="W"), te.placeholder((k,), name="x"), te.reduce_axis((0, k), name="k")
    return [w, x, te.compute((m,), lambda j: te.sum(w[j, r] * x[r], axis=r), name="y")]


@pb.workload("dot_scores")
def scores(b: int, n: int, d: int) -> list[te.Tensor]:
    q, k, r = te.placeholder((b, n, d), name="Q"), te.placeholder((b, n, d), name="K"), te.reduce_axis((0, d), name="r")
    return [q, k, te.compute((b, n, n), lambda b, i, j: te.sum(q[b, i, r] * k[b, j, r], axis=r), name="S")]


@pb.workload("dot_conv")
def channels_last(size: int, c: int, o: int) -> list[te.Tensor]:
    """A convolution that sums over rows and columns, too."""
    x, w = te.placeholder((size, size, c), name="X"), te.placeholder((o, 3, 3, c), name="W")
    ry, rx, rc = (te.reduce_axis((0, extent), name=name) for extent, name in ((3, "ry"), (3, "rx"), (c, "rc")))
    return [x, w, te.compute(
        (size - 2, size - 2, o),
        lambda i, j, f: te.sum(x[i + ry, j + rx, rc] * w[f, ry, rx, rc], axis=[ry, rx, rc]), name="conv",
    )]  # fmt: skip


@pb.workload("dot_distance")
def distance(n: int, k: int, m: int) -> list[te.Tensor]:
    """The largest difference of two rows."""
    x, y, r = te.placeholder((n, k), name="X"), te.placeholder((m, k), name="Y"), te.reduce_axis((0, k), name="k")
    return [x, y, te.compute((n, m), lambda i, j: te.max(te.abs(x[i, r] - y[j, r]), axis=r), name="D")]


@pb.workload("dot_squares")
def squares_of(n: int, k: int, m: int) -> list[te.Tensor]:
    """A reduction of the user's, which lanes cannot do."""
    x, y, r = te.placeholder((n, k), name="X"), te.placeholder((m, k), name="Y"), te.reduce_axis((0, k), name="k")
    squares = te.comm_reducer(lambda a, b: a + b * b, lambda t: te.const(0, t), name="squares")
    return [x, y, te.compute((n, m), lambda i, j: squares(x[i, r] - y[j, r], axis=r), name="D")]


def names(workload: pb.Workload, *args: object, target: str = AVX2, rules: str = "default") -> list[str]:
    return [sketch.name for sketch in generate_sketches(workload.tensors(*args), target, rules)]


@pytest.mark.parametrize(
    ("workload", "args", "wanted"),
    [
        (linear, (4, 64, 32), ["dot"]),
        (linear, (16, 64, 32), ["dot"]),
        (linear, (64, 64, 32), ["dot", *TILED]),  # a copy of the weights is worth its time too
        (linear, (64, 7, 32), TILED),  # shorter than a vector
        (linear_relu, (4, 64, 32), ["dot+fuse(1)", "dot+fuse(2)"]),
        (matvec, (64, 32), ["dot"]),
        (scores, (2, 12, 16), ["dot"]),
        (channels_last, (6, 16, 8), ["dot"]),
        (distance, (3, 64, 20), ["dot"]),
        (squares_of, (3, 64, 20), TILED),
    ],
)
def test_products_along_their_reduce_axis(workload: pb.Workload, args: tuple[int, ...], wanted: list[str]) -> None:
    assert sorted(names(workload, *args)) == sorted(wanted)


@pytest.mark.parametrize("name", ["matmul", "matmul_transposed"])
def test_a_product_with_an_operand_across_its_reduce_axis_is_none(name: str) -> None:
    assert not any(sketch.startswith("dot") for sketch in names(pb.task.workload.find_workload(name), 4, 64, 32))


def test_ansors_rules_know_no_dot_products() -> None:
    assert not any(sketch.startswith("dot") for sketch in names(linear, 4, 64, 32, rules="ansor"))


def test_few_results_on_many_cores_may_also_be_summed_in_parts() -> None:
    found = names(linear, 1, 256, 8, target=AVX2.replace("cores 1", "cores 4"))
    assert {"dot", "rfactor(parts)"} <= set(found)


def test_the_lanes_of_a_dot_product_are_terms(golden: Callable[[object], None]) -> None:
    task = pb.create_task(linear, args=(4, 96, 12), space="sketch", target=AVX2)
    splits = ["C_i", "sp", [-1, 1, 4]], ["C_j", "sp", [-1, 3, 2]], ["C_k", "sp", [-1, 8]]
    config = task.space.from_json({"entity": list(splits)})
    golden(task.schedule_code(config))


@pytest.mark.parametrize(
    ("workload", "args"),
    [
        (linear, (1, 37, 19)),
        (linear, (3, 50, 7)),
        (linear, (5, 100, 13)),
        (linear, (19, 33, 11, "float64")),
        (linear, (3, 70, 9, "int32")),
        (linear_relu, (2, 65, 10)),
        (matvec, (129, 17)),
        (scores, (2, 5, 17)),
        (channels_last, (5, 19, 6)),
        (distance, (3, 41, 5)),
    ],
)
@pytest.mark.parametrize("cores", [1, 4])
def test_its_values_are_those_of_numpy(workload: pb.Workload, args: tuple[int, ...], cores: int) -> None:
    *inputs, out = workload.tensors(*args)
    rng = np.random.default_rng(0)
    given = [rng.integers(-4, 5, t.shape).astype(t.dtype) for t in inputs]
    (wanted,) = evaluate([out], dict(zip(inputs, given, strict=True)))
    task = pb.create_task(workload, args=args, space="sketch", target=f"llvm -num-cores {cores}")
    for row in task.space.sample(2 if cores == 1 else 1, rng):
        made = np.full(wanted.shape, 7, wanted.dtype)
        pb.build(task, config=task.space.config(row))(*given, made)
        np.testing.assert_array_equal(made, wanted, err_msg=str(task.space.config(row)))
