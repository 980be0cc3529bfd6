"""Which sketches the rules derive: as many, and of the same structure, as Ansor's system gives."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import pegbox as pb
from pegbox import te
from pegbox.codegen.program import Program
from pegbox.errors import ArgumentError, TemplateError
from pegbox.hooks import registry
from pegbox.measure import Measurer
from pegbox.measure.result import Failed, Ok, Result
from pegbox.measure.trial.lowering import lower
from pegbox.plugins.sketch.generator import SketchGenerator, default_rules, generate_sketches, unscheduled
from pegbox.plugins.sketch.rules import Match, MultiLevelTiling, Rule, ansor_rules
from pegbox.plugins.sketch.space import Sketch, SketchSpace
from pegbox.plugins.sketch.state import State
from pegbox.plugins.sketch.steps import SketchKnob, compute_at
from pegbox.search import SearchOptions
from pegbox.search.factory import make_tuner
from pegbox.search.loop.tuning import run
from pegbox.space import Config
from pegbox.task.task import Task
from pegbox.task.workload import find_workload

TILED = ["tile", "cache+fuse(1)", "cache+fuse(2)"]
FUSED = ["fuse(1)", "fuse(2)", "tile"]


def sketches(name: str, *args: Any, cores: int = 4, rules: Any = "ansor") -> list[Sketch]:
    return generate_sketches(find_workload(name).tensors(*args), f"llvm -num-cores {cores}", rules)


@pytest.mark.parametrize(
    ("name", "args", "wanted"),
    [
        ("matmul", (512, 512, 512), TILED),
        ("matmul", (8, 512, 8), ["rfactor(parts)", "rfactor(lanes)", *TILED]),
        ("matmul_bias_relu", (512, 512, 512), FUSED),
        ("conv2d_bn_relu", (1, 56, 56, 56, 64, 3, 1, 1), FUSED),
        ("max_pool2d", (1, 56, 56, 64, 3, 2, 1), ["rfactor(parts)", "rfactor(lanes)", "plain"]),
        ("row_min", (64, 32), ["rfactor(parts)", "rfactor(lanes)", "plain"]),
        ("norm", (64, 64), ["rfactor(parts)", "rfactor(lanes)", "plain"]),
        ("conv2d_winograd", (1, 16, 14, 14, 16), TILED),
        ("elementwise_chain", (16, 16), ["plain"]),
    ],
)
def test_the_sketches_are_those_of_ansor(name: str, args: tuple[int, ...], wanted: list[str]) -> None:
    assert sorted(s.name for s in sketches(name, *args)) == sorted(wanted)


@pytest.mark.parametrize(("stride", "tiled"), [(1, True), (2, False)])
def test_windows_one_element_apart_are_tiled(stride: int, tiled: bool) -> None:
    names = {s.name for s in sketches("max_pool2d", 1, 8, 20, 20, 3, stride, 0, rules="default")}
    assert ("tile" in names) == tiled
    assert ("rfactor(lanes)" in names) == (not tiled)


@pytest.mark.parametrize(("name", "args", "count"), [("softmax", (16, 16), 9), ("matmul_chain", (64, 64, 64, 64), 9)])
def test_the_choices_of_several_stages_multiply(name: str, args: tuple[int, ...], count: int) -> None:
    assert len(sketches(name, *args)) == count


def test_a_reduction_is_not_done_in_parts_where_the_cores_have_enough_points() -> None:
    assert [s.name for s in sketches("matmul", 64, 64, 64)].count("rfactor(parts)") == 0
    assert "rfactor(parts)" in [s.name for s in sketches("matmul", 4, 64, 4)]


def test_an_ordered_reduction_is_not_done_in_parts() -> None:
    x = te.placeholder((64,), name="X")
    k = te.reduce_axis((0, 64), name="k")
    follow = te.comm_reducer(
        lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]),
        lambda f, y: (te.const(1, f), te.const(0, y)),
        name="follow",
        ordered=True,
    )
    made = te.compute((1,), lambda i: follow((x[k], x[k]), axis=k), name="R")
    found = generate_sketches([x, *made])
    assert found
    assert not [sketch.name for sketch in found if "rfactor" in sketch.name]


def code(sketch: Sketch) -> str:
    from pegbox.plugins.sketch.steps import schedule_lines

    return "\n".join(schedule_lines(sketch.steps))


def test_the_tiled_consumer_follows_the_tiles_of_its_producer() -> None:
    fused = next(s for s in sketches("matmul_bias_relu", 64, 64, 64, cores=1) if s.name == "fuse(1)")
    assert code(fused).splitlines()[:9] == [
        "C_i0, C_i1 = s[C].op.axis",
        "(C_C_k,) = s[C].op.reduce_axis",
        'C_i0_0, C_i0_1, C_i0_2, C_i0_3 = cfg["C_i0"].apply(s, C, C_i0)',
        'C_i1_0, C_i1_1, C_i1_2, C_i1_3 = cfg["C_i1"].apply(s, C, C_i1)',
        'C_C_k_0, C_C_k_1 = cfg["C_C_k"].apply(s, C, C_C_k)',
        "s[C].reorder(C_i0_0, C_i1_0, C_i0_1, C_i1_1, C_C_k_0, C_i0_2, C_i1_2, C_C_k_1, C_i0_3, C_i1_3)",
        "relu_i0, relu_i1 = s[relu].op.axis",
        'relu_i0_0, relu_i0_1 = s[relu].split(relu_i0, math.prod(cfg["C_i0"].size[1:]))',
        'relu_i1_0, relu_i1_1 = s[relu].split(relu_i1, math.prod(cfg["C_i1"].size[1:]))',
    ]
    assert "s[C].compute_at(s[relu], relu_i1_0)" in code(fused)


def test_an_elementwise_producer_is_inlined_unless_it_is_expensive() -> None:
    lines = code(sketches("elementwise_chain", 16, 16)[0])
    assert "s[twice].compute_inline()" in lines
    assert "s[both].compute_inline()" in lines
    assert "s[gate].compute_inline()" in lines  # a sigmoid counts as cheap in Ansor, an exp does not
    assert "s[power].compute_inline()" not in code(sketches("softmax", 16, 16)[0])


def test_channels_are_lanes_where_the_image_is_small() -> None:
    small = {s.name: s for s in sketches("conv2d_bn_relu", 1, 32, 14, 14, 64, 3, 1, 1, rules="default")}
    lanes = [name for name in small if name.startswith("lanes")]
    assert lanes == ["lanes(i1)+fuse(1)", "lanes(i1)+fuse(2)"]
    lines = code(small[lanes[0]])
    assert 'conv_local = s.cache_write(conv, "local", order=[0, 2, 3, 1])' in lines
    assert 'W_lanes = s.cache_read(W, "global", [conv_local], order=[1, 2, 3, 0])' in lines
    assert "s[conv].compute_inline()" in lines
    for large in (
        ("conv2d_bn_relu", 1, 8, 70, 70, 64, 3),
        ("conv2d_nhwc", 1, 14, 14, 32, 64, 3),
        ("matmul", 64, 64, 64),
    ):
        assert not [s.name for s in sketches(*large, rules="default") if s.name.startswith("lanes")]


def test_the_structure_of_tiles_is_an_option() -> None:
    tensors = find_workload("matmul").tensors(64, 64, 64)
    made = SketchGenerator(rules="ansor", structure="SSRS").sketches(tensors, pb.Target("llvm -num-cores 1"))
    assert "s[C].reorder(C_i0_0, C_i1_0, C_i0_1, C_i1_1, C_C_k, C_i0_2, C_i1_2)" in code(made[0]).replace(
        "C_k_0", "C_k"
    )


@pytest.mark.parametrize("structure", ["", "RS", "SR", "SXS"])
def test_a_structure_that_is_none_is_refused(structure: str) -> None:
    with pytest.raises(ArgumentError, match="structure"):
        SketchGenerator(structure=structure)


def test_unknown_rules_are_refused() -> None:
    with pytest.raises(ArgumentError, match="ansor"):
        SketchGenerator(rules="ansr")


class RowBlocks:
    """A user's rule: the rows of an output are computed in blocks."""

    def match(self, state: State, stage: int) -> Match:
        name = state.stages[stage]
        op = state.op(name)
        return Match.ONLY if state.is_output(name) and not op.reduce_axis else Match.NO

    def apply(self, state: State, stage: int) -> list[tuple[State, int]]:
        new = state.copy()
        name = new.stages[stage]
        new.tile(name, new.loops(name)[0], 2)
        new.applied.append("rows")
        return [(new, stage - 1)]


