"""The code that is written for random graphs, of one configuration or as a module, makes the same programs."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fuzz.drawing import Graph
from fuzz.expressions import draw_expression_graph
from fuzz.graphs import draw_graph
from fuzz.kinds import KINDS
from hypothesis import given, settings
from hypothesis import strategies as st

import pegbox as pb
from pegbox import te
from pegbox.loops.equal import structural_equal
from pegbox.loops.passes import lower_function
from pegbox.plugins.sketch.template_module import template_module
from pegbox.schedule.te.replay import replay
from pegbox.task.task import Task
from pegbox.task.workload import Workload

graphs = st.sampled_from([draw_expression_graph, draw_graph, *KINDS.values()])


def task_of(draw: Callable[[random.Random], Graph], seed: int, cores: int) -> Task:
    tensors = draw(random.Random(seed)).tensors
    return pb.create_task(Workload("drawn", lambda: list(tensors)), space="sketch", target=f"llvm -num-cores {cores}")


def configs(task: Task, count: int) -> list[Any]:
    return [task.space.config(row) for row in task.space.sample(count, np.random.default_rng(0))]


@given(graphs, st.integers(0, 10**9), st.sampled_from([1, 4]))
@settings(max_examples=30)
def test_the_code_of_a_configuration(draw: Callable[[random.Random], Graph], seed: int, cores: int) -> None:
    task = task_of(draw, seed, cores)
    for config in configs(task, 2):
        scope: dict[str, Any] = {"te": te}
        exec(task.schedule_code(config), scope)
        made = replay(scope["s"], [scope[tensor.name] for tensor in task.tensors], task.symbol).func
        assert structural_equal(lower_function(made), task.lowered(config))


@given(graphs, st.integers(0, 10**9), st.sampled_from([1, 4]))
@settings(max_examples=25)
def test_the_module(
    tmp_path_factory: pytest.TempPathFactory, draw: Callable[[random.Random], Graph], seed: int, cores: int
) -> None:
    file = tmp_path_factory.mktemp("written") / "template.py"  # Python keeps a module of each file
    task = task_of(draw, seed, cores)
    space: Any = task.template.function
    file.write_text(template_module(space.space(task.target, (), {}), "drawn", {}))
    written = pb.create_task(f"{file}:drawn", target=task.target)
    assert written.space.fingerprint == task.space.fingerprint
    for config in configs(task, 2):
        made = written.lowered(written.space.from_json(config.to_json()))
        assert structural_equal(made, task.lowered(config), labels=False)
