"""Products that one stage combines element by element: one set of tiles, one place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import pegbox as pb
from pegbox import te
from pegbox.compute.reference import evaluate

AVX2 = "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3 -num-cores 1"


def product(x: te.Tensor, w: te.Tensor, name: str, *, transposed: bool = True) -> te.Tensor:
    k = te.reduce_axis((0, x.shape[1]), name=f"k_{name}")
    m = w.shape[0 if transposed else 1]
    return te.compute(
        (x.shape[0], m), lambda i, j: te.sum(x[i, k] * (w[j, k] if transposed else w[k, j]), axis=k), name=name
    )


def weights(m: int, k: int, name: str) -> te.Tensor:
    return te.placeholder((m, k), name=name)


@pb.workload("gated_unit")
def gated(n: int, h: int, m: int) -> list[te.Tensor]:
    """The layer of language models: SwiGLU."""
    x = te.placeholder((n, h), name="X")
    w = [weights(m, h, "Wg"), weights(m, h, "Wu"), weights(h, m, "Wd")]
    gate, up = product(x, w[0], "gate"), product(x, w[1], "up")
    act = te.compute(gate.shape, lambda i, j: gate[i, j] * te.sigmoid(gate[i, j]) * up[i, j], name="act")
    return [x, *w, product(act, w[2], "down")]


@pb.workload("gated_unit_in_steps")
def steps(n: int, h: int, m: int) -> list[te.Tensor]:
    """The same with a stage for each step, so that `gate` has two readers."""
    x, wg, wu = te.placeholder((n, h), name="X"), weights(m, h, "Wg"), weights(m, h, "Wu")
    gate, up = product(x, wg, "gate"), product(x, wu, "up")
    sig = te.compute(gate.shape, lambda i, j: te.sigmoid(gate[i, j]), name="sig")
    silu = te.compute(gate.shape, lambda i, j: gate[i, j] * sig[i, j], name="silu")
    return [x, wg, wu, te.compute(gate.shape, lambda i, j: silu[i, j] * up[i, j], name="act")]


@pb.workload("three_products")
def three(n: int, h: int, m: int) -> list[te.Tensor]:
    x, w = te.placeholder((n, h), name="X"), [te.placeholder((h, m), name=name) for name in ("A", "B", "C")]
    a, b, c = (product(x, each, each.name * 2, transposed=False) for each in w)
    return [x, *w, te.compute(a.shape, lambda i, j: a[i, j] * b[i, j] - c[i, j], name="act")]


@pb.workload("products_of_two_depths")
def unequal(n: int, h: int, m: int) -> list[te.Tensor]:
    x, y = te.placeholder((n, h), name="X"), te.placeholder((n, h + 8), name="Y")
    wx, wy = weights(m, h, "Wx"), weights(m, h + 8, "Wy")
    a, b = product(x, wx, "a"), product(y, wy, "b")
    return [x, y, wx, wy, te.compute(a.shape, lambda i, j: a[i, j] + b[i, j], name="sum")]


def knobs(workload: pb.Workload, *args: int, space: str = "sketch") -> set[str]:
    return set(pb.create_task(workload, args=args, space=space, target=AVX2).space.knobs)


def splits(workload: pb.Workload, *args: int) -> set[str]:
    return {name.split("_")[0] for name in knobs(workload, *args) if name.endswith(("_i", "_j"))}


@pytest.mark.parametrize(
    ("workload", "wanted"),
    [(gated, {"up", "down"}), (steps, {"up"}), (three, {"CC"}), (unequal, {"a", "b"})],
)
@pytest.mark.parametrize("n", [4, 40])
def test_products_of_equal_loops_have_one_set_of_tiles(workload: pb.Workload, wanted: set[str], n: int) -> None:
    assert splits(workload, n, 64, 32) - {"CC_local", "a_local"} == wanted


def test_copies_and_unrolling_are_shared_too() -> None:
    found = knobs(three, 40, 64, 32)
    assert {"CC_X_pack", "CC_C_pack", "CC_unroll"} <= found
    assert not any(name.startswith(("AA", "BB")) and not name.endswith("_at") for name in found)


def test_ansors_rules_share_no_tiles() -> None:
    assert {"gate_i", "up_i"} <= knobs(gated, 40, 64, 32, space="sketch:rules=ansor")


def test_products_of_a_gated_unit_are_in_one_place(golden: Callable[[object], None]) -> None:
    task = pb.create_task(steps, args=(4, 16, 24), space="sketch", target=AVX2)
    tile = ["up_i", "sp", [-1, 1, 4]], ["up_j", "sp", [-1, 2, 2]], ["up_k_up", "sp", [-1, 8]]
    config = task.space.from_json({"entity": [["sketch", "ot", "dot+fuse(1)"], *tile]})
    golden(task.schedule_code(config))


def test_a_product_is_not_placed_where_its_elements_are_computed_again() -> None:
    space = pb.create_task(gated, args=(4, 64, 32), space="sketch", target=AVX2).space
    assert [str(value) for value in space.knobs["act_at"].entities] == ["root", "down_i_0"]


@pytest.mark.parametrize(
    ("workload", "args"),
    [
        (gated, (3, 19, 21)),
        (gated, (18, 9, 11)),
        (steps, (5, 33, 7)),
        (three, (18, 9, 22)),
        (three, (3, 40, 5)),
        (unequal, (4, 17, 6)),
    ],
)
@pytest.mark.parametrize("cores", [1, 4])
def test_its_values_are_those_of_numpy(workload: pb.Workload, args: tuple[int, ...], cores: int) -> None:
    *inputs, out = workload.tensors(*args)
    rng = np.random.default_rng(0)
    given = [rng.integers(-2, 3, t.shape).astype("float32") for t in inputs]
    (wanted,) = evaluate([out], dict(zip(inputs, given, strict=True)))
    task = pb.create_task(workload, args=args, space="sketch", target=f"llvm -num-cores {cores}")
    for row in task.space.sample(2 if cores == 1 else 1, rng):
        made = np.full(wanted.shape, np.nan, "float32")
        pb.build(task, config=task.space.config(row))(*given, made)
        np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-4, err_msg=str(task.space.config(row)))
