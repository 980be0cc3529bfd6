"""Predictions: configurations that are expected to be fast, and kernels of them."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox import te
from pegbox.codegen import Target
from pegbox.errors import ArgumentError, CompileError, RecordError, TemplateError
from pegbox.features import program_features
from pegbox.features.memory_updates import has_narrow_update
from pegbox.search.models import prediction
from pegbox.search.models.prediction import described, predicted_configs, shipped_model, write_model
from pegbox.search.models.trees import Trees
from pegbox.task.task import Task

TARGET = "llvm -mcpu=x86-64-v3 -num-cores 1"


def product(*args: int, target: str = TARGET) -> Task:
    return pb.create_task("matmul", args=args, target=target)


def leaf(value: float) -> dict[str, Any]:
    return {"left_children": [-1], "right_children": [-1], "split_indices": [0], "split_conditions": [value]}


def model_of(*trees: dict[str, Any]) -> dict[str, Any]:
    return {"learner": {"gradient_booster": {"model": {"trees": list(trees)}}}}


# --- trees ------------------------------------------------------------------------------------------------------------


def test_trees_go_left_below_their_thresholds_and_their_models_are_averaged() -> None:
    uneven = {
        "left_children": [1, -1, 3, -1, -1],
        "right_children": [2, -1, 4, -1, -1],
        "split_indices": [1, 0, 0, 0, 0],
        "split_conditions": [0.5, 10.0, 2.0, 20.0, 30.0],
    }
    trees = Trees.of_xgboost([model_of(uneven, leaf(1.0)), model_of(leaf(4.0))], depth=2)
    rows = np.array([[0, 0], [0, 0.5], [2, 0.5], [9, 0.49]], np.float32)
    assert trees(rows).tolist() == [7.5, 12.5, 17.5, 7.5]
    assert trees(rows[:0]).shape == (0,)


def test_trees_predict_what_xgboost_does() -> None:
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    rows = rng.random((600, 5)).astype(np.float32)
    labels = rows[:, 0] * rows[:, 1]
    data = xgboost.DMatrix(rows, label=labels - labels.mean())
    booster = xgboost.train({"max_depth": 4, "base_score": 0.0, "nthread": 1}, data, num_boost_round=7)
    trees = Trees.of_xgboost([json.loads(booster.save_raw("json"))], depth=4)
    assert trees(rows) == pytest.approx(booster.inplace_predict(rows), abs=1e-5)


def test_a_model_is_read_as_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "model.npz"
    write_model(file, Trees.of_xgboost([model_of(leaf(2.0))], depth=1))
    monkeypatch.setattr(prediction, "MODEL", file)
    read = shipped_model.__wrapped__()
    assert read(np.zeros((2, 3), np.float32)).tolist() == [2.0, 2.0]
    file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(RecordError, match=r"model\.npz' is damaged .*; install pegbox again"):
        shipped_model.__wrapped__()


# --- predictions ------------------------------------------------------------------------------------------------------


def test_the_shipped_model_is_of_the_features_of_today() -> None:
    """Fails where the features have changed: `python3 benchmarks/experience.py` makes the file anew."""
    columns = described(np.zeros((1, len(program_features(product(8, 8, 8)).names)), np.float32), Target(TARGET))
    assert shipped_model().features.max() < columns.shape[1]
    assert np.isfinite(shipped_model().values).all()


def test_a_prediction_is_the_same_each_time_and_depends_on_the_machine() -> None:
    first, again = (list(islice(predicted_configs(product(61, 67, 71)), 3)) for _ in range(2))
    assert first == again
    assert len(set(first)) == 3
    wider = product(61, 67, 71, target="llvm -mcpu=znver4 -num-cores 1")
    assert [str(config) for config in islice(predicted_configs(wider), 3)] != [str(config) for config in first]


def test_all_candidates_are_valid_and_come_once() -> None:
    task = product(7, 9, 11)
    found = list(predicted_configs(task, candidates=20))
    assert found
    assert len(set(found)) == len(found)
    assert not program_features(task).of(found)[:, 0].any()


def test_programs_with_masked_updates_in_memory_come_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tile of 48 columns is cut to the 37 that there are."""
    monkeypatch.setattr(prediction, "shipped_model", lambda: lambda rows: np.zeros(len(rows)))
    task = product(999, 999, 37, target="llvm -mcpu=znver5 -num-cores 1")
    found = list(predicted_configs(task))[: prediction.GUARDED]
    doomed = [prediction.is_doomed(task, config) for config in found]
    assert set(doomed) == {False, True}
    assert doomed == sorted(doomed)