def test_a_rule_of_ones_own_is_asked_first() -> None:
    rules: list[Rule] = [RowBlocks(), *ansor_rules()]
    made = sketches("elementwise_chain", 16, 16, rules=rules)
    assert [s.name for s in made] == ["rows"]
    assert "gated_i" in [knob.name for knob in made[0].knobs]


def test_a_registered_rule_changes_the_default_but_not_ansors(request: pytest.FixtureRequest) -> None:
    registry.register("sketch_rule", "row_blocks", RowBlocks)
    request.addfinalizer(lambda: registry.unregister("sketch_rule", "row_blocks", owner=RowBlocks.__module__))
    assert [s.name for s in sketches("elementwise_chain", 16, 16, rules="default")] == ["rows"]
    assert [s.name for s in sketches("elementwise_chain", 16, 16, rules="ansor")] == ["plain"]


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([], "at least one rule"),
        ([RowBlocks], r"the class RowBlocks; .*RowBlocks\(\)"),
        ([7], "7 is at place 0.*rules"),
    ],
)
def test_a_list_of_something_else_than_rules_is_refused(rules: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        SketchGenerator(rules)


class Illegal(RowBlocks):
    """Computes an output inside itself."""

    def apply(self, state: State, stage: int) -> list[tuple[State, int]]:
        new = state.copy()
        name = new.stages[stage]
        new.compute_at(name, name, new.loops(name)[0])
        return [(new, stage - 1)]


class Nothing(RowBlocks):
    def apply(self, state: State, stage: int) -> list[tuple[State, int]]:
        return [state]  # type: ignore[list-item]


def test_a_rule_that_does_what_is_not_legal_is_named_with_the_program() -> None:
    with pytest.raises(TemplateError, match=r"rule Illegal at stage gated: compute_at.*\n.*given:\nnothing was done"):
        sketches("elementwise_chain", 16, 16, rules=[Illegal(), *ansor_rules()])

    class AfterTiling(Illegal):
        def match(self, state: State, stage: int) -> Match:
            return Match.ALSO if state.stages[stage] == "C" and state.tiles else Match.NO

    with pytest.raises(TemplateError, match=r"rule AfterTiling at stage C: (.*\n)+.*C_i0, C_i1 = s\[C\]\.op\.axis"):
        sketches("matmul", 64, 64, 64, rules=[MultiLevelTilingAgain(), AfterTiling(), *ansor_rules()])


class MultiLevelTilingAgain(MultiLevelTiling):
    """Tiles a stage, and looks at it again."""

    def match(self, state: State, stage: int) -> Match:
        return Match.NO if state.tiles else super().match(state, stage)

    def apply(self, state: State, stage: int) -> list[tuple[State, int]]:
        return [(made, stage) for made, _ in super().apply(state, stage)]


class IllegalWhenChosen(RowBlocks):
    """Legal while nothing is chosen: one value of its knob makes a schedule that is not."""

    def apply(self, state: State, stage: int) -> list[tuple[State, int]]:
        new = state.copy()
        name = new.stages[stage]
        knob = new.knob(SketchKnob("late", candidates=(0, 1)))
        new.choose(knob, [(1, [compute_at(name, name, new.loops(name)[0])])])
        return [(new, stage - 1)]


class Lowering(Measurer):
    """Measures a task's candidates as far as they are compiled."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.compiled: list[Config] = []

    def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
        for config in configs:
            program = lower(self.task, config, math.inf)
            if isinstance(program, Program):
                self.compiled.append(config)
            yield config, Ok((1e-3,)) if isinstance(program, Program) else program

    def remeasure(self, configs: Sequence[Config]) -> list[Result]:
        return [Ok((1e-3,)) for _ in configs]


def test_a_schedule_that_is_not_legal_is_counted_and_not_compiled() -> None:
    generator = SketchGenerator([IllegalWhenChosen(), *ansor_rules()])
    task = pb.create_task("elementwise_chain", (16, 16), space=generator, target="llvm -num-cores 1")
    measurer = Lowering(task)
    result = run(make_tuner("grid", task.space, seed=0), measurer, SearchOptions(trials=2))
    assert [config["late"].val for config in measurer.compiled] == [0]
    assert result.failures == {"invalid": 1}
    assert "failed: 1 invalid" in str(result)
    failed = next(trial.result for trial in result.trials if isinstance(trial.result, Failed))
    assert "rule IllegalWhenChosen at stage gated: compute_at(gated, i)" in failed.message


def test_a_rule_that_gives_something_else_is_named() -> None:
    with pytest.raises(TemplateError, match=r"rule Nothing at stage gated gave .*State"):
        sketches("elementwise_chain", 16, 16, rules=[Nothing(), *ansor_rules()])


def test_inputs_alone_are_nothing_to_schedule() -> None:
    with pytest.raises(TemplateError, match="nothing to schedule: \\['A'\\]"):
        generate_sketches([te.placeholder((4,), name="A")])


def test_the_default_rules_are_those_that_a_generator_has_by_itself() -> None:
    tensors = find_workload("conv2d_bn_relu").tensors(1, 32, 14, 14, 64, 3, 1, 1)
    by_name, by_list = (
        generate_sketches(tensors, "llvm -num-cores 1", rules) for rules in ("default", default_rules())
    )
    assert [s.steps for s in by_name] == [s.steps for s in by_list]


def test_a_rule_with_a_name_is_called_by_it() -> None:
    rule = Illegal()
    rule.name = "my rule"  # type: ignore[attr-defined]
    with pytest.raises(TemplateError, match="rule my rule at stage gated"):
        sketches("elementwise_chain", 16, 16, rules=[rule, *ansor_rules()])


def test_the_computation_without_a_step_is_a_sketch_that_runs() -> None:
    tensors = find_workload("matmul_bias_relu").tensors(4, 8, 16)
    plain = unscheduled(tensors)
    assert (plain.steps, plain.knobs) == ((), ())
    task = pb.create_task("matmul_bias_relu", (4, 8, 16), space=lambda *_: SketchSpace([plain]))
    assert task.space.size == 1
    assert "te.create_schedule([relu])\n" in task.schedule_code(task.space.get(0))
    assert len(task.lowered(task.space.get(0)).loops("relu")) == 2


@pb.workload("gated_product")
def gated_product(n: int, k: int, m: int) -> list[te.Tensor]:
    a, w = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="W")
    gated = te.compute((n, k), lambda i, j: a[i, j] * te.sigmoid(a[i, j]), name="gated")
    shifted = te.compute((n, k), lambda i, j: gated[i, j] + te.const(1, "float32"), name="shifted")
    r = te.reduce_axis((0, k), name="r")
    return [a, w, te.compute((n, m), lambda i, j: te.sum(shifted[i, r] * w[r, j], axis=r), name="C")]


@pb.workload("sum_of_gates")
def sum_of_gates(n: int, k: int) -> list[te.Tensor]:
    a = te.placeholder((n, k), name="A")
    gated = te.compute((n, k), lambda i, j: a[i, j] * te.sigmoid(a[i, j]), name="gated")
    r = te.reduce_axis((0, k), name="r")
    return [a, te.compute((n,), lambda i: te.sum(gated[i, r], axis=r), name="C")]


@pb.workload("gate_of_rows")
def gate_of_rows(n: int, k: int) -> list[te.Tensor]:
    a, b = te.placeholder((n,), name="A"), te.placeholder((n, k), name="B")
    gate = te.compute((n,), lambda i: te.sigmoid(a[i]), name="gate")
    return [a, b, te.compute((n, k), lambda i, j: gate[i] * b[i, j], name="C")]


@pb.workload("gate_of_elements")
def gate_of_elements(n: int, k: int) -> list[te.Tensor]:
    a = te.placeholder((n, k), name="A")
    gate = te.compute((n, k), lambda i, j: te.exp(a[i, j]), name="gate")
    return [a, te.compute((n, k), lambda i, j: gate[i, j] * a[i, j], name="C")]


@pytest.mark.parametrize(
    ("workload", "args", "inlined", "by_ansor"),
    [
        (gated_product, (8, 16, 32), {"shifted"}, {"gated", "shifted"}),
        (sum_of_gates, (8, 16), {"gated"}, {"gated"}),
        (gate_of_rows, (8, 16), set(), {"gate"}),
        (gate_of_elements, (8, 16), {"gate"}, set()),
    ],
)
def test_slow_steps_are_inlined_where_no_element_is_computed_twice(
    workload: pb.Workload, args: tuple[int, ...], inlined: set[str], by_ansor: set[str]
) -> None:
    for rules, wanted in (("default", inlined), ("ansor", by_ansor)):
        for sketch in generate_sketches(workload.tensors(*args), "llvm -num-cores 1", rules):
            found = {name for name in sketch.tensors if f"s[{name}].compute_inline()" in sketch.code(None)}
            assert found == wanted, sketch.name
