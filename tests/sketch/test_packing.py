"""Copies of operands in a tile's loops: a matrix that is read by columns is transposed on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox import te
from pegbox.compute.reference import evaluate
from pegbox.task.workload import find_workload

AVX2 = "llvm -mcpu=x86-64-v3 -num-cores 1"


@pb.workload("linear_of_rows")
def linear(n: int, k: int, m: int) -> list[te.Tensor]:
    x, w = te.placeholder((n, k), name="X"), te.placeholder((m, k), name="W")
    r = te.reduce_axis((0, k), name="k")
    return [x, w, te.compute((n, m), lambda i, j: te.sum(x[i, r] * w[j, r], axis=r), name="C")]


@pb.workload("scores_of_rows")
def scores(b: int, n: int, d: int) -> list[te.Tensor]:
    q, k = te.placeholder((b, n, d), name="Q"), te.placeholder((b, n, d), name="K")
    r = te.reduce_axis((0, d), name="r")
    return [q, k, te.compute((b, n, n), lambda b, i, j: te.sum(q[b, i, r] * k[b, j, r], axis=r), name="S")]


def placed(task: pb.Task) -> list[pb.Config]:
    """A configuration for each knob of a copy and each of its places."""
    found: dict[tuple[str, Any], pb.Config] = {}
    for row in task.space.sample(300, np.random.default_rng(0)):
        config = task.space.config(row)
        for name, value in config.items():
            if name.endswith("_pack") and str(value) != "no":
                found.setdefault((name, value), config)
    return list(found.values())


@pytest.mark.parametrize(
    ("workload", "args"),
    [
        (linear, (18, 16, 32)),
        (linear, (19, 13, 41)),  # blocks that vectors do not fill
        (find_workload("matmul_transposed"), (9, 17, 33)),
        (scores, (2, 19, 8)),
    ],
)
@pytest.mark.parametrize("cores", [1, 4])
def test_copies_in_every_place_hold_what_the_product_needs(
    workload: pb.Workload, args: tuple[int, ...], cores: int
) -> None:
    *inputs, out = workload.tensors(*args)
    rng = np.random.default_rng(0)
    given = [rng.integers(-4, 5, t.shape).astype("float32") for t in inputs]
    (wanted,) = evaluate([out], dict(zip(inputs, given, strict=True)))
    task = pb.create_task(workload, args=args, space="sketch", target=f"llvm -num-cores {cores}")
    configs = placed(task)
    assert len(configs) >= 3
    for config in configs[:: 1 if cores == 1 else 4]:
        made = np.full(wanted.shape, np.nan, "float32")
        pb.build(task, config=config)(*given, made)
        np.testing.assert_array_equal(made, wanted, err_msg=str(config))


def _packed(operand: str) -> str:
    task = pb.create_task(linear, args=(32, 16, 16), space="sketch", target=AVX2)
    tile = ["C_local_i", "sp", [-1, 1, 2, 4]], ["C_local_j", "sp", [-1, 1, 1, 16]], ["C_local_k", "sp", [-1, 16]]
    place = "C_local_k_0" if operand == "X" else "no"
    copies = ["C_local_X_pack", "ot", place], ["C_local_W_pack", "ot", "C_local_k_0"]
    others = ["sketch", "ot", "cache+fuse(2)"], ["C_local_unroll", "ot", 0]
    return task.schedule_code(task.space.from_json({"entity": [*tile, *copies, *others]}))


def test_a_copy_transposes_blocks_of_vectors(golden: Callable[[object], None]) -> None:
    golden(_packed("W"))


def test_an_operand_whose_last_dimension_is_reduced_alone_keeps_its_order() -> None:
    (copy,) = [line for line in _packed("X").splitlines() if "cache_read(X" in line]
    assert "order=" not in copy


def test_a_matrix_that_is_read_by_columns_is_always_copied() -> None:
    task = pb.create_task(linear, args=(32, 16, 16), space="sketch", target=AVX2)
    values = {name: {str(value) for value in knob.entities} for name, knob in task.space.knobs.items()}
    assert "no" in values["C_local_X_pack"]
    assert "no" not in values["C_local_W_pack"]


def test_an_operand_along_the_vectors_keeps_its_order() -> None:
    task = pb.create_task("matmul", args=(16, 16, 16), space="sketch", target=AVX2)
    assert all("order=" not in task.schedule_code(config) for config in placed(task))