def test_programs_that_update_long_rows_by_narrow_vectors_come_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of 24 floats are updated by 2 to 24 at a time; half a vector of AVX2 has four."""
    monkeypatch.setattr(prediction, "shipped_model", lambda: lambda rows: np.zeros(len(rows)))

    @pb.template("maxima")
    def maxima(cfg: Any) -> Any:
        x = te.placeholder((9, 24), name="X")
        over = te.reduce_axis((0, 9), name="r")
        y = te.compute((24,), lambda c: te.max(x[over, c], axis=over), name="Y")
        cfg.define_knob("width", [2, 3, 4, 8, 12, 24])
        s = te.create_schedule(y.op)
        outer, inner = s[y].split(y.op.axis[0], factor=cfg["width"].val)
        s[y].reorder(outer, *y.op.reduce_axis, inner)
        s[y].vectorize(inner)
        return s, [x, y]

    task = pb.create_task(maxima, target=TARGET)
    found = list(predicted_configs(task))
    assert {config["width"].val for config in found[-2:]} == {2, 3}
    assert [prediction.is_doomed(task, config) for config in found] == [False] * 4 + [True] * 2


@pytest.mark.parametrize(("columns", "is_slow"), [(100, False), (36, True)])
def test_narrow_vectors_matter_unless_they_end_long_rows(columns: int, is_slow: bool) -> None:
    """Rows of 100 floats are six vectors and four lanes, those of 36 two vectors and four lanes."""
    a = te.placeholder((8, 9), name="A")
    b = te.placeholder((9, columns), name="B")
    k = te.reduce_axis((0, 9), name="k")
    c = te.compute((8, columns), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    outer, inner = s[c].split(j, factor=16)
    s[c].reorder(i, k, outer, inner)
    s[c].vectorize(inner)
    assert has_narrow_update(pb.lower(s, [a, b, c]), 64) == is_slow


def test_programs_of_long_straight_code_come_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search refuses to compile them, too."""
    task = product(61, 67, 71)
    monkeypatch.setattr(prediction, "GUARDED", 8)
    monkeypatch.setattr(prediction, "MOST_STRAIGHT", 10**9)
    lengths = [task.lower(config).longest_block for config in islice(predicted_configs(task), 8)]
    limit = sorted(lengths)[4]
    monkeypatch.setattr(prediction, "MOST_STRAIGHT", limit)
    found = [task.lower(config).longest_block > limit for config in islice(predicted_configs(task), 8)]
    assert set(found) == {False, True}
    assert found == sorted(found)


def test_a_space_of_one_configuration() -> None:
    @pb.template("only_one")
    def only_one(cfg: Any, n: int) -> Any:
        a = pb.te.placeholder((n,), name="A")
        b = pb.te.compute((n,), lambda i: a[i] + 1, name="B")
        return pb.te.create_schedule(b.op), [a, b]

    task = pb.create_task(only_one, args=(4,), target=TARGET)
    assert len(list(predicted_configs(task))) == 1


# --- kernels ----------------------------------------------------------------------------------------------------------


def test_build_without_a_configuration_predicts_one(monkeypatch: pytest.MonkeyPatch) -> None:
    task = pb.create_task("matmul", args=(4, 5, 6))
    a, b = np.ones((4, 5), np.float32), np.ones((5, 6), np.float32)
    kernel = pb.build(task)
    assert (kernel(a, b, out=np.empty((4, 6), np.float32)) == 5).all()
    assert kernel.origin == "predicted, not tuned"
    assert pb.build(task, config=next(predicted_configs(task))).origin == ""
    monkeypatch.setattr("pegbox.api.best_config", lambda task: next(predicted_configs(task)))
    assert pb.build(task).origin == ""


