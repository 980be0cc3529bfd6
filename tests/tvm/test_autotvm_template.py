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

    def test_a_configuration_is_instantiated(self) -> None:
        task = sample_task()
        config = task.config_space.get(18)
        assert (config["tile_y"].size, config["tile_x"].size) == ([-1, 4], [-1, 4])
        assert loops(task.instantiate(config)) == [32, 32, 128, 4, 4]
        assert task.inner.space.get(18) == config

    def test_it_is_made_from_the_decorated_function_too(self) -> None:
        assert autotvm.task.create(matmul, args=ARGS, target="llvm").workload == sample_task().workload
        with pytest.raises(TemplateError, match="is not a template; decorate it"):
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

    def test_what_the_template_says_of_its_flop_counts(self) -> None:
        assert autotvm.task.create("template/scale", args=(64,), target="llvm").flop == 1000


class TestNames:
    def test_a_template_may_be_called_as_one_of_pegbox(self) -> None:
        @autotvm.template("matmul")
        def own(n: int) -> Any:
            return scale(n)

        assert autotvm.task.create("matmul", args=(64,), target="llvm").config_space.range_length == 14
        assert pegbox.create_task("matmul", args=(64, 64, 64)).space.size > 14

    def test_one_name_is_for_one_function(self) -> None:
        def other(n: int) -> Any:
            return scale(n)

        with pytest.raises(PluginError, match=r"testing/matmul.* has this name already"):
            autotvm.template("testing/matmul")(other)
        assert autotvm.template("testing/matmul", matmul.__wrapped__)(*ARGS)  # the same again, as in a notebook

    @pytest.mark.parametrize("name", ["tophub", "graph_tuner", "apply_graph_best", "database", "feature"])
    def test_what_is_not_here_is_reported_with_the_way_instead(self, name: str) -> None:
        with pytest.raises(AttributeError, match=f"autotvm.{name} is not here: "):
            getattr(autotvm, name)

    def test_every_name_is_at_home_where_it_is_said_to_be(self) -> None:
        for name in dir(autotvm):
            assert getattr(autotvm, name) is not None

    def test_operators_of_topi_are_not_registered(self) -> None:
        with pytest.raises(AttributeError, match="write one function that computes and schedules"):
            autotvm.register_topi_compute("conv2d.x86")


class TestErrors:
    def test_a_refused_configuration_is_an_invalid_trial(self) -> None:
        task = autotvm.task.create("template/scale", args=(64,), target="llvm")
        bad = task.config_space.get(7 + 2)
        for make in (task.inner.schedule, task.instantiate):
            with pytest.raises(InvalidConfig, match="a loop of 4 is vectorized"):
                make(bad)
        task.inner.schedule(task.config_space.get(7 + 3))


class TestContexts:
    def test_a_template_that_nobody_tuned_is_a_fallback(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.WARNING, "autotvm"):
            assert loops(matmul(24, 8, 16, "float32")) == [24, 8, 1, 16]
            assert loops(scale(72)) == [18, 4]
            assert loops(scale(72)) == [18, 4]
            assert loops(scale(72, tile=8)) == [9, 8]
        assert sum("a fallback is used" in message for message in caplog.messages) == 3

    def test_the_best_of_the_records_is_applied_to_its_workload_only(self) -> None:
        records = sample_records(20)[18:] + sample_records(3, n=64)[2:]
        task = sample_task()
        with autotvm.apply_history_best(records) as best, tvm.target.Target("llvm"):
            assert loops(matmul(*ARGS)) == [32, 32, 128, 4, 4]
            assert loops(matmul(64, 64, 64, "float32"))[0] == 16
            assert loops(matmul(32, 32, 32, "float32")) == [32, 32, 1, 32]
            assert str(best.query(task.target, task.workload)) == str(task.config_space.get(18))

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
        with pytest.raises(RecordError, match="a file of records"), autotvm.apply_history_best([3]):
            pass

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
        made = scale(n)
        cfg.define_knob("late", [False, True])
        return made

    space = autotvm.task.create("template/filtered", args=(64,), target="llvm").config_space
    assert space.range_length == 28
    assert [space.is_index_valid(index) for index in (0, 3, 14)] == [False, True, True]
