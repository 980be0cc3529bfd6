"""The short way from stages to a nest gives what the schedule's program has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pegbox.errors import InvalidConfig
from pegbox.features.describe import LAYOUT, describe
from pegbox.features.footprint import Known
from pegbox.features.from_te import nest_of_stages
from pegbox.features.index import Loop, Sum
from pegbox.features.nest import nest_of_function
from pegbox.features.symbol import product
from pegbox.task.config_view import ApplyingConfig
from pegbox.task.task import Task

TASKS: list[tuple[Any, ...]] = [
    ("matmul", 64, 96, 80), ("matmul", 300, 70, 100), ("matmul", 3, 64, 256), ("matmul", 40, 64, 5),
    ("batch_matmul", 9, 32, 48, 40), ("stubborn", 12, 20, 16), ("windowed", 24, 16, 3),
    ("centered", 12, 40),
]  # fmt: skip


@pytest.mark.parametrize("which", TASKS, ids=str)
def test_stages_and_the_replayed_program_are_described_alike(task_of: Callable[..., Task], which: Any) -> None:
    task = task_of(*which)
    for row in task.space.sample(8, np.random.default_rng(3)):
        config = task.space.config(row)
        try:
            stages, tensors = task._run(ApplyingConfig(config, task.target))
        except InvalidConfig:
            continue
        short = describe(nest_of_stages(stages, tensors), 64, holds=bool, known=Known())
        whole = describe(nest_of_function(task.schedule(config).func), 64, holds=bool, known=Known())
        unlike = {name: (short[at], whole[at]) for name, at in LAYOUT.items() if short[at] != whole[at]}
        assert not unlike, str(config)


@pytest.mark.parametrize("tile", [1, 2, 4, 12])
def test_a_stage_that_rolls_computes_what_it_has_not_kept(task_of: Callable[..., Task], tile: int) -> None:
    """Each tile of a stage that does not roll has the rows of its neighbours again."""
    task = task_of("windowed", 24, 16, 3)
    rows = {}
    for config in (task.space.get(i) for i in range(len(task.space))):
        if config["ty"].size[-1] == tile and config["tx"].size[-1] == 16:
            nest = nest_of_function(task.schedule(config).func)
            made = next(s for s in nest.statements if s.name == "B")
            rows[config["rolls"].val] = product(loop.extent for loop in made.loops) // 16
    assert rows[False] == 24 // tile * (tile + 2)
    assert 24 + 2 <= rows[True] < min(rows[False], 24 + 2 + 24 // tile)


def test_counts_for_one_program_serve_programs_with_other_loop_objects(task_of: Callable[..., Task]) -> None:
    task = task_of("matmul", 64, 96, 80)
    config = task.space.config(task.space.sample(1, np.random.default_rng(0))[0])
    known, sizes, described = Known(), [], []
    for _ in range(2):
        nest = nest_of_stages(*task._run(ApplyingConfig(config, task.target)))
        described.append(describe(nest, 64, holds=bool, known=known))
        sizes.append((len(known.forms), len(known.counted), len(known.touched)))
    assert described[0] == described[1]
    assert sizes[0] == sizes[1]


def test_indices_of_loops_with_other_extents_have_other_forms() -> None:
    known = Known()
    short, long, same = (Sum(((Loop(name, extent), 4),)) for name, extent in (("i", 8), ("j", 9), ("k", 8)))
    assert known.form(short).number == known.form(same).number != known.form(long).number
    both = Sum((*short.terms, *same.terms))
    assert known.form(both).number == known.form(Sum((*same.terms, *short.terms))).number
    assert known.form(both).number != known.form(Sum((*short.terms, *short.terms))).number