def test_a_prediction_that_cannot_be_compiled_falls_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    from pegbox.codegen.runtime import kernel as kernels

    task, compiled, refused = pb.create_task("matmul", args=(4, 5, 6)), kernels.build, []

    def refuse(program: Any, **options: Any) -> Any:
        refused.append(program)
        raise CompileError("not this one")

    def refuse_once(program: Any, **options: Any) -> Any:
        return compiled(program, **options) if refused else refuse(program)

    monkeypatch.setattr(kernels, "build", refuse_once)
    _, config = next(prediction.compiled_predictions(task))
    assert config == list(islice(predicted_configs(task), 2))[1]
    monkeypatch.setattr(kernels, "build", refuse)
    with pytest.raises(CompileError, match="none of the 16 best predicted configurations"):
        next(prediction.compiled_predictions(task))


def test_records_in_effect_that_hold_none_of_the_task_are_an_error(tmp_path: Path) -> None:
    records = tmp_path / "records.jsonl"
    pb.tune(pb.create_task("matmul", args=(4, 4, 4)), trials=1, records=records, progress=False)
    with pb.apply_history_best(records), pytest.raises(ArgumentError, match="matmul"):
        pb.build(pb.create_task("matmul", args=(4, 5, 6)))


@pytest.mark.parametrize(
    ("name", "args", "threads"),
    [
        ("matmul", (64, 64, 64), 1),
        ("matmul", (64, 256, 2), 1),
        ("batch_matmul", (8, 16, 16, 16), 1),
        ("conv2d", (1, 8, 8, 8, 8, 3, 3), 1),
        ("matmul", (64, 4096, 2), 2),
    ],
)
def test_a_predicted_kernel_has_one_thread_for_little_work(name: str, args: tuple[int, ...], threads: int) -> None:
    task = pb.create_task(name, args=args, target="llvm -mcpu=x86-64-v3 -num-cores 2")
    found = [task.lower(config).num_threads for config in islice(predicted_configs(task, candidates=60), 3)]
    assert found == [threads] * 3


def test_a_predicted_sketch_has_one_thread_for_little_work() -> None:
    task = pb.create_task("softmax", args=(64, 64), space="sketch", target="llvm -mcpu=x86-64-v3 -num-cores 2")
    assert any("parallel" in name for name in task.space.knobs)
    assert task.lower(next(predicted_configs(task, candidates=60))).num_threads == 1


def test_programs_that_leave_cores_idle_come_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def scaled(cfg: pb.TemplateConfig) -> tuple[te.TESchedule, list[te.Tensor]]:
        a = te.placeholder((4096, 64), name="A")
        b = te.compute((4096, 64), lambda i, j: a[i, j] * 2.0, name="B")
        cfg.define_knob("parts", [1, 3, 5, 64])
        s = te.create_schedule(b.op)
        outer, _ = s[b].split(s[b].op.axis[0], nparts=cfg["parts"].val)
        s[b].parallel(outer)
        return s, [a, b]

    monkeypatch.setattr(prediction, "shipped_model", lambda: lambda features: np.zeros(len(features)))
    task = pb.create_task(pb.template("scaled_by_parts")(scaled), target="llvm -mcpu=x86-64-v3 -num-cores 2")
    assert [config["parts"].val for config in predicted_configs(task)] == [64, 5, 3, 1]


def test_programs_that_start_threads_for_each_row_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def scaled(cfg: pb.TemplateConfig) -> tuple[te.TESchedule, list[te.Tensor]]:
        a = te.placeholder((1024, 4096), name="A")
        b = te.compute(a.shape, lambda i, j: a[i, j] * 2.0, name="B")
        cfg.define_knob("shared", ["blocks of a row", "rows", "no"])
        s = te.create_schedule(b.op)
        row, column = s[b].op.axis
        block, _ = s[b].split(column, factor=64)
        if cfg["shared"].val != "no":
            s[b].parallel(row if cfg["shared"].val == "rows" else block)
        return s, [a, b]

    monkeypatch.setattr(prediction, "shipped_model", lambda: lambda features: np.zeros(len(features)))
    task = pb.create_task(pb.template("scaled_in_blocks")(scaled), target="llvm -mcpu=x86-64-v3 -num-cores 2")
    assert [config["shared"].val for config in predicted_configs(task)] == ["rows", "no"]


