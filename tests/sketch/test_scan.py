"""Sketches of scans: rows in order inside tiles, and values that stay NumPy's."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox import te
from pegbox.compute.reference import evaluate
from pegbox.compute.tensor import PlaceholderOp
from pegbox.features import ProgramFeatures
from pegbox.plugins.sketch.generator import generate_sketches
from pegbox.plugins.sketch.space import SketchSpace

TARGET = "llvm -num-cores 2"


def sums(axis: int) -> list[Any]:
    x = te.placeholder((12, 20), name="X")
    return [x, te.cumsum(x, axis, name="S")]


def rnn(batch: int = 4) -> list[Any]:
    """A batch of cells."""
    shape = 5, batch, 8
    x, w, h = (te.placeholder(given, name=n) for n, given in (("X", shape), ("W", (8, 8)), ("h", shape)))
    k = te.reduce_axis((0, 8), "k")
    product = te.compute(shape, lambda t, b, i: te.sum(w[i, k] * h[t - 1, b, k], axis=k), name="P")
    step = te.compute(shape, lambda t, b, i: te.tanh(product[t, b, i] * 0.2 + x[t, b, i]), name="step")
    return [x, w, te.scan(te.compute((1, batch, 8), lambda t, b, i: x[t, b, i], name="first"), step, h, name="H")]


def cell() -> list[Any]:
    """One cell: each unit needs all units of the row before."""
    x, w, h = (te.placeholder(shape, name=n) for n, shape in (("X", (5, 16)), ("W", (16, 16)), ("h", (5, 16))))
    k = te.reduce_axis((0, 16), "k")
    product = te.compute((5, 16), lambda t, i: te.sum(w[i, k] * h[t - 1, k], axis=k), name="P")
    step = te.compute((5, 16), lambda t, i: te.tanh(product[t, i] * 0.2 + x[t, i]), name="step")
    return [x, w, te.scan(te.compute((1, 16), lambda t, i: x[t, i], name="first"), step, h, name="H")]


def columns(panels: bool) -> list[Any]:
    """A batch of cells whose weights are in memory by columns, perhaps in panels of 16."""
    x, h = (te.placeholder((5, 4, 48), name=name) for name in "Xh")
    w = te.placeholder((3, 48, 16) if panels else (48, 48), name="W")
    k = te.reduce_axis((0, 48), "k")

    def term(t: Any, b: Any, i: Any) -> Any:
        return h[t - 1, b, k] * (w[i // 16, k, i % 16] if panels else w[k, i])

    product = te.compute((5, 4, 48), lambda t, b, i: te.sum(term(t, b, i), axis=k), name="P")
    step = te.compute((5, 4, 48), lambda t, b, i: te.tanh(product[t, b, i] * 0.1 + x[t, b, i]), name="step")
    return [x, w, te.scan(te.compute((1, 4, 48), lambda t, b, i: x[t, b, i], name="first"), step, h, name="H")]


def softmax_sums() -> list[Any]:
    x, high, total = (te.placeholder((9, 12), name=name) for name in ("X", "high", "total"))
    new = te.compute((9, 12), lambda t, i: te.max(high[t - 1, i], x[t, i]), name="new")
    scale = te.compute((9, 12), lambda t, i: te.exp(high[t - 1, i] - new[t, i]), name="scale")
    step = te.compute(
        (9, 12), lambda t, i: total[t - 1, i] * scale[t, i] * scale[t, i] + te.exp(x[t, i] - new[t, i]), name="step"
    )
    first = te.compute((1, 12), lambda t, i: x[t, i], name="first")
    one = te.compute((1, 12), lambda t, i: 1.0, name="one")
    highs, totals = te.scan([first, one], [new, step], [high, total], name="R")
    return [x, te.compute((9, 12), lambda t, i: highs[t, i] + te.log(totals[t, i]), name="out")]


GRAPHS: dict[str, Callable[[], list[Any]]] = {
    "rows": lambda: sums(0),
    "chains": lambda: sums(1),
    "rnn": rnn,
    "cell": cell,
    "columns": lambda: columns(False),
    "panels": lambda: columns(True),
    "softmax_sums": softmax_sums,
}


@pb.workload("scan_of_a_test")
def workload(name: str) -> list[Any]:
    return GRAPHS[name]()


def _code(args: list[Any], target: str = TARGET) -> dict[str, str]:
    space = SketchSpace(generate_sketches(args, target))
    return {"": space.source, **{name: str(sketch.knobs) for name, sketch in space.sketches.items()}}


def test_columns_are_tiled_along_vectors_around_the_loop_over_rows() -> None:
    text = _code(sums(0))[""]
    assert "s[S].reorder(S_i1_0, S_i0, S_i1_1)" in text
    assert "s[S].vectorize(S_i1_1)" in text
    assert "s[S].parallel(S_i1_0)" in text


def test_chains_along_the_last_axis_go_side_by_side_in_tiles() -> None:
    text = _code(sums(1))[""]
    assert "s[S].reorder(S_i0_0, S_i1_0, S_i0_1, S_i1_1)" in text
    assert "s[S].unroll(S_i0_1)" in text
    assert "vectorize" not in text


def test_axes_that_no_row_mixes_stand_outside_of_the_rows() -> None:
    text = _code(rnn())[""]
    assert "s[H].reorder(H_b_0, H_t, H_b_1, H_i)" in text  # the batch, and not the units
    assert "s[P].vectorize(P_k_1)" in text
    assert "s[H].parallel(H_b_0)" in text


def test_threads_share_the_sums_of_a_row_where_they_share_no_rows() -> None:
    text = _code(cell())[""]
    assert "s[P].parallel(P_i_0)" in text
    assert "s[H].parallel" not in text
    assert "s[P].parallel" in _code(rnn(batch=1))[""]
    assert "s[P].parallel" not in _code(rnn())[""]


@pytest.mark.parametrize("panels", [False, True])
def test_sums_of_columns_stay_in_registers_with_the_rows_that_share_their_weights(panels: bool) -> None:
    text = _code(columns(panels))[""]
    assert "s[P].reorder(P_t, P_i_0, P_b_0, P_k, P_b_1, P_i_1)" in text
    assert "s[P].unroll(P_b_1)" in text
    assert "s[P].vectorize(P_i_1)" in text
    assert "cache_read" not in text


def test_one_core_reads_shared_weights_once_a_row_for_the_whole_batch() -> None:
    alone = "llvm -num-cores 1"
    assert "s[H].reorder(H_t, H_b, H_i)" in _code(columns(False), alone)[""]
    assert "s[H].reorder(H_b_0, H_t, H_b_1, H_i)" in _code(columns(False))[""]
    assert "s[S].reorder(S_i1_0, S_i0, S_i1_1)" in _code(sums(0), alone)[""]  # no weights


def test_a_slow_cell_that_is_read_twice_may_be_kept() -> None:
    assert [name for name in _code(softmax_sums()) if name in ("plain", "keep(scale)")] == ["keep(scale)", "plain"]


@pytest.mark.parametrize("name", GRAPHS)
def test_every_configuration_has_the_values_of_numpy(name: str) -> None:
    args = GRAPHS[name]()
    task = pb.create_task("scan_of_a_test", args=(name,), space="sketch", target=TARGET)
    rng = random.Random(1)
    inputs = [t for t in args if isinstance(t.op, PlaceholderOp)]
    given = {t: np.random.default_rng(2).uniform(-1, 1, t.shape).astype(t.dtype) for t in inputs}
    (want,) = evaluate(args[-1:], given)
    for _ in range(6):
        out = np.full_like(want, np.nan)
        pb.build(task, config=task.space.get(rng.randrange(len(task.space))))(*given.values(), out)
        np.testing.assert_allclose(out, want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", GRAPHS)
def test_features_describe_each_configuration_as_it_runs(name: str) -> None:
    task = pb.create_task("scan_of_a_test", args=(name,), space="sketch", target=TARGET)
    features = ProgramFeatures(task)
    rows = task.space.sample(min(8, len(task.space)), np.random.default_rng(4))
    found = features(rows)
    assert np.isfinite(found).all()
    for row, values in zip(rows, found, strict=True):
        np.testing.assert_array_equal(values, features.direct(task.space.config(row)))


def test_the_code_of_a_configuration_makes_the_same_kernel() -> None:
    task = pb.create_task("scan_of_a_test", args=("rnn",), space="sketch", target=TARGET)
    config = task.space.get(len(task.space) // 2)
    made: dict[str, Any] = {"te": te}
    exec(task.schedule_code(config), made)
    again = [made[name] for name in ("X", "W", "H")]
    rng = np.random.default_rng(3)
    inputs = [rng.uniform(-1, 1, t.shape).astype("float32") for t in again[:-1]]
    one, other = (np.full(again[-1].shape, np.nan, "float32") for _ in range(2))
    pb.build(made["s"], again, target=TARGET)(*inputs, one)
    pb.build(task, config=config)(*inputs, other)
    np.testing.assert_array_equal(one, other)
