"""The innermost tile of a sketch: it fills vectors, hides the latency of additions, and fits the registers."""

from __future__ import annotations

import numpy as np
import pytest

import pegbox as pb
from pegbox import te
from pegbox.compute import ComputeOp
from pegbox.plugins.sketch.register_tile import aligned_extents, full_extents
from pegbox.space.split import SplitKnob

WIDE = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512 -num-cores 1"
NARROW = "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3 -num-cores 1"


def task_of(*args: object, target: str = WIDE, space: str = "sketch") -> pb.Task:
    return pb.create_task("matmul_bias_relu", args=args, space=space, target=target)


def innermosts(task: pb.Task, name: str) -> set[int]:
    knob = next(knob for knob in task.space.structure.knobs if knob.name == name)
    assert isinstance(knob, SplitKnob)
    return {split.sizes[-1] for split in knob.entities}


@pytest.mark.parametrize(
    ("extents", "full"),
    [
        ([1, 2, 4, 8, 16, 32, 64], (16, 32, 64)),
        ([1, 2, 4, 7, 8, 14, 28, 56], (56,)),  # 28 are a vector of 16, one of 8 and one of 4
        ([1, 2, 4, 8, 16, 43], (16,)),  # 43 are two vectors of 16, one of 8, one of 2 and one element
        ([1, 7], (7,)),
        ([1], (1,)),
    ],
)
def test_extents_along_vectors_are_those_that_fill_them_best(extents: list[int], full: tuple[int, ...]) -> None:
    assert full_extents(extents, 16) == full


@pytest.mark.parametrize(
    ("columns", "target", "expected"),
    [
        (500, WIDE, {16, 32, 50, 64}),  # no divisor fills vectors of 16 well
        (500, NARROW, {20, 25, 50}),
        (1000, WIDE, {20, 40, 50}),  # 40 fill two and a half
        (344, WIDE, {16, 32, 43, 64}),
        (28, WIDE, {16, 28}),
        (7, WIDE, {7}),
    ],
)
def test_where_no_divisor_fills_vectors_tiles_have_tails(columns: int, target: str, expected: set[int]) -> None:
    assert innermosts(task_of(64, 64, columns, target=target), "C_i1") == expected


@pytest.mark.parametrize(
    ("terms", "cpu", "least"),
    [
        (61, "x86-64-v3", 8),  # 61 are seven vectors of 8, one of 4 and one element
        (111, "x86-64", 4),
        (201, "x86-64", 4),  # 67 are longer than any innermost loop
    ],
)
def test_lanes_of_a_dot_product_are_those_that_the_registers_hold(terms: int, cpu: str, least: int) -> None:
    a = te.placeholder((32, terms), name="A")
    b = te.placeholder((terms,), name="B")
    k = te.reduce_axis((0, terms), name="k")
    c = te.compute((32,), lambda i: te.sum(a[i, k] * b[k], axis=k), name="C")
    task = pb.create_task([a, b, c], space="sketch", target=f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu} -num-cores 1")
    configs = [task.space.config(row) for row in task.space.sample(64, np.random.default_rng(0))]
    assert max(config["C_k"].size[-1] for config in configs) >= least


def packed(width: int) -> te.Tensor:
    a = te.placeholder((8, 64), name="A")
    b = te.placeholder((96 // width, 64, width), name="B")
    k = te.reduce_axis((0, 64), name="k")
    return te.compute((8, 96), lambda i, j: te.sum(a[i, k] * b[j // width, k, j % width], axis=k), name="C")


@pytest.mark.parametrize(("width", "expected"), [(16, [8, 16, 32, 48]), (24, [8, 24, 48]), (96, [8, 16, 24, 32, 48])])
def test_tiles_begin_and_end_with_panels(width: int, expected: list[int]) -> None:
    op = packed(width).op
    assert isinstance(op, ComputeOp)
    assert aligned_extents([8, 16, 24, 32, 48], op) == expected
    assert aligned_extents([5, 20], op) == [5, 20]


@pytest.mark.parametrize(("target", "lanes", "registers"), [(WIDE, 16, 32), (NARROW, 8, 16)])
def test_tiles_have_enough_accumulators_and_fit_the_registers(target: str, lanes: int, registers: int) -> None:
    space = task_of(256, 256, 256, target=target).space
    for row in space.sample(50, np.random.default_rng(0)):
        config = space.config(row)
        rows, last = config["C_i0"].size[-1], config["C_i1"].size[-1]
        vectors = last // lanes
        assert last % lanes == 0
        assert rows * vectors >= 8
        assert rows * vectors + vectors + 1 <= registers


def test_small_shapes_have_the_tiles_that_there_are() -> None:
    space = task_of(3, 128, 5).space
    assert len(space.sample(5, np.random.default_rng(0))) == 5


def test_a_refused_tile_is_reported_with_the_reason() -> None:
    space = task_of(256, 256, 256).space
    row = space.sample(1, np.random.default_rng(0))[0].tolist()
    knobs = {knob.name: n for n, knob in enumerate(space.structure.knobs)}
    knob = space.structure.knobs[knobs["C_i0"]]
    assert isinstance(knob, SplitKnob)
    row[knobs["C_i0"]] = next(n for n, split in enumerate(knob.entities) if split.sizes[-1] == 64)
    (message,) = space.violated(space.config(row))
    assert "the tile of C takes at least 8 vectors" in message


def test_a_tile_may_stay_in_registers_for_the_whole_sum_but_not_with_ansors_rules() -> None:
    assert max(innermosts(task_of(64, 512, 64), "C_C_k")) == 512
    assert max(innermosts(task_of(64, 512, 64, space="sketch:rules=ansor"), "C_C_k")) == 64