def test_a_knob_that_is_called_threads_but_begins_with_several_is_one_like_others() -> None:
    def doubled(cfg: pb.TemplateConfig) -> tuple[te.TESchedule, list[te.Tensor]]:
        a = te.placeholder((64, 64), name="A")
        b = te.compute((64, 64), lambda i, j: a[i, j] * 2.0, name="B")
        cfg.define_knob("threads", [4, 2, 1])
        cfg.define_knob("x", [1, 2, 4, 8])
        cfg.add_constraint(
            lambda c: c["threads"].val * c["x"].val <= 8, reads=("threads", "x"), message="at most 8 together"
        )
        s = te.create_schedule(b.op)
        i, j = s[b].op.axis
        if cfg["threads"].val > 1:
            s[b].parallel(s[b].split(i, nparts=cfg["threads"].val)[0])
        s[b].vectorize(s[b].split(j, factor=cfg["x"].val)[1])
        return s, [a, b]

    task = pb.create_task(pb.template("doubled_by_threads")(doubled), target="llvm -mcpu=x86-64-v3 -num-cores 2")
    found = list(predicted_configs(task, candidates=20))
    assert {config["threads"].val for config in found} == {1}
    assert not any(task.space.violated(config) for config in found)


def test_predictions_begin_with_the_first_configuration_where_a_template_prefers_it() -> None:
    def template(cfg: pb.TemplateConfig, n: int, first: bool) -> Any:
        x = te.placeholder((n,), name="X")
        y = te.compute((n,), lambda i: x[i] + 1, name="Y")
        cfg.define_knob("tile", [2, 4, 8, 16])
        cfg.define_knob("unroll", [True, False])
        if first:
            cfg.prefer_first()
        s = te.create_schedule(y.op)
        _, inner = s[y].split(y.op.axis[0], factor=cfg["tile"].val)
        if cfg["unroll"].val:
            s[y].unroll(inner)
        return s, [x, y]

    made = pb.template("preferring")(template)
    first = next(predicted_configs(pb.create_task(made, args=(64, True), target=TARGET)))
    assert first.digits == (0, 0)
    others = list(predicted_configs(pb.create_task(made, args=(64, False), target=TARGET)))
    assert others[0].digits != (0, 0), "the model prefers another one"


@pytest.mark.parametrize("wanted", [2, 16])
def test_predictions_begin_with_the_configurations_that_a_template_prefers(wanted: int) -> None:
    def template(cfg: pb.TemplateConfig) -> Any:
        x = te.placeholder((64,), name="X")
        y = te.compute((64,), lambda i: x[i] + 1, name="Y")
        cfg.define_knob("tile", [2, 4, 8, 16])
        cfg.define_knob("unroll", [True, False])
        cfg.prefer(lambda c: c["tile"].val == wanted)
        s = te.create_schedule(y.op)
        _, inner = s[y].split(y.op.axis[0], factor=cfg["tile"].val)
        if cfg["unroll"].val:
            s[y].unroll(inner)
        return s, [x, y]

    found = list(predicted_configs(pb.create_task(pb.template("preferring_tiles")(template), target=TARGET)))
    assert len(found) == 8
    assert [config["tile"].val == wanted for config in found] == [True] * 2 + [False] * 6


def test_an_error_in_a_preference_names_its_line() -> None:
    def template(cfg: pb.TemplateConfig) -> Any:
        x = te.placeholder((64,), name="X")
        y = te.compute((64,), lambda i: x[i] + 1, name="Y")
        cfg.define_knob("tile", [2, 4])
        cfg.prefer(lambda c: c["tile"].val / 0 > 1)
        return te.create_schedule(y.op), [x, y]

    task = pb.create_task(pb.template("dividing")(template), target=TARGET)
    with pytest.raises(TemplateError, match=r"cfg\.prefer raised ZeroDivisionError at #\d") as raised:
        pb.build(task)
    assert "test_prediction.py" in str(raised.value)


def test_a_preference_is_a_function() -> None:
    with pytest.raises(ArgumentError, match=r"prefer: predicate"):
        pb.TemplateConfig(Target(TARGET)).prefer(True)  # type: ignore[arg-type]


@pytest.mark.parametrize(("heads", "threads"), [(1, 1), (64, 4)])
def test_the_preferred_configuration_has_the_threads_of_its_work(heads: int, threads: int) -> None:
    target = TARGET.replace("-num-cores 1", "-num-cores 4")
    task = pb.create_task("attention", args=(1, heads, 20, 64, 16), target=target)
    first = next(predicted_configs(task))
    assert first["threads"].val == threads
    assert not task.space.violated(first)
