"""Graphs and spaces that are not the usual ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox import te
from pegbox.errors import ArgumentError, ComputeError, TemplateError
from pegbox.expr.low_level import Broadcast
from pegbox.measure.trial.check import Tolerance, difference
from pegbox.plugins.sketch.generator import SketchGenerator, generate_sketches
from pegbox.plugins.sketch.rules import Match, Rule, Skip, ansor_rules
from pegbox.plugins.sketch.state import State
from pegbox.task.task import Task
from pegbox.task.workload import Workload

N = 8


def inputs(*names: str, shape: tuple[int, ...] = (N, N)) -> list[te.Tensor]:
    return [te.placeholder(shape, name=name) for name in names]


def product(a: te.Tensor, b: te.Tensor, name: str) -> te.Tensor:
    k = te.reduce_axis((0, N), name=f"{name}_k")
    return te.compute((N, N), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name=name)


def two_products() -> list[te.Tensor]:
    a, b, c, d = inputs("A", "B", "C", "D")
    x, y = product(a, b, "X"), product(c, d, "Y")
    return [a, b, c, d, te.compute((N, N), lambda i, j: x[i, j] + y[i, j], name="Z")]


def product_and_two_vectors() -> list[te.Tensor]:
    (a, b), (u, v) = inputs("A", "B"), inputs("u", "v", shape=(N,))
    x = product(a, b, "X")
    return [a, b, u, v, te.compute((N, N), lambda i, j: x[i, j] + u[i] + v[j], name="Z")]


def output_that_another_reads() -> list[te.Tensor]:
    a, b = inputs("A", "B")
    x = product(a, b, "X")
    return [a, b, x, te.compute((N, N), lambda i, j: te.maximum(x[i, j], 0.0), name="relu")]


def stage_of_two_values() -> list[te.Tensor]:
    (a,) = inputs("A")
    x, y = te.compute((N, N), lambda i, j: (a[i, j] + 1.0, a[i, j] * 2.0), name="T")
    return [a, te.compute((N, N), lambda i, j: x[i, j] * y[i, j], name="Z")]


def one_input_of_two_products() -> list[te.Tensor]:
    a, b, c = inputs("A", "B", "A_packed")
    return [a, b, c, product(a, b, "X"), product(a, c, "Y")]


def outer_product() -> list[te.Tensor]:
    a, b = inputs("A", "B", shape=(N,))
    return [a, b, te.compute((N, N), lambda i, j: a[i] * b[j], name="Z")]


def names_of_knobs() -> list[te.Tensor]:
    a, b = inputs("A", "B")
    unroll = te.reduce_axis((0, N), name="unroll")
    x = te.compute((N, N), lambda at, parallel: te.sum(a[at, unroll] * b[unroll, parallel], axis=unroll), name="X")
    return [a, b, te.compute((N, N), lambda i, j: te.exp(x[i, j]) - x[j, i], name="Z")]


def names_of_made_stages() -> list[te.Tensor]:
    (a,) = inputs("A_local")
    s = te.compute((N, N), lambda i, j: te.exp(a[i, j]), name="S_rf")
    k = te.reduce_axis((0, N), name="k")
    return [a, te.compute((N,), lambda i: te.sum(s[i, k], axis=k), name="S")]


GRAPHS = [
    two_products, product_and_two_vectors, output_that_another_reads, stage_of_two_values, one_input_of_two_products,
    outer_product, names_of_knobs, names_of_made_stages,
]  # fmt: skip


def task_of(graph: Callable[[], Sequence[te.Tensor]], cores: int, space: Any = "sketch") -> Task:
    return pb.create_task(Workload(graph.__name__, graph), space=space, target=f"llvm -num-cores {cores}")


def check(task: Task, config: Any) -> None:
    rng = np.random.default_rng(0)
    given = [rng.integers(-2, 3, a.shape).astype(a.dtype) for a in task.arguments() if not a.is_output]
    wanted = task.reference(given)
    made = [np.full(a.shape, 7, a.dtype) for a in task.arguments() if a.is_output]
    sources, outputs = iter(given), iter(made)
    pb.build(task, config=config)(*(next(outputs if a.is_output else sources) for a in task.arguments()))
    for got, expected in zip(made, wanted, strict=True):
        assert difference("output", got, expected, Tolerance.of(wanted, flop=task.flop)) is None, str(config)


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.__name__)
@pytest.mark.parametrize("cores", [1, 4])
def test_every_sample_is_a_program_and_some_are_run(graph: Callable[[], Sequence[te.Tensor]], cores: int) -> None:
    task = task_of(graph, cores)
    configs = [task.space.config(row) for row in task.space.sample(16, np.random.default_rng(0))]
    for config in configs:
        task.schedule(config)
    for config in configs[:2]:
        check(task, config)


def test_a_stage_called_like_a_made_one_hides_no_sketch() -> None:
    assert [s.name for s in generate_sketches(names_of_made_stages(), "llvm -num-cores 1", "ansor")] == [
        "rfactor(parts)",
        "rfactor(lanes)",
        "plain",
    ]


@pytest.mark.parametrize("name", ["conv2d", "layer_norm"])
def test_knobs_that_depend_on_others_exist_in_every_sketch_that_has_them(name: str) -> None:
    args = (1, 4, 6, 6, 8, 3, 1, 1) if name == "conv2d" else (9, 40)
    task = pb.create_task(name, args=args, space="sketch", target="llvm -num-cores 4")
    space = task.template.function.space(task.target, task.args, task.kwargs)  # type: ignore[attr-defined]
    for own, (knob, users) in space.declared.items():
        if knob.when is not None:
            assert len({space.names(space.sketches[user])[knob.when[0]] for user in users}) == 1, own


# Rules that misbehave ----------------------------------------------------------------------------------------------


class Base:
    def match(self, state: State, stage: int) -> Match:
        return Match.ALSO

    def apply(self, state: State, stage: int) -> Any:
        return [(state.copy(), stage - 1)]


class Raises(Base):
    def match(self, state: State, stage: int) -> Match:
        raise KeyError("nope")


class NoMatch(Base):
    def match(self, state: State, stage: int) -> Match:
        return "no"  # type: ignore[return-value]


class NoList(Base):
    def apply(self, state: State, stage: int) -> Any:
        return None


class FarStage(Base):
    def apply(self, state: State, stage: int) -> Any:
        return [(state.copy(), stage + 5)]


class Forever(Base):
    def apply(self, state: State, stage: int) -> Any:
        return [(state.copy(), stage)]


class Mutates(Base):
    def apply(self, state: State, stage: int) -> Any:
        state.tile(state.stages[stage], state.loops(state.stages[stage])[0], 2)
        return [(state, stage - 1)]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (Raises, r"rule Raises at stage Z raised KeyError: 'nope'"),
        (NoMatch, r"rule NoMatch at stage Z: match gave 'no'"),
        (NoList, r"rule NoList at stage Z gave None"),
        (FarStage, r"rule FarStage at stage Z gave"),
        (Forever, r"more than \d[\d,]* sketches"),
        (Mutates, r"rule Mutates at stage Z changed the sketch that it was given"),
    ],
)
def test_rules_that_misbehave_are_named(rule: type[Rule], message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        generate_sketches(outer_product(), "llvm -num-cores 1", [rule(), *ansor_rules()])


def test_a_documented_rule_works_on_products() -> None:
    class RowBlocks(Base):
        def match(self, state: State, stage: int) -> Match:
            name = state.stages[stage]
            op = state.op(name)
            return Match.ONLY if state.is_output(name) and not op.reduce_axis and op.axis else Match.NO

        def apply(self, state: State, stage: int) -> Any:
            new = state.copy()
            new.tile(new.stages[stage], new.loops(new.stages[stage])[0], levels=2)
            return [(new, stage - 1)]

    task = task_of(product_and_two_vectors, 1, SketchGenerator([RowBlocks(), *ansor_rules()]))
    for row in task.space.sample(10, np.random.default_rng(0)):
        task.schedule(task.space.config(row))


# Arguments ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rules", [3, None, [], [1], [Skip], Skip()])
def test_what_are_no_rules_is_refused(rules: Any) -> None:
    with pytest.raises(ArgumentError, match="rules"):
        SketchGenerator(rules=rules)


@pytest.mark.parametrize("structure", ["S", "SS", "SSS", None, 3, ["S", "S"]])
def test_more_structures_that_are_none_are_refused(structure: Any) -> None:
    with pytest.raises(ArgumentError, match="structure"):
        SketchGenerator(structure=structure)


@pytest.mark.parametrize("tensors", ["abc", [1], None, 3])
def test_what_are_no_tensors_is_refused(tensors: Any) -> None:
    with pytest.raises(ArgumentError, match="tensors"):
        generate_sketches(tensors)


def test_arguments_of_the_kernel_are_complete() -> None:
    a, b, z = outer_product()
    with pytest.raises(TemplateError, match=r"inputs that are not among the arguments: B"):
        generate_sketches([a, z])
    with pytest.raises(TemplateError, match="Z is given twice"):
        generate_sketches([a, b, z, z])


def test_a_very_long_axis_is_no_burden() -> None:
    x = te.placeholder((2**30 + 3, 4), name="X")
    k = te.reduce_axis((0, 4), name="k")
    w = te.placeholder((4, 4), name="W")
    y = te.compute((2**30 + 3, 4), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), name="Y")
    assert len(generate_sketches([x, w, y], "llvm -num-cores 1", "default")) >= 3


def test_a_tensor_may_be_called_like_a_loop_that_threads_share() -> None:
    a = te.placeholder((N, N), name="out_fused")
    task = pb.create_task(
        Workload("fused", lambda: [a, te.compute((N, N), lambda i, j: te.exp(a[i, j]), name="out")]),
        space="sketch",
        target="llvm -num-cores 4",
    )
    for config in task.space.iterate():
        check(task, config)
        scope: dict[str, Any] = {"te": te}
        exec(task.schedule_code(config), scope)
        assert isinstance(scope["out_fused"], te.Tensor)


# Graphs that are none -----------------------------------------------------------------------------------------------


def dynamic() -> list[te.Tensor]:
    A = te.placeholder((te.var("n"),), name="A")
    return [A, te.compute(A.shape, lambda i: A[i] + 1.0, name="B")]


def with_a_vector_node() -> list[te.Tensor]:
    A = te.placeholder((4,), name="A")
    return [A, te.compute((4,), lambda i: Broadcast(A[i], 4), name="B")]


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (dynamic, r"A: its size n is a variable; here sizes are needed: give numbers"),
        (with_a_vector_node, r"B: broadcast\(A\[i\], 4\)"),
    ],
)
def test_what_no_schedule_can_have_is_refused(graph: Callable[[], list[te.Tensor]], message: str) -> None:
    with pytest.raises(ComputeError, match=message):
        task_of(graph, 1)


def test_a_cycle_is_refused() -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: te.exp(A[i]), name="B")
    C = te.compute((4,), lambda i: te.exp(B[i]), name="C")
    i = B.op.axis[0]  # type: ignore[attr-defined]
    B.op.body, B.op._inputs = (C[i],), (C,)  # type: ignore[attr-defined]  # nothing public makes one
    with pytest.raises(TemplateError, match="B reads C, which needs B itself: a cycle"):
        generate_sketches([A, C], "llvm -num-cores 1")
