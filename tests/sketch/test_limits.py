"""Choices that make a useless program are constraints of the space, not trials."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox.codegen.program import MOST_STRAIGHT
from pegbox.plugins.sketch.generator import SketchGenerator
from pegbox.plugins.sketch.limit import BodyLimit, Extent, TileLimit, written_out
from pegbox.plugins.sketch.space import Sketch, SketchSpace
from pegbox.plugins.sketch.steps import SketchKnob
from pegbox.plugins.sketch.template_module import template_module
from pegbox.space import Config
from pegbox.task.task import Task

TARGET = "llvm -mcpu=x86-64-v3 -num-cores 1"


def task_of(name: str, *args: int, rules: str = "default") -> Task:
    return pb.create_task(name, args, space=SketchGenerator(rules), target=TARGET)


def is_valid(config: Config) -> bool:
    return bool(config.space.is_valid(np.array([config.digits]))[0])


def chosen(task: Task, **values: Any) -> Config:
    """The configuration with these values, the first ones for all other knobs: sizes of a split, or a value."""

    def digit(name: str) -> int:
        knob = task.space.knobs[name]
        wanted = values.get(name)
        if wanted is None:
            return 0
        if isinstance(wanted, list):
            return next(n for n, entity in enumerate(knob.entities) if entity.size == wanted)
        found = knob.find(wanted)
        assert found is not None
        return found

    return Config(task.space, tuple(digit(name) for name in task.space.knobs))


@pytest.mark.parametrize(
    ("unroll", "sizes", "steps"),
    [(0, (8, 4), 8), (64, (8, 4, 2, 2), 64), (64, (8, 4, 3, 1), 32), (512, (8,), 8), (16, (32, 1, 2), 32)],
)
def test_loops_are_written_out_from_the_inside_while_the_steps_are_few_enough(
    unroll: int, sizes: tuple[int, ...], steps: int
) -> None:
    assert written_out(unroll, *sizes) == steps


def test_a_body_of_thousands_of_instructions_is_no_trial() -> None:
    task = task_of("matmul", 1024, 1024, 1024)
    tiles = {"sketch": "tile", "C_i0": [-1, 1, 4, 4], "C_i1": [-1, 1, 2, 16], "C_C_k": [-1, 16]}
    long, short = (chosen(task, **tiles, C_unroll=unroll) for unroll in (512, 64))
    assert task.lower(long).longest_block > MOST_STRAIGHT > task.lower(short).longest_block
    assert [is_valid(config) for config in (long, short)] == [False, True]
    assert any("the innermost body of C has at most about 2,000" in str(c) for c in task.space.constraints)


def test_a_reduction_in_parts_is_written_out_as_far_as_it_has_parts() -> None:
    task = task_of("norm", 64, 64)
    valid = {
        (parts, unroll): is_valid(
            chosen(task, sketch="rfactor(lanes)", squares_fused=[-1, parts], squares_unroll=unroll)
        )
        for parts in (64, 512)
        for unroll in (64, 512)
    }
    assert valid == {(64, 64): True, (64, 512): True, (512, 64): True, (512, 512): False}


def test_vectors_that_stay_a_loop_make_no_long_body() -> None:
    task = task_of("norm", 64, 64)
    config = chosen(task, sketch="rfactor(lanes)", squares_fused=[-1, 4096], squares_rf_unroll=512)
    assert is_valid(config)
    assert task.lower(config).longest_block < MOST_STRAIGHT


def test_ansors_rules_have_no_constraints() -> None:
    assert not task_of("matmul", 64, 64, 64, rules="ansor").space.constraints


def test_small_computations_need_no_limit() -> None:
    assert not task_of("row_sum", 8, 16).space.constraints


@pytest.mark.parametrize(("name", "args"), [("matmul", (64, 64, 512)), ("softmax", (8, 1024))])
def test_the_constraints_of_the_written_module_are_the_same(tmp_path: Path, name: str, args: tuple[int, ...]) -> None:
    task = task_of(name, *args)
    space = SketchGenerator()(task.tensors, task.target)
    file = tmp_path / "written.py"
    file.write_text(template_module(space, name, task.workload[1]))
    assert max(map(len, file.read_text().splitlines())) <= 120
    function = [node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)][-1]
    written = pb.create_task(f"{file}:{function}", args, target=TARGET)
    assert [str(c) for c in written.space.constraints] == [str(c) for c in task.space.constraints]
    lengths = [len(knob) for knob in task.space.knobs.values()]
    rows = task.space.structure.canonical(np.random.default_rng(0).integers(0, lengths, (200, len(lengths))))
    valid = task.space.is_valid(rows)
    assert 0 < valid.sum() < len(valid)
    assert (written.space.is_valid(rows) == valid).all()


def test_a_limit_of_one_sketch_says_nothing_of_others_with_the_same_knobs() -> None:
    knobs = SketchKnob("i", 64, 2), SketchKnob("u", candidates=(0, 16))
    made = SketchGenerator()(task_of("row_sum", 4, 4).tensors, pb.Target(TARGET)).sketches
    first = next(iter(made.values()))

    def sketch(name: str, *limits: TileLimit | BodyLimit) -> Sketch:
        return Sketch(name, first.arguments, first.tensors, knobs, limits, ())

    one = BodyLimit("u", (Extent("i", 1, lanes=2, most=16),), (3,), 1, 9, "short")
    every = TileLimit(("i",), 16, 1, 32, "small")
    of_one, of_all = SketchSpace([sketch("a", one, every), sketch("b", every)]).limits
    assert of_all == every
    assert of_one.knobs == ("sketch", "u", "i")
    space = pb.ConfigSpace()
    space.define_knob("sketch", ["a", "b"])
    for knob in knobs:
        knob.declaration(knob.name, {}).call(space, None)
    refused = [config for config in space.iterate() if not of_one.holds(config)]
    assert {(c["sketch"].val, c["i"].size[1], c["u"].val) for c in refused} == {("a", 8, 16)}
    text = eval(f"lambda c: {of_one.text('written_out')}", {"written_out": written_out})
    assert [config for config in space.iterate() if not text(config)] == refused


def test_candidates_that_are_tuples_are_written_as_tuples() -> None:
    written = SketchKnob("t", candidates=((1, 2), (2, 1), "x")).declaration("t", {}).python("cfg", None)
    assert written.endswith('[(1, 2), (2, 1), "x"])')
