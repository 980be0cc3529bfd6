"""Sketches whose vectors run along an axis that Ansor's rules leave outside: pooling of channels, transpositions."""

from __future__ import annotations

import numpy as np
import pytest
from sketch_values import check_values

from pegbox import te
from pegbox.plugins.sketch.generator import generate_sketches
from pegbox.task import create_task

TARGET = "llvm -mcpu=x86-64-v3 -num-cores 1"


def pooled(*, channels: int = 32, along: bool = False) -> list[te.Tensor]:
    x = te.placeholder((1, 6, 5, channels) if not along else (1, channels, 6, 5), name="x")
    h, w = te.reduce_axis((0, 6), name="h"), te.reduce_axis((0, 5), name="w")
    return [x, te.compute((1, channels), lambda n, c: te.sum(x[n, c, h, w] if along else x[n, h, w, c], axis=[h, w]))]


def transposed(*shape: int) -> list[te.Tensor]:
    x = te.placeholder(shape, name="x")
    return [x, te.compute((shape[-1], *shape[:-1]), lambda c, *at: x(*at, c), name="y")]


def names(tensors: list[te.Tensor]) -> list[str]:
    return [sketch.name for sketch in generate_sketches(tensors, TARGET)]


def test_neighbours_are_reduced_at_once() -> None:
    assert names(pooled()) == ["lanes"]


@pytest.mark.parametrize("tensors", [pooled(along=True), pooled(channels=4)], ids=["apart", "short"])
def test_points_that_are_apart_or_few_are_reduced_one_by_one(tensors: list[te.Tensor]) -> None:
    assert "lanes" not in names(tensors)


def test_a_transposition_is_done_in_tiles() -> None:
    assert names(transposed(16, 24)) == ["transpose"]


def test_a_transposition_of_rows_and_a_copy_have_no_tiles() -> None:
    x = te.placeholder((4, 16, 32), name="x")
    rows = te.compute((16, 4, 32), lambda a, b, c: x[b, a, c], name="y")
    copy = te.compute((4, 16, 32), lambda a, b, c: x[a, b, c] + 1.0, name="z")
    assert names([x, rows]) == names([x, copy]) == ["plain"]


def test_a_number_has_no_last_axis() -> None:
    x = te.placeholder((8, 8), name="x")
    h, w = te.reduce_axis((0, 8), name="h"), te.reduce_axis((0, 8), name="w")
    total = te.compute((), lambda: te.sum(x[h, w], axis=[h, w]), name="total")
    root = te.compute((), lambda: te.sqrt(total()), name="root")
    assert not {"lanes", "transpose"}.intersection(names([x, root]))


@pytest.mark.parametrize("tensors", [pooled(), transposed(16, 24)], ids=["pooled", "transposed"])
def test_all_choices_compute_the_same(tensors: list[te.Tensor]) -> None:
    task = create_task(tensors, space="sketch", target="llvm -num-cores 1")
    for row in task.space.sample(8, np.random.default_rng(0)):
        check_values(task, task.space.config(row))
