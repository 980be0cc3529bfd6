"""Templates and tasks by AutoTVM's names, and the contexts that choose their configurations."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path
from typing import Any

import pytest
from autotvm_tasks import matmul, sample_records, sample_task

import pegbox
from pegbox.errors import InvalidConfig, PluginError, RecordError, TemplateError
from pegbox.plugins import tvm
from pegbox.plugins.tvm import autotvm, te
from pegbox.plugins.tvm.autotvm.task import ApplyConfig, DispatchContext
from pegbox.plugins.tvm.autotvm.task.space import SplitEntity
from pegbox.plugins.tvm.autotvm.task.task import compute_flop
from pegbox.schedule.te.replay import replay

ARGS = (128, 128, 128, "float32")


def loops(made: Any) -> list[int]:
    s, tensors = made
    sch = replay(s, tensors)
    return [sch.extent(loop) for loop in sch.get_loops("C")]


@autotvm.template("template/scale")
def scale(n: int, tile: int = 4) -> Any:
    A = te.placeholder((n,), name="A")
    C = te.compute((n,), lambda i: A[i] * 2.0, name="C")
    s = te.create_schedule(C.op)
    cfg = autotvm.get_config()
    (i,) = s[C].op.axis
    cfg.define_split("tile", i, num_outputs=2)
    cfg.define_annotate("ann", [i], policy="try_vec")
    cfg.add_flop(1000)
    if cfg.is_fallback:
        cfg.fallback_split("tile", [-1, tile])
    _, inner = cfg["tile"].apply(s, C, i)
    lens = [cfg["tile"].size[-1]]
    cfg["ann"].apply(s, C, [inner], axis_lens=lens, vec_size=[8, 16], cfg=cfg)
    return s, [A, C]


class TestTask:
    def test_it_has_its_workload_its_space_and_its_flop(self) -> None:
        task = sample_task()
        assert task.workload == ("testing/matmul", *ARGS)
        assert (len(task.config_space), task.flop, task.name) == (64, 2 * 128**3, "testing/matmul")
        assert task.target.kind.name == "llvm"
        assert "tile_y" in str(task.config_space)
        assert "range_length=64" in str(task.config_space)

    def test_a_configuration_is_instantiated(self) -> None:
        task = sample_task()
        config = task.config_space.get(18)
        assert (config["tile_y"].size, config["tile_x"].size) == ([-1, 4], [-1, 4])
        assert loops(task.instantiate(config)) == [32, 32, 128, 4, 4]
        assert task.inner.space.get(18) == task.config_of(config)

    def test_it_is_made_from_the_decorated_function_too(self) -> None:
        assert autotvm.task.create(matmul, args=ARGS, target="llvm").workload == sample_task().workload
        with pytest.raises(TemplateError, match="is no template; decorate it"):
            autotvm.task.create(len, args=ARGS, target="llvm")

    def test_a_template_without_a_name_has_that_of_its_function(self) -> None:
        @autotvm.template
        def doubled(n: int) -> Any:
            A = tvm.placeholder((n,), name="A")  # te's names were TVM's own then
            C = tvm.compute((n,), lambda i: A[i] * 2.0, name="C")
            return tvm.create_schedule(C.op), [A, C]

        assert autotvm.task.create(doubled, args=(8,), target=tvm.target.create("llvm")).workload == ("doubled", 8)
        assert loops(doubled(8)) == [8]

    def test_pegbox_takes_the_template(self) -> None:
        task = pegbox.create_task(matmul, args=ARGS)
        assert task.space.fingerprint == sample_task().inner.space.fingerprint
        assert pickle.loads(pickle.dumps(matmul)) is matmul
        assert pegbox.create_task(scale, args=(64,), kwargs={"tile": 8}).workload[1] == {"n": 64, "tile": 8}
        assert (matmul.__name__, matmul.name) == ("matmul", "testing/matmul")

    def test_it_travels_between_processes(self) -> None:
        again = pickle.loads(pickle.dumps(sample_task()))
        assert again.workload == sample_task().workload
        inner = pickle.loads(pickle.dumps(sample_task().inner))
        assert inner.space.fingerprint == sample_task().inner.space.fingerprint

    def test_tensors_stand_in_workloads_by_shape_and_type(self) -> None:
        @autotvm.template("template/double")
        def double(A: Any) -> Any:
            C = te.compute(A.shape, lambda i: A[i] * 2.0, name="C")
            s = te.create_schedule(C.op)
            cfg = autotvm.get_config()
            cfg.define_knob("vec", [0, 1])
            return s, [A, C]

        task = autotvm.task.create("template/double", args=[te.placeholder((8,), name="A")], target="llvm")
        assert task.workload == ("template/double", ("TENSOR", (8,), "float32"))
        assert len(task.instantiate(task.config_space.get(1))[1]) == 2

    def test_its_function_takes_the_arguments_of_its_workload(self) -> None:
        @autotvm.template("template/twice")
        def twice(A: Any) -> Any:
            C = te.compute(A.shape, lambda i: A[i] * 2.0, name="C")
            return te.create_schedule(C.op), [A, C]

        task = autotvm.task.create("template/twice", args=(("TENSOR", (8,), "float32"),), target="llvm")
        assert loops(task.func(*task.args)) == [8]

    def test_flop_of_a_schedule(self) -> None:
        s, _ = sample_task().instantiate(sample_task().config_space.get(0))
        assert compute_flop(s) == 2 * 128**3
        a = te.placeholder((8,), name="A")
        with pytest.raises(RuntimeError, match=r"say what it asks for with cfg\.add_flop"):
            compute_flop(te.create_schedule(te.compute((8,), lambda i: a[i], name="B").op))

    @pytest.mark.parametrize(
        ("input_type", "sum_type"), [("float32", "float32"), ("float16", "float32"), ("int8", "int32")]
    )
    def test_flop_of_computations_is_autotvms(self, input_type: str, sum_type: str) -> None:
        def flop(tensor: te.Tensor) -> float:
            return compute_flop(te.create_schedule(tensor.op))

        D, v = te.placeholder((2, 3, 9, 8), input_type, "D"), te.placeholder((6,), input_type, "v")
        c, h, w = (te.reduce_axis((0, extent)) for extent in (3, 2, 3))
        K = te.placeholder((5, 3, 2, 3), input_type, "K")
        convolved = te.compute(
            (2, 5, 8, 6),
            lambda n, o, y, x: te.sum(
                D[n, c, y + h, x + w].astype(sum_type) * K[o, c, h, w].astype(sum_type), axis=[c, h, w]
            ),
        )
        assert flop(convolved) == 2 * (2 * 5 * 8 * 6) * (3 * 2 * 3)
        pooled = te.compute((2, 3, 8, 6), lambda n, o, y, x: te.max(D[n, o, y + h, x + w], axis=[h, w]))
        assert flop(pooled) == (2 * 3 * 8 * 6) * (2 * 3)
        scaled = te.compute(
            (2, 3, 8, 6), lambda n, o, y, x: te.sum(D[n, o, y + h, x + w].astype(sum_type) * 6, axis=[h, w])
        )
        assert flop(scaled) == 2 * (2 * 3 * 8 * 6) * (2 * 3)
        outer = te.compute((6, 6), lambda i, j: v[i].astype(sum_type) * v[j].astype(sum_type))
        assert flop(outer) == 6 * 6
        packed = te.compute((3, 2), lambda i, j: v[i * 2 + j])
        total = te.reduce_axis((0, 3))
        folded = te.compute((2,), lambda j: te.sum(packed[total, j].astype(sum_type) * 2, axis=total))
        assert flop(te.compute((1, 2), lambda i, j: folded[i * 2 + j])) == 2 * 2 * 3

    def test_what_the_template_says_of_its_flop_counts(self) -> None:
        assert autotvm.task.create("template/scale", args=(64,), target="llvm").flop == 1000


class TestNames:
    def test_a_template_may_be_called_as_one_of_pegbox(self) -> None:
        @autotvm.template("matmul")
        def own(n: int) -> Any:
            return scale(n)

        assert autotvm.task.create("matmul", args=(64,), target="llvm").config_space.dims == [7, 2]
        assert pegbox.create_task("matmul", args=(64, 64, 64)).space.size > 14

    def test_one_name_is_for_one_function(self) -> None:
        def other(n: int) -> Any:
            return scale(n)

        with pytest.raises(PluginError, match=r"testing/matmul.* has this name already"):
            autotvm.template("testing/matmul")(other)
        assert autotvm.template("testing/matmul", matmul.__wrapped__)(*ARGS)  # the same again, as in a notebook

    @pytest.mark.parametrize("name", ["tophub", "graph_tuner", "apply_graph_best", "database", "feature"])
    def test_what_is_not_here_is_told_with_the_way_instead(self, name: str) -> None:
        with pytest.raises(ImportError, match=f"autotvm.{name} is not here: "):
            getattr(autotvm, name)

    def test_every_name_is_at_home_where_it_is_said_to_be(self) -> None:
        for name in autotvm._HOME:
            assert getattr(autotvm, name) is not None

    def test_relay_is_not_here(self) -> None:
        with pytest.raises(TemplateError, match="there is no Relay here"):
            autotvm.register_topi_compute("conv2d.x86")


class TestErrors:
    def test_a_refused_configuration_is_an_invalid_trial(self) -> None:
        task = autotvm.task.create("template/scale", args=(64,), target="llvm")
        bad = task.config_space.get(7 + 2)
        with pytest.raises(InvalidConfig, match="a loop of 4 is vectorized"):
            task.inner.schedule(task.config_of(bad))
        task.instantiate(bad)
        assert not bad.valid()
        good = task.config_space.get(7 + 3)
        task.inner.schedule(task.config_of(good))
        assert good.valid()

    def test_an_error_that_follows_a_refusal_is_part_of_it(self) -> None:
        @autotvm.template("template/breaks")
        def breaks(n: int) -> Any:
            cfg = autotvm.get_config()
            cfg.define_knob("k", [0, 1])
            if cfg["k"].val:
                cfg.raise_error("k is 1")
                raise ZeroDivisionError
            return scale(n)

        task = autotvm.task.create("template/breaks", args=(64,), target="llvm")
        with pytest.raises(InvalidConfig, match="k is 1"):
            task.inner.schedule(task.inner.space.get(1))


class TestContexts:
    def test_a_template_that_nobody_tuned_is_a_fallback(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.WARNING, "autotvm"):
            assert loops(matmul(24, 8, 16, "float32")) == [24, 8, 1, 16]
            assert loops(scale(72)) == [18, 4]
            assert loops(scale(72)) == [18, 4]
            assert loops(scale(72, tile=8)) == [9, 8]
        assert sum("a fallback is used" in message for message in caplog.messages) == 3

    def test_a_configuration_is_applied_to_all_templates(self) -> None:
        config = sample_task().config_space.get(18)
        with ApplyConfig(config) as context:
            assert DispatchContext.current is context
            assert loops(matmul(*ARGS)) == [32, 32, 128, 4, 4]
        assert DispatchContext.current is not context

    def test_values_can_be_set_by_hand(self) -> None:
        config = sample_task().config_space.get(18)
        config["tile_x"] = SplitEntity([-1, 64])
        with ApplyConfig(config):
            assert loops(matmul(*ARGS)) == [32, 2, 128, 4, 64]

    def test_the_best_of_the_records_is_applied_to_its_workload_only(self) -> None:
        records = sample_records(20)[18:] + sample_records(3, n=64)[2:]
        task = sample_task()
        with autotvm.apply_history_best(records) as best, tvm.target.Target("llvm"):
            assert loops(matmul(*ARGS)) == [32, 32, 128, 4, 4]
            assert loops(matmul(64, 64, 64, "float32"))[0] == 16
            assert loops(matmul(32, 32, 32, "float32")) == [32, 32, 1, 32]
            assert str(best.query(task.target, task.workload)) == str(task.config_space.get(18))

    def test_contexts_ask_those_around_them(self) -> None:
        with autotvm.apply_history_best(sample_records(20)[18:]), autotvm.apply_history_best(None):
            assert loops(matmul(*ARGS)) == [32, 32, 128, 4, 4]

    def test_a_context_can_be_told_a_configuration(self) -> None:
        task = sample_task()
        with autotvm.apply_history_best(None) as context:
            context.update(task.target, task.workload, task.config_space.get(18))
            with task.target:
                assert loops(matmul(*ARGS)) == [32, 32, 128, 4, 4]

    def test_records_of_another_space_are_refused(self, tmp_path: Path) -> None:
        inp, result = sample_records(1)[0]
        line = autotvm.record.encode(inp, result).replace(inp.task.inner.fingerprint, "0" * 64)
        (tmp_path / "old.log").write_text(line + "\n")
        with (
            autotvm.apply_history_best(str(tmp_path / "old.log")),
            pytest.raises(RecordError, match="are from the space 000000000000"),
        ):
            matmul(*ARGS)

    def test_what_holds_no_records_is_refused(self) -> None:
        with pytest.raises(RecordError, match="give a file of records"):
            autotvm.apply_history_best(3)

    def test_a_template_inside_another_has_its_configuration(self) -> None:
        @autotvm.template("template/outer")
        def outer(n: int) -> Any:
            return matmul(n, n, n, "float32")

        task = autotvm.task.create("template/outer", args=(128,), target="llvm")
        assert loops(task.instantiate(task.config_space.get(18))) == [32, 32, 128, 4, 4]


def test_multi_filter_in_a_template_is_about_all_of_its_knobs() -> None:
    @autotvm.template("template/filtered")
    def filtered(n: int) -> Any:
        cfg = autotvm.get_config()
        cfg.multi_filter(filter=lambda e: e["tile"].size[-1] >= 8 or e["late"].val)
        cfg.define_knob("late", [False, True])
        return scale(n)

    space = autotvm.task.create("template/filtered", args=(64,), target="llvm").config_space
    assert space.range_length == 28
    assert space.is_index_valid(1)
    assert not space.is_index_valid(0)
